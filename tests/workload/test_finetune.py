"""Adapters of frozen weights: what is trained, what is held, and what runs."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.scenario.load import load
from clustersim.simulation.step.build import build_job
from clustersim.workload.finetune import Finetune, frozen_bytes, linears, trainable, tuned_flops
from clustersim.workload.flops import model_flops
from clustersim.workload.kernels import Collective, Gemm, Overlapped, Stream
from clustersim.workload.layers import layer_ops
from clustersim.workload.layers.adapters import linear
from clustersim.workload.layers.ends import embedding_ops, head_ops
from clustersim.workload.layers.pieces import column_op, row_op
from clustersim.workload.model import Layer, Transformer
from clustersim.workload.ops import backward
from clustersim.workload.parameters import layer_parameters
from clustersim.workload.slice import PRECISIONS, Slice
from slices import kernel_facts

MODEST = settings(max_examples=20, deadline=None)
ALL = frozenset({"qkv", "output", "mlp"})
LLAMA_70B = Transformer(
    "llama2-70b", 80, 8192, 64, 28672, 32000, 2048,
    kv_heads=8, norm="rms", mlp="gated", positions="rotary", tied=False,
    biases=frozenset(), dropout=False
)  # fmt: skip
CHOICE = kernel_facts()
PLAIN = Layer()


@st.composite
def shapes(draw):
    """Rows, columns and inner dimension of a linear layer, and the rank of its adapter."""
    return tuple(64 * draw(st.integers(1, 40)) for _ in range(3)), draw(st.integers(1, 128))


def part_of(finetune, micro=1, tensor=1):
    """What a rank computes on when some of the model is trained."""
    return replace(Slice(LLAMA_70B, micro, tensor, CHOICE), finetune=finetune)


def lora(rank=64, method="lora", bits=16, quantiser="bnb", targets=ALL):
    """A choice of what is trained."""
    return Finetune(method, rank, targets, bits, quantiser)


def products(kernels):
    """FLOPs of the matrix products in a chain."""
    return sum(kernel.flops for kernel in kernels if isinstance(kernel, Gemm))


def passes(kernels, word):
    """Bytes of the passes whose name has a word in it."""
    return sum(k.nbytes for k in kernels if isinstance(k, Stream) and word in k.name)


# --- what is trained ------------------------------------------------------------------------------


def test_products_that_scale_what_they_make_save_a_pass_over_the_output_each_way():
    """Two reads and writes of 2048 x 4096 numbers of 16 bits forward, and as many backward."""
    plain = part_of(lora())
    scaled = replace(plain, kernels=kernel_facts(adapters_scaled=True))
    apart, inside = (linear(part, "output", "output", 2048, 4096, 8192) for part in (plain, scaled))
    saved = 2 * 2 * 2048 * 4096

    assert passes(apart.forward, "adapter") - passes(inside.forward, "adapter") == saved
    assert passes(apart.backward, "adapter") - passes(inside.backward, "adapter") == saved
    assert products(apart.forward) == products(inside.forward)


def test_a_frozen_weight_costs_no_gradient():
    """Neither of embedding nor logits, and a layer's are summed up for what is trained of it.

    Logits are three products of the same size in training and two with adapters.
    """
    whole, tuned = part_of(None), part_of(lora())
    three, two = (products(backward(head_ops(part))) for part in (whole, tuned))
    summed = {
        part: passes(backward(layer_ops(part, PLAIN)), "layer gradient sum")
        for part in (whole, tuned)
    }

    assert two == pytest.approx(three / 2)
    assert list(backward(embedding_ops(tuned))) == []
    for part in (whole, tuned):
        held = trainable(LLAMA_70B, PLAIN, part.finetune).all
        assert summed[part] == CHOICE.gradient_accumulation * held


def test_a_low_rank_adapter_trains_r_times_inputs_and_outputs():
    """Rank 64 on every linear layer of Llama 2 70B trains 828 million of 69 billion.

    A layer has q 8192 x 8192, k and v 8192 x 1024, o 8192 x 8192, gate, up and down 8192 x 28672:
    64 (2 x 16,384 + 2 x 9,216 + 3 x 36,864) = 10,354,688, and there are 80.
    """
    assert trainable(LLAMA_70B, PLAIN, lora()).all == 10_354_688
    assert 80 * 10_354_688 == 828_375_040


def test_layers_that_are_one_have_one_adapter():
    """Queries, keys and values, and gate and up, read one A; each keeps its columns of B."""
    apart, merged = lora(), replace(lora(), merged=True)
    saved = 64 * 8192 * (2 + 1)

    assert trainable(LLAMA_70B, PLAIN, apart).all - trainable(LLAMA_70B, PLAIN, merged).all == saved
    columns = (8192, 1024, 1024)
    one, three = (linear(part_of(f), "qkv", "qkv", 2048, columns, 8192) for f in (merged, apart))
    assert sum(k.name == "qkv adapter down" for k in one.forward) == 1
    assert sum(k.name == "qkv adapter down" for k in three.forward) == 3
    assert products(three.forward) - products(one.forward) == 2 * (2 * 2048 * 8192 * 64)


def test_an_adapter_without_dropout_keeps_its_input_and_no_mask():
    """With dropout m k numbers and their mask are kept apart; without, the input."""
    drops, none = (
        linear(part_of(replace(lora(), dropout=printed)), "up", "mlp", 2048, 28672, 8192)
        for printed in (True, False)
    )

    assert passes(drops.forward, "dropout") == 5 * 2048 * 8192
    assert passes(none.forward + none.backward, "dropout") == 0
    assert (drops.inputs, none.inputs) == (0, 2 * 2048 * 8192)
    assert drops.inside - none.inside == 3 * 2048 * 8192


def test_frozen_products_in_8_bits_cast_what_they_read_in_one_way():
    """Input and gradient are read in 16 bits and written in 8 once: 3 B a number."""
    part = replace(part_of(lora(targets=frozenset())), precision=PRECISIONS["fp8"])
    found = linear(part, "up", "mlp", 2048, 28672, 8192)

    assert passes(found.forward, "cast") == 3 * 2048 * 8192
    assert passes(found.backward, "cast") == 3 * 2048 * 28672


def test_products_of_an_adapter_stay_in_16_bits():
    """Layers in 8 bits are Transformer Engine's; an adapter next to one is not."""
    part = replace(part_of(lora()), precision=PRECISIONS["fp8"])
    found = linear(part, "up", "mlp", 2048, 28672, 8192)
    small = [k for k in found.forward + found.backward if isinstance(k, Gemm) and "adapt" in k.name]

    assert {(kernel.peak, kernel.width) for kernel in small} == {("bf16", 2)}


