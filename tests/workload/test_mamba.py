"""Mamba-2 layers: their FLOPs by a second road, their parts over ranks, and what they keep."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.catalog.records.models import MambaShape
from clustersim.workload.flops import layer_forward_flops, model_flops, rescanned_flops, scan_flops
from clustersim.workload.kernels import Gemm, flat
from clustersim.workload.layers import layer_ops, ops_by_part
from clustersim.workload.model import KINDS, Layer, Transformer
from clustersim.workload.ops import backward, forward, kept
from clustersim.workload.optimisers import matrices
from clustersim.workload.parameters import layer_parameters, parameters_by_part
from clustersim.workload.slice import PRECISIONS
from slices import collectives, flops, slice_of

MAMBA = KINDS["M"]
MODEST = settings(max_examples=20, deadline=None)


@st.composite
def hybrids(draw):
    """Small models of Mamba-2, attention and MLPs, whose chunks divide their sequences."""
    groups, chunk = draw(st.sampled_from([4, 8])), 2 ** draw(st.integers(2, 7))
    pattern = draw(st.text("M*-", min_size=1, max_size=6))
    return Transformer(
        "any",
        layers=len(pattern),
        hidden=64 * draw(st.integers(1, 8)),
        heads=8,
        ffn=64 * draw(st.integers(1, 16)),
        vocab=draw(st.integers(1, 1000)),
        sequence=chunk * draw(st.integers(1, 16)),
        norm="rms",
        positions="none",
        tied=False,
        biases=frozenset(),
        dropout=False,
        mamba=MambaShape(
            heads=groups * 4 * draw(st.integers(1, 4)),
            head_size=8 * draw(st.integers(1, 8)),
            groups=groups,
            state=16 * draw(st.integers(1, 8)),
            chunk=chunk,
            rule=draw(st.sampled_from(["sum", "delta"])),
        ),
        attention_gate=draw(st.booleans()),
        pattern=pattern,
    )


def named(ops, name):
    """Return the operation of a name."""
    return next(op for op in ops if op.name == name)


def test_nemotron_h_8b_has_the_weights_of_its_modules():
    """Each tensor of a layer, by the shapes of the modules of transformers, `nemotron_h`."""
    model = Transformer(
        "nemotron", layers=3, hidden=4096, heads=32, kv_heads=8, ffn=21504, vocab=8, sequence=8,
        norm="rms", positions="none", tied=False, biases=frozenset(), dropout=False,
        mamba=MambaShape(heads=128, head_size=64, groups=8, state=128, chunk=128), pattern="M*-",
    )  # fmt: skip
    norm, convolved = 4096, 8192 + 2 * 8 * 128
    mamba = {
        "in_proj": 4096 * (8192 + convolved + 128), "conv1d.weight": convolved * 4,
        "conv1d.bias": convolved, "dt_bias": 128, "A_log": 128, "D": 128, "norm": 8192,
        "out_proj": 8192 * 4096,
    }  # fmt: skip
    attention = 4096 * (32 + 8 + 8) * 128 + 32 * 128 * 4096
    counts = [layer_parameters(model, layer).all for layer in model.stack]

    assert counts == [
        sum(mamba.values()) + norm,
        attention + norm,
        2 * 4096 * 21504 + norm,
    ]
    assert layer_parameters(model, MAMBA).whole == norm


@MODEST
@given(hybrids())
def test_the_kernels_of_a_scan_add_up_to_its_closed_form(model):
    """Forward as Dao and Gu count it; backward twice that, and what it computes again."""
    part, shape = slice_of(model), model.mamba
    scan = named(layer_ops(part, MAMBA), "scan")
    single = replace(model, layers=1, pattern="M")

    assert flops(scan.forward) == pytest.approx(scan_flops(shape, model.sequence), rel=1e-12)
    expected = 2 * scan_flops(shape, model.sequence) + rescanned_flops(single, 1)
    assert flops(scan.backward) == pytest.approx(expected, rel=1e-12)


@MODEST
@given(hybrids(), st.integers(2, 8))
def test_a_scan_grows_with_the_sequence_and_attention_with_its_square(model, times):
    """As many times the tokens have as many times the FLOPs, bytes and saved activations."""
    longer = replace(model, sequence=times * model.sequence, longest=0)
    short, long = (layer_ops(slice_of(each), MAMBA) for each in (model, longer))
    before, after = (layer_forward_flops(each, Layer()) for each in (model, longer))

    assert flops(forward(long)) == pytest.approx(times * flops(forward(short)), rel=1e-12)
    assert flops(backward(long)) == pytest.approx(times * flops(backward(short)), rel=1e-12)
    assert kept(long) == pytest.approx(times * kept(short), rel=1e-12)
    assert after["attention"] == pytest.approx(times**2 * before["attention"], rel=1e-12)


@MODEST
@given(hybrids(), st.sampled_from([2, 4]), st.booleans())
def test_tensor_ranks_share_the_work_and_the_weights_of_mamba(model, tensor, sequence_parallel):
    """All ranks together compute the FLOPs and hold the split weights of one; two collectives."""
    whole = layer_ops(slice_of(model), MAMBA)
    split = layer_ops(slice_of(model, tensor, sequence_parallel=sequence_parallel), MAMBA)
    columns = named(whole, "mamba in").forward[0].n

    for way in (forward, backward):
        assert tensor * flops(way(split)) == pytest.approx(flops(way(whole)), rel=1e-12)
    assert tensor * named(split, "mamba in").forward[-1].n == columns
    assert tensor * named(split, "scan").inputs == named(whole, "scan").inputs
    assert len(collectives(forward(split))) == (2 if sequence_parallel else 1)
    parameters = parameters_by_part(model, MAMBA)["Mamba"]
    held = parameters.all + (tensor - 1) * parameters.whole
    assert parameters.dense(tensor) * tensor == held


@MODEST
@given(hybrids(), st.sampled_from([2, 4]))
def test_context_ranks_scan_some_heads_of_all_tokens(model, context):
    """All ranks together compute the FLOPs of one, between two exchanges each way."""
    model = replace(model, sequence=2 * context * model.sequence, longest=0)
    whole = named(layer_ops(slice_of(model), MAMBA), "scan")
    shared = named(layer_ops(slice_of(model, context=context), MAMBA), "scan")

    assert context * flops(shared.forward) == pytest.approx(flops(whole.forward), rel=1e-12)
    assert context * flops(shared.backward) == pytest.approx(flops(whole.backward), rel=1e-12)
    for chain in (shared.forward, shared.backward):
        assert [kernel.operation for kernel in collectives(chain)] == ["all-to-all"] * 2
        assert {kernel.axis for kernel in collectives(chain)} == {"context"}


def test_more_context_ranks_than_groups_compute_the_products_of_a_group_again():
    """Groups of two whose heads are on eight ranks: each rank has its own products of B and C."""
    shape = MambaShape(heads=16, head_size=8, groups=2, state=16, chunk=16)
    model = replace(TINY, mamba=shape, sequence=256)
    whole, shared = (
        named(layer_ops(slice_of(model, context=context), MAMBA), "scan") for context in (1, 8)
    )
    group = 2 * 256 * 16 * 16  # FLOPs of the products of one group

    assert 8 * flops(shared.forward) == flops(whole.forward) + (8 - 2) * group
    assert shared.inputs * 8 > whole.inputs


TINY = Transformer(
    "tiny", layers=2, hidden=64, heads=4, ffn=128, vocab=8, sequence=64, norm="rms",
    positions="none", tied=False, biases=frozenset(), dropout=False, pattern="M-",
    mamba=MambaShape(heads=16, head_size=8, groups=4, state=16, chunk=16),
)  # fmt: skip


def test_a_mamba_layer_keeps_what_its_kernels_save():
    """Inputs of norms and products, the scan's input and result; neither states nor x, B and C."""
    shape, tokens, w = TINY.mamba, TINY.sequence, 2
    layer = layer_ops(slice_of(TINY), MAMBA)
    columns = 2 * 128 + 2 * 4 * 16 + 16
    of_scan = columns + 128  # input, and result before the gate

    assert shape.columns == columns
    assert kept(layer) == w * tokens * (64 + 64 + of_scan + 128 + 128)
    assert kept(layer, {"scan"}) == kept(layer) - w * tokens * 128


