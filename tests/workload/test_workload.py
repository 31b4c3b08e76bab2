"""Models: parameters, FLOPs, kernels and bytes against formulas and published counts."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boxes import training
from clustersim.render.tables import UNMASKED
from clustersim.reports.step.text import rows
from clustersim.scenario.entries import entry
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate
from clustersim.workload.flops import (
    attention_flops,
    hardware_flops,
    layer_forward_flops,
    model_flops,
)
from clustersim.workload.kernels import Flash, flat
from clustersim.workload.layers import layer_ops
from clustersim.workload.layers.ends import boundary_gather
from clustersim.workload.model import Transformer, build_model, padded_vocab
from clustersim.workload.ops import (
    backward,
    forward,
    kept,
    kept_for_weights,
    of_inputs,
    of_weights,
    op_names,
)
from clustersim.workload.parameters import (
    embedding_parameters,
    head_parameters,
    layer_parameters,
    model_parameters,
)
from slices import PLAIN, block, collectives, flops, kernel_facts, moved
from slices import slice_of as slice_by

MODEST = settings(max_examples=20, deadline=None)


def built(name, tensor=1):
    record = entry("model", name).record
    return build_model(record, record.sequence, 128, tensor)


def slice_of(model, tensor=1, micro=1, attention="unfused", **facts):
    return slice_by(model, tensor, micro, attention, **facts)


GPT3 = built("gpt-175b", tensor=8)


@st.composite
def transformers(draw):
    """Small transformers whose every dimension a tensor degree of 4 divides, f = 4 h."""
    heads = 4 * draw(st.integers(1, 8))
    hidden = heads * 8 * draw(st.integers(1, 16))
    vocab = 512 * draw(st.integers(1, 100))
    sequence = 64 * draw(st.integers(1, 32))
    return Transformer("any", draw(st.integers(1, 100)), hidden, heads, 4 * hidden, vocab, sequence)


# --- parameters -----------------------------------------------------------------------------------


@MODEST
@given(transformers())
def test_parameters_are_those_of_the_formula(model):
    """P = 12 l h^2 (1 + 13 / 12 h + (V + s) / 12 l h), Narayanan et al. eq. 2, and a final norm."""
    l, h, V, s = model.layers, model.hidden, model.vocab, model.sequence  # noqa: E741
    formula = 12 * l * h**2 * (1 + 13 / (12 * h) + (V + s) / (12 * l * h))

    assert model_parameters(model) == pytest.approx(formula + 2 * h, rel=1e-12)


@MODEST
@given(transformers(), st.sampled_from([1, 2, 4]), st.integers(1, 8), st.integers(1, 4))
def test_ranks_hold_every_parameter_and_the_copies(model, tensor, stages, layers):
    """All ranks hold the model, the tied embedding twice, and what each tensor rank repeats.

    Repeated on every tensor rank are two norms and two biases of each block, the positions and the
    final norm.
    """
    model = replace(model, layers=stages * layers)
    h, block = model.hidden, layer_parameters(model, PLAIN)
    ends = embedding_parameters(model).plus(head_parameters(model, alone=stages > 1))
    ranks = model.layers * block.dense(tensor) + ends.dense(tensor)
    repeated = model.layers * 6 * h + model.sequence * h + 2 * h
    tied = 0 if stages == 1 else model.vocab * h

    expected = model_parameters(model) + tied + (tensor - 1) * repeated
    assert tensor * ranks == pytest.approx(expected, rel=1e-12)


@MODEST
@given(st.integers(1, 300_000), st.sampled_from([1, 64, 128]), st.sampled_from([1, 2, 8]))
def test_a_padded_vocabulary_divides_evenly_and_is_the_smallest(vocab, multiple, tensor):
    """The padded vocabulary is the first one from `vocab` on that every rank can share."""
    padded = padded_vocab(vocab, multiple, tensor)

    assert padded % (multiple * tensor) == 0
    assert vocab <= padded < vocab + multiple * tensor


@pytest.mark.parametrize(("tensor", "padded"), [(1, 50304), (2, 50432), (4, 50688), (8, 51200)])
def test_the_vocabulary_of_gpt2_is_padded_as_megatron_does(tensor, padded):
    """50,257 tokens in multiples of 128 for each tensor rank."""
    assert padded_vocab(50257, 128, tensor) == padded


# --- FLOPs ----------------------------------------------------------------------------------------


def fully(model):
    """Return every layer with all its operations, as full recomputation runs them again."""
    repeated_ = op_names(layer_ops(slice_of(model), PLAIN))
    return [(layer, repeated_) for layer in model.stack]


def test_a_step_of_gpt3_takes_4_51e18_flops():
    """96 x 1536 x 2048 x 96 x 12288^2 x (1 + 2048 / 73728 + 51200 / 18874368) = 4.51e18.

    300 billion tokens are 95,367 such steps, 4.30e23 FLOPs: 4.29e23 are published.
    """
    assert hardware_flops(GPT3, 1536, fully(GPT3)) == pytest.approx(4.51e18, rel=5e-4)


@MODEST
@given(transformers(), st.integers(1, 4096))
def test_step_flops_are_those_of_the_formulas(model, batch):
    """F = 96 B s l h^2 (1 + s / 6 h + V / 16 l h) recomputed, 72 B s l h^2 (... V / 12 l h) not."""
    l, h, V, s = model.layers, model.hidden, model.vocab, model.sequence  # noqa: E741
    block = batch * s * l * h**2
    recomputed = 96 * block * (1 + s / (6 * h) + V / (16 * l * h))
    needed = 72 * block * (1 + s / (6 * h) + V / (12 * l * h))

    assert hardware_flops(model, batch, fully(model)) == pytest.approx(recomputed, rel=1e-12)
    assert model_flops(model, batch) == pytest.approx(needed, rel=1e-12)
    assert hardware_flops(model, batch, []) == model_flops(model, batch)


@pytest.mark.parametrize(
    "name", ["mixtral-8x7b", "deepseek-v3.2", "nemotron-h-8b", "qwen3-next-80b-a3b"]
)
def test_full_recomputation_runs_the_forward_of_all_layers_again(name):
    """Each operation with FLOPs is one that is recomputed; scores of an indexer were left out."""
    model = build_model(entry("model", name).record, 4096, 1, 1)
    shard = slice_of(model)
    every = [(layer, op_names(layer_ops(shard, layer))) for layer in model.stack]
    forward = sum(sum(layer_forward_flops(model, layer).values()) for layer in model.stack)

    assert hardware_flops(model, 1, every) - model_flops(model, 1) == pytest.approx(forward)


@MODEST
@given(transformers(), st.sampled_from([1, 2, 4]), st.booleans())
def test_gradients_of_weights_are_as_much_work_as_the_linear_layers(model, tensor, overlap):
    """A backward is split without loss; its weights' part does the FLOPs of the linear layers."""
    part = slice_of(model, tensor, tensor_overlap=overlap)
    whole = backward(block(part))
    inputs, weights = of_inputs(whole), of_weights(whole)
    linear = sum(
        part for name, part in layer_forward_flops(model, PLAIN).items() if name != "attention"
    )

    assert sorted(flat(inputs) + flat(weights)) == sorted(flat(whole))
    assert flops(weights) == pytest.approx(linear / tensor, rel=1e-12)
    assert collectives(weights) == []