def gathers(op):
    """Bytes gathered over the tensor group in the forward and the backward of an operation."""
    chains = (op.forward, op.backward)
    return [sum(k.nbytes for k in chain if isinstance(k, Collective)) for chain in chains]


def test_a_frozen_layer_does_not_gather_its_input_again():
    """Only the weight gradient reads the input, so the backward has the reduction alone."""
    tokens, width = 2048, 2
    split = replace(part_of(lora(targets=frozenset()), tensor=4), sequence_parallel=True)
    trained = replace(split, finetune=None)
    up, same = (column_op("up", part, "up", "mlp", 7168, 8192) for part in (split, trained))

    assert gathers(up) == [width * tokens * 8192] * 2
    assert gathers(same) == [width * tokens * 8192, 2 * width * tokens * 8192]


def test_tokens_that_an_adapter_reads_are_gathered_in_16_bits():
    """Without an adapter they are cast to 8 bits first."""
    part = replace(part_of(lora(), tensor=4), sequence_parallel=True, precision=PRECISIONS["fp8"])
    bare = replace(part, finetune=lora(targets=frozenset()))
    with_adapter, without = (column_op("up", p, "up", "mlp", 7168, 8192) for p in (part, bare))

    assert gathers(with_adapter)[0] == 2 * gathers(without)[0]


def test_collectives_overlap_with_the_products_of_frozen_weights():
    """With pipelining the largest product is cut, not that of an adapter in front of it."""
    piped = kernel_facts(tensor_pipelined=True)
    part = replace(part_of(lora(), tensor=4), sequence_parallel=True, kernels=piped)
    down = row_op("down", part, "down", "mlp", 8192, 7168)
    overlapped = [k for k in down.forward + down.backward if isinstance(k, Overlapped)]

    assert [k.kernels[0].name for k in overlapped] == ["down", "down input gradient"]