def test_a_delta_rule_also_keeps_what_is_convolved():
    """Queries, keys and values of 16 heads, queries and keys of 4, inverses, shares and decay."""
    delta = replace(TINY, mamba=TINY.mamba.model_copy(update={"rule": "delta"}))
    scan, other = (named(layer_ops(slice_of(each), MAMBA), "scan") for each in (delta, TINY))
    numbers = 2 * (16 + 4) * 16 + 16 * 8 + 16 * (16 + 1)

    assert scan.inside - other.inside == 64 * (2 * numbers + 4 * 16)
    assert scan.inputs - other.inputs == 64 * 2 * 16
    equal = replace(delta, mamba=delta.mamba.model_copy(update={"groups": 16}))
    assert scan.inside - named(layer_ops(slice_of(equal), MAMBA), "scan").inside == 64 * 2 * 128


def test_a_layer_of_a_pattern_has_one_norm_and_one_residual():
    """Mamba-2, attention and an MLP each stand alone; together the last two are a usual layer."""
    part = slice_of(TINY)
    parts = {letter: set(ops_by_part(part, KINDS[letter])) for letter in "M*-"}

    assert parts == {
        "M": {"gradients", "mamba"},
        "*": {"gradients", "attention"},
        "-": {"gradients", "mlp"},
    }
    both = [op.name for letter in "*-" for op in layer_ops(part, KINDS[letter])[1:]]
    assert both == [op.name for op in layer_ops(part, Layer())[1:]]
    norms = [op.name for op in layer_ops(part, MAMBA) if op.name.endswith("norm")]
    assert norms == ["mamba norm", "scan norm"]


def test_attention_and_an_mlp_in_layers_of_their_own_cost_as_much_as_in_one():
    """A pattern without Mamba-2 has the weights and FLOPs of half as many usual layers."""
    apart = replace(TINY, pattern="*-*-", layers=4, mamba=None)
    usual = replace(apart, pattern=None, layers=2)

    assert model_flops(apart, 1) == model_flops(usual, 1)
    assert sum(layer_parameters(apart, layer).all for layer in apart.stack) == sum(
        layer_parameters(usual, layer).all for layer in usual.stack
    )


def test_muon_updates_the_projection_of_the_result_of_mamba_alone():
    """The other projection joins parts of several kinds, so that AdamW updates it."""
    shapes = {
        letter: [(each.rows, each.columns) for each in matrices(TINY, KINDS[letter])]
        for letter in "M-"
    }

    assert shapes == {"M": [(64, 128)], "-": [(64, 128)]}


def test_products_of_a_scan_stay_in_16_bits():
    """In a recipe of 8 bits the projections are in 8 bits, as of attention."""
    layer = layer_ops(slice_of(TINY, precision=PRECISIONS["fp8"]), MAMBA)
    peaks = {
        op.name: {kernel.peak for kernel in flat(op.forward) if isinstance(kernel, Gemm)}
        for op in layer
    }

    assert peaks["mamba in"] == peaks["mamba out"] == {"fp8"}
    assert peaks["scan"] == {"bf16"}