@MODEST
@given(transformers(), st.integers(1, 4))
def test_32_sbh_wait_for_the_gradients_of_weights(model, micro):
    """Both factors of the four weights' gradients: 14 s b h of inputs and 18 of outputs."""
    part = slice_of(model, 1, micro)

    expected = 32 * model.sequence * micro * model.hidden
    assert kept_for_weights(block(part)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("attention", ["unfused", "math", "fused-softmax", "flash"])
def test_a_block_has_four_all_reduces(attention):
    """Two forward and two backward over the tensor group, six with recomputation; none alone.

    Each carries b s h numbers of 2 bytes: 1 x 2,048 x 12,288 x 2 B = 50.3 MB.
    """
    part, alone = slice_of(GPT3, 8, 1, attention), slice_of(GPT3, 1, 1, attention)
    ahead, back = collectives(forward(block(part))), collectives(backward(block(part)))

    assert [len(ahead), len(back)] == [2, 2]
    assert {k.operation for k in ahead + back} == {"all-reduce"}
    assert {k.nbytes for k in ahead + back} == {2.0 * 2048 * 12288}
    assert collectives([*forward(block(alone)), *backward(block(alone))]) == []
    assert boundary_gather(alone, 2) == []
    assert len(boundary_gather(part, 2)) == 2


# --- memory ---------------------------------------------------------------------------------------


@MODEST
@given(transformers(), st.sampled_from([1, 2, 4]), st.integers(1, 8))
def test_tensor_ranks_share_all_activations_but_ten(model, tensor, micro):
    """A rank of t keeps s b h (10 + 24 / t + 5 a s / h t), and 2 s b h where it recomputes.

    Alone it keeps s b h (34 + 5 a s / h).  Flash attention keeps a number of each row instead.
    """
    s, b, h, a, t = model.sequence, micro, model.hidden, model.heads, tensor
    rest = s * b * h * (10 + 24 / t)
    rows = 4 * b * a * s / t

    ops = block(slice_of(model, t, b))
    assert kept(ops) == pytest.approx(rest + 5 * a * s * s * b / t, rel=1e-12)
    assert kept(ops, op_names(ops)) == 2 * s * b * h
    assert kept(block(slice_of(model, t, b, "flash"))) == pytest.approx(rest + rows, rel=1e-12)


def state_bytes(framework, precision):
    recipe = entry("framework", framework).record.state[precision]
    parts = (recipe.weights, recipe.gradients, recipe.optimiser, recipe.master)
    return sum(part for part in parts if part is not None)


@pytest.mark.parametrize(
    ("framework", "precision", "nbytes"),
    [
        ("megatron-deepspeed", "fp16", 2 + 2 + 12),
        ("megatron-deepspeed", "bf16", 2 + 6 + 12),
        ("megatron-lm", "fp16", 2 + 2 + 16),
        ("megatron-lm", "bf16", 2 + 4 + 12),
        ("megatron-lm-2022", "fp16", 2 + 4 + 12),
    ],
)
def test_profiles_state_their_bytes_for_each_parameter(framework, precision, nbytes):
    """Weights, gradients and optimiser of mixed-precision Adam, copies as the code keeps them."""
    assert state_bytes(framework, precision) == nbytes


@pytest.mark.parametrize(
    ("name", "terabytes"), [("gpt-22b", 0.308), ("gpt-175b", 2.45), ("gpt-1t", 14.0)]
)
def test_fourteen_bytes_a_parameter_make_the_frontier_table(name, terabytes):
    """The Frontier paper's 308 GB, 2.45 TB and 14 TB are 14 B for each parameter, to 1 %."""
    assert 14 * model_parameters(built(name)) == pytest.approx(terabytes * 1e12, rel=0.01)


def test_fused_kernels_move_the_bytes_that_they_must_and_unfused_ones_more():
    """By hand for GPT-3 on 8 ranks: scores 12 x 2,048^2, MLP 2,048 x 6,144 numbers.

    Softmax: half a row read and a row written in 2 bytes, 3 B; unfused cast, scale, mask, softmax
    and cast back, 6 + 8 + 8 + 8 + 6 = 36 B forward and four more backward. GELU: 4 B, and 4 more
    for a bias of its own.
    """
    fused, unfused = (slice_of(GPT3, 8, 1, how) for how in ("fused-softmax", "unfused"))
    apart = replace(unfused, kernels=kernel_facts("unfused", bias_gelu_fused=False))
    together = replace(unfused, kernels=kernel_facts("unfused", bias_gelu_fused=True))
    scores, inner = 12 * 2048**2, 2048 * 6144

    assert moved(forward(block(fused)), "softmax") == 3 * scores
    assert moved(backward(block(fused)), "softmax backward") == 4 * scores
    assert moved(forward(block(unfused)), "softmax") == 36 * scores
    assert moved(backward(block(unfused)), "softmax backward") == 40 * scores
    assert moved(forward(block(together)), "gelu") == 4 * inner
    assert moved(forward(block(apart)), "gelu") == 8 * inner


def test_attention_by_operations_of_pytorch_moves_the_matrix_in_its_own_width():
    """The mask reads and writes each score, so does the softmax; backward two reads and a write."""
    part = slice_of(GPT3, 8, 1, "math")
    scores, queries = 12 * 2048**2, 2048 * 12 * 128

    assert moved(forward(block(part)), "softmax") == (4 + 4) * scores
    assert moved(backward(block(part)), "softmax backward") == 6 * scores
    assert moved(forward(block(part)), "scaling") == 2 * 4 * queries
    assert moved(forward(block(part)), "head copies") == 3 * 4 * queries


def test_fused_softmax_refuses_shapes_that_its_kernel_does_not_take():
    """Attention matrices that are no multiple of four run unfused, as in the framework."""
    taken, refused = slice_of(GPT3, 8, 1, "fused-softmax"), slice_of(GPT3, 48, 1, "fused-softmax")

    assert taken.attention == "fused-softmax"
    assert refused.attention == "unfused"


@pytest.mark.parametrize(
    ("name", "words"),
    [("frontier-22b", "executed without masked attention"), ("megatron21-t1-1.7b", "executed (")],
)
def test_masked_attention_that_does_not_run_is_named(name, words):
    """Also where recomputation executes more than the model's FLOPs; unfused kernels run it."""
    ran = simulate(name)
    text = {row.label: row.text for row in rows(ran)}

    assert ran.executed_flops > ran.model_flops
    assert words in text["FLOP rate"]


def test_hfu_was_above_100_percent_at_long_sequences():
    """At 524,288 tokens the published convention exceeds the peak; HFU counts what runs.

    MFU keeps the convention, and a line states it where it exceeds 100 %.  The executed FLOPs of
    attention are those of the kernels of a rank, on all ranks.
    """
    plan, batch = {"data": 8, "zero": 1}, (8, 1, 524288)
    loaded = training("dgx-a100", 1, "llama3-8b", plan, batch, "megatron-core", recompute="full")
    job, ran = build_job(loaded), simulate(loaded)
    result = replace(ran, step_time=0.68 * ran.step_time)  # as with faster attention
    (layer,) = dict.fromkeys(job.model.stack)
    (op,) = (op for op in job.layers.ops(layer) if op.name == "attention")
    kernels = flat([*op.forward, *op.forward, *op.backward])
    attention = sum(kernel.flops for kernel in kernels if isinstance(kernel, Flash))
    others = result.hardware_flops - 4 * 8 * attention_flops(job.model)
    text = {row.label: row.text for row in rows(result)}

    assert result.hfu < 1 < result.mfu < result.metric("hfu")
    assert text["MFU"] == UNMASKED
    assert result.executed_flops == pytest.approx(others + attention * 32 * 8)