def test_targets_choose_the_layers_that_have_an_adapter():
    """Adapters of the targets add up to the adapters of all."""
    each = [trainable(LLAMA_70B, PLAIN, lora(targets=frozenset({name}))).all for name in ALL]

    assert sum(each) == trainable(LLAMA_70B, PLAIN, lora()).all
    assert min(each) > 0


def test_dora_trains_one_magnitude_more_for_each_output():
    """DoRA has a magnitude for each of the outputs of every linear layer."""
    outputs = sum(each.outputs for each in linears(LLAMA_70B))
    extra = trainable(LLAMA_70B, PLAIN, lora(method="dora")).all
    extra -= trainable(LLAMA_70B, PLAIN, lora()).all

    assert extra == outputs == 2 * 8192 + 2 * 1024 + 2 * 28672 + 8192


@MODEST
@given(st.integers(1, 256), st.sampled_from([1, 2, 4, 8]), st.sampled_from(["lora", "dora"]))
def test_tensor_ranks_hold_adapters_once_and_their_repeated_sides_again(rank, tensor, method):
    """All tensor ranks hold the adapters, and the side that no rank shares once for each more."""
    found = trainable(LLAMA_70B, PLAIN, lora(rank, method))

    held = tensor * found.dense(tensor)
    assert held == pytest.approx(found.all + (tensor - 1) * found.whole)


def test_without_finetuning_everything_is_trained_and_nothing_is_frozen():
    """A model that is trained as a whole has no frozen bytes."""
    assert trainable(LLAMA_70B, PLAIN, None) == layer_parameters(LLAMA_70B, PLAIN)
    assert frozen_bytes(LLAMA_70B, PLAIN, None).weights.all == 0


# --- what is held ---------------------------------------------------------------------------------


def test_nf4_takes_an_eighth_of_a_bit_for_its_constants():
    """8 bits for a block of 64 and 32 for 256 blocks: 0.127 bits a weight, QLoRA section 3."""
    assert 8 * lora(bits=4).constants(8192) == pytest.approx(0.127, abs=5e-4)


@pytest.mark.parametrize("quantiser", ["bnb", "hqq"])
@pytest.mark.parametrize("bits", [4, 8])
def test_frozen_linear_layers_take_their_bits(bits, quantiser):
    """Of a layer only the linear ones are stored in few bits; its norms stay wide."""
    found = frozen_bytes(LLAMA_70B, PLAIN, lora(bits=bits, quantiser=quantiser))
    sizes = sum(each.inputs * each.outputs for each in linears(LLAMA_70B))
    norms = layer_parameters(LLAMA_70B, PLAIN).all - sizes

    assert norms == 2 * 8192
    assert found.weights.all == pytest.approx(sizes * bits / 8 + 2 * norms)
    assert 0 < found.constants.all < 0.05 * sizes


# --- what runs ------------------------------------------------------------------------------------


@MODEST
@given(shapes())
def test_a_frozen_linear_layer_has_no_gradient_of_its_weight(shape):
    """Frozen without an adapter, the backward is one product instead of two, and keeps nothing."""
    (m, n, k), _ = shape
    frozen = linear(part_of(lora(targets=frozenset())), "x", "qkv", m, n, k)
    whole = linear(part_of(None), "x", "qkv", m, n, k)

    assert products(frozen.forward) == products(whole.forward) == 2 * m * n * k
    assert products(frozen.backward) == products(whole.backward) / 2
    assert frozen.inputs == frozen.inside == 0
    assert whole.inputs == 2 * m * k


@MODEST
@given(shapes())
def test_an_adapter_adds_two_products_forward_and_four_backward(shape):
    """Forward 2 m n k + 2 m r (n + k), backward twice the adapter and once the frozen weight."""
    (m, n, k), rank = shape
    found = linear(part_of(lora(rank)), "x", "mlp", m, n, k)

    adapter = 2 * m * rank * (n + k)
    assert products(found.forward) == pytest.approx(2 * m * n * k + adapter)
    assert products(found.backward) == pytest.approx(2 * m * n * k + 2 * adapter)


@MODEST
@given(shapes(), st.sampled_from([4, 8]), st.sampled_from(["bnb", "hqq"]))
def test_a_quantised_weight_is_made_wide_before_each_product(shape, bits, quantiser):
    """Forward and backward read every weight in its bits and write it in two bytes."""
    (m, n, k), _ = shape
    finetune = lora(bits=bits, quantiser=quantiser)
    found = linear(part_of(finetune), "x", "qkv", m, n, k)

    once = (bits / 8 + finetune.constants(k) + 2) * n * k
    assert passes(found.forward, "dequantisation") == pytest.approx(once)
    assert passes(found.backward, "dequantisation") == pytest.approx(once)
    assert passes(linear(part_of(lora()), "x", "qkv", m, n, k).forward, "dequantisation") == 0


@MODEST
@given(shapes())
def test_dora_computes_the_norm_of_the_summed_weight_forward_only(shape):
    """A B is one product of n k r more in the forward; no gradient passes through the norm."""
    (m, n, k), rank = shape
    dora = linear(part_of(lora(rank, "dora")), "x", "mlp", m, n, k)
    plain = linear(part_of(lora(rank)), "x", "mlp", m, n, k)

    assert products(dora.forward) - products(plain.forward) == pytest.approx(2 * n * k * rank)
    assert products(dora.backward) == pytest.approx(products(plain.backward))


@MODEST
@given(shapes(), st.integers(2, 3))
def test_linear_layers_side_by_side_are_one_product_only_where_they_are_trained(shape, count):
    """Trained ones are fused, frozen ones run one by one, with the same work."""
    (m, n, k), _ = shape
    trained = linear(part_of(None), "x", "qkv", m, [n] * count, k)
    frozen = linear(part_of(lora(targets=frozenset())), "x", "qkv", m, [n] * count, k)

    assert len(trained.forward) == 1
    assert len(frozen.forward) == count
    assert products(trained.forward) == products(frozen.forward)


def test_frozen_weights_take_two_thirds_of_the_work():
    """Forward and the gradient of the input: four FLOPs a weight and token, attention apart.

    Llama 2 70B has 68.71 billion weights in products; attention takes 12 l h s more for a token.
    """
    finetune = lora(targets=frozenset({"qkv"}), rank=1)
    work = model_flops(LLAMA_70B, 1) + tuned_flops(LLAMA_70B, finetune, 1)
    weights = 80 * sum(each.inputs * each.outputs for each in linears(LLAMA_70B)) + 8192 * 32000

    assert work / 2048 == pytest.approx(4 * weights + 12 * 80 * 8192 * 2048, rel=1e-4)


# --- frozen ends ----------------------------------------------------------------------------------

ENDS = "[embedding, logits]"


FULL, FROZEN = "finetune.method=full", f"finetune.frozen={ENDS}"


@pytest.mark.parametrize("name", ["fugaku-30b-pp48", "llama3-405b-16k"])
def test_frozen_ends_have_no_gradients_and_no_states(name):
    """They keep their weights; layers are trained, and the products for them remain."""
    whole, frozen = (build_job(load(name, changes)) for changes in ([], [FULL, FROZEN]))
    stages = range(whole.plan.pipeline)
    untrained = [
        whole.weights.trained(stage).all - frozen.weights.trained(stage).all for stage in stages
    ]
    vocabulary = whole.model.vocab * whole.model.hidden

    assert untrained[0] >= vocabulary
    assert untrained[-1] >= vocabulary
    assert not any(untrained[1:-1])
    for stage in stages:
        width = whole.state.weights
        assert frozen.weights.frozen(stage).weights.all == pytest.approx(width * untrained[stage])
        assert whole.weights.frozen(stage).weights.all == 0
    assert products(backward(embedding_ops(frozen.shard))) == 0
    assert (
        products(backward(head_ops(frozen.shard))) == products(backward(head_ops(whole.shard))) / 2
    )
    assert [op.backward for op in layer_ops(frozen.shard, PLAIN)] == [
        op.backward for op in layer_ops(whole.shard, PLAIN)
    ]


def test_frozen_logits_save_a_third_of_their_flops():
    """They have a product forward and one for the gradient of their input."""
    logits = model_flops(LLAMA_70B, 1) - model_flops(replace(LLAMA_70B, vocab=1), 1)
    saved = tuned_flops(LLAMA_70B, None, 1, frozenset({"logits"}))

    assert -saved == pytest.approx(logits / 3, rel=1e-3)
    assert tuned_flops(LLAMA_70B, None, 1, frozenset({"embedding"})) == 0
