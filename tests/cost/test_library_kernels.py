"""Kernels as libraries and frameworks run them: attention by library, copies, casts, pipelining."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boxes import training
from clustersim.cost.compute import chain_seconds
from clustersim.cost.kernels.attention import flash_seconds
from clustersim.cost.kernels.products import gemm_seconds
from clustersim.program.movement.sharding import layer_fetch
from clustersim.program.tail import copy_seconds
from clustersim.scenario.entries import entry
from clustersim.simulation.step.build import build_job
from clustersim.timeline import BACKWARD, FORWARD
from clustersim.topology.accelerator import build_accelerator
from clustersim.validation.cases.machines import FrameworkChoice
from clustersim.validation.cases.rows import parse_entries
from clustersim.validation.cases.settings import case_settings
from clustersim.workload.kernels import Collective, Flash, Gemm, Head, Overlapped, Stream, flat
from clustersim.workload.layers import layer_ops
from clustersim.workload.model import Layer, Transformer
from clustersim.workload.ops import backward, forward
from clustersim.workload.slice import PRECISIONS, Slice
from enumerated import joint_traffic
from slices import kernel_facts

MODEST = settings(max_examples=20, deadline=None)

LLAMA = Transformer(
    "llama", 4, 1024, 16, 3072, 32000, 512, kv_heads=4, norm="rms", mlp="gated",
    positions="rotary", tied=False, biases=frozenset(), dropout=False
)  # fmt: skip
H100, A100 = (
    build_accelerator(entry("accelerator", name).record) for name in ("h100-sxm", "a100-80gb")
)


def kernels(model=LLAMA, tensor=1, micro=2, precision="bf16", shared=False, **facts):
    """Return the kernels of a layer, forward and backward."""
    choice = kernel_facts(gradient_accumulation=0.0, **facts)
    part = Slice(
        model, micro, tensor, choice, sequence_parallel=shared, precision=PRECISIONS[precision]
    )
    ops = layer_ops(part, Layer())
    return forward(ops), backward(ops)


def bytes_of(chain, name):
    return sum(k.nbytes for k in flat(chain) if isinstance(k, Stream) and name in k.name)


# --- attention ------------------------------------------------------------------------------------

CURVES = {
    (False, 128, False): (260, 298, 319, 333, 335),
    (False, 64, False): (229, 262, 284, 295, 299),
    (True, 128, False): (410, 484, 518, 529, 539),
    (True, 64, False): (288, 334, 363, 379, 388),
}
"""TFLOP/s under a causal mask for 1,024 to 16,384 tokens, by cuDNN, width of a head, and way: Shah
et al. 2024, arXiv:2407.08608, Figure 5."""


@pytest.mark.parametrize(("which", "measured"), CURVES.items())
def test_fused_attention_on_an_h100_keeps_to_its_measured_curve(which, measured):
    """Within 4 % at every length, for both libraries and both widths of heads.

    16,384 tokens in sequences of that length, with heads of 2,048 numbers together.
    """
    cudnn, width, back = which
    for place, rate in enumerate(measured):
        tokens = 1024 * 2**place
        heads = 2048 // width * 16384 // tokens
        flops = 2.0 * heads * width * tokens**2
        head = Head(heads, heads, width, width, 2 * width)
        kernel = Flash("core", flops, 0.0, width, back, tokens, cudnn=cudnn, head=head)
        found = flops / (flash_seconds(kernel, H100) - H100.launch_overhead)

        assert found / 1e12 == pytest.approx(rate, rel=0.04)


def test_few_heads_wait_for_the_longest_tile():
    """One head of 4,096 tokens has 32 tiles, for a quarter of the units of an H100."""
    flops = 2.0 * 128 * 4096**2
    alone, many = (
        flash_seconds(
            Flash("core", n * flops, 0.0, 128, False, 4096, head=Head(n, n, 128, 128, 256)), H100
        )
        for n in (1, 128)
    )

    assert many < 64 * alone


@MODEST
@given(st.integers(256, 65536), st.sampled_from([64, 128]), st.booleans(), st.booleans())
def test_longer_sequences_and_wider_heads_never_run_slower(sequence, head, back, cudnn):
    """The rate rises with the length of a sequence, and from narrow to wide heads."""

    def seconds(tokens, width):
        return flash_seconds(Flash("core", 1e15, 0.0, width, back, tokens, cudnn=cudnn), H100)

    assert seconds(2 * sequence, head) <= seconds(sequence, head)
    assert seconds(sequence, 128) <= seconds(sequence, head)


def test_cudnn_is_taken_only_where_the_device_is_known_with_it():
    """On an A100, whose file has no cuDNN kernels, requesting them changes nothing."""
    plain = Flash("core", 1e15, 0.0, 128, False, 4096)
    requested = plain._replace(cudnn=True)

    assert flash_seconds(requested, A100) == flash_seconds(plain, A100)
    assert flash_seconds(requested, H100) < 0.7 * flash_seconds(plain, H100)


# --- copies ---------------------------------------------------------------------------------------


def test_copies_around_attention_by_hand():
    """1,024 tokens of 16 query heads of 64 and 4 of keys and values: each copy reads and writes.

    Forward 1 x 1,024 + 3 x 512 + 1 x 1,024 numbers a token, backward 2 x 1,024 + 3 x 512 + 1,024,
    of 2 bytes, once read and once written. The result of one sequence is not copied.
    """
    facts = {"query_copies": (1, 2), "key_copies": (3, 3), "result_copies": (1, 1)}
    ahead, back = kernels(micro=2, **facts)
    alone, _ = kernels(micro=1, **facts)

    assert bytes_of(ahead, "head copies") == 2 * 2 * 1024 * (1024 + 3 * 512 + 1024)
    assert bytes_of(back, "head copies") == 2 * 2 * 1024 * (2 * 1024 + 3 * 512 + 1024)
    assert bytes_of(alone, "head copies") == 2 * 2 * 512 * (1024 + 3 * 512)


def test_keys_and_values_that_are_repeated_are_copied_and_read_as_often():
    """4 heads of keys and values become 16: they are read once, written and read 4 times wider."""
    plain, repeated = (kernels(kv_repeated=each)[0] for each in (False, True))
    read = [next(k.nbytes for k in chain if isinstance(k, Flash)) for chain in (plain, repeated)]

    assert bytes_of(plain, "key value copies") == 0
    assert bytes_of(repeated, "key value copies") == 2 * 1024 * (4 + 16) * 128
    assert read[1] - read[0] == 2 * 1024 * (16 - 4) * 128


# --- eight bits -----------------------------------------------------------------------------------


@MODEST
@given(st.integers(0, 8), st.integers(0, 8))
def test_weights_that_are_cast_in_every_pass_cost_their_bytes(ahead, back):
    """The given bytes for each weight of the linear layers, and none in 16 bits."""
    facts = {"weight_cast_forward": float(ahead), "weight_cast_backward": float(back)}
    weights = 1024 * (1024 + 2 * 256) + 1024 * 1024 + 3 * 1024 * 3072
    narrow, wide = kernels(precision="fp8", **facts), kernels(precision="bf16", **facts)

    assert bytes_of(narrow[0], "weight cast") == ahead * weights
    assert bytes_of(narrow[1], "weight again cast") == back * weights
    assert bytes_of(wide[0], "cast") == bytes_of(wide[1], "cast") == 0


DEPTHS = {1024: 1129, 2048: 1343, 4096: 1467, 8192: 1507, 16384: 1541}
"""TFLOP/s of 8192 x 8192 products of 8-bit numbers by depth: TileLang, benchmark/matmul_fp8."""


def test_products_of_eight_bits_lose_to_a_small_depth_as_measured():
    """From 16,384 to 1,024 deep their rate falls as on an H800, within 4 %."""

    def rate(depth):
        product = Gemm("product", 8192, 8192, depth, peak="fp8", width=1)
        return product.flops / gemm_seconds(product, H100)

    for depth, measured in DEPTHS.items():
        assert rate(depth) / rate(16384) == pytest.approx(measured / DEPTHS[16384], rel=0.04)


@MODEST
@given(st.integers(1024, 16384), st.integers(1024, 16384), st.integers(1024, 16384))
def test_eight_bits_are_about_twice_as_fast(m, n, k):
    """Half of the bytes and twice the peak, nor slower, from 1,024 up.

    Fits of both formats are apart: 1.3 % of shapes are above twice, by the loads of a unit.
    """
    wide = gemm_seconds(Gemm("product", m, n, k), H100)
    narrow = gemm_seconds(Gemm("product", m, n, k, peak="fp8", width=1), H100)

    assert 0.4 * wide <= narrow <= 1.05 * wide


# --- collectives that overlap with their products -------------------------------------------------


@MODEST
@given(st.sampled_from([2, 4, 8]), st.floats(0, 1e-2))
def test_a_collective_piece_by_piece_takes_its_closed_form(tensor, moved):
    """max(T, (t - 1) C / t) + C / t for the gather of a product C cut into t pieces."""
    ahead, _ = kernels(tensor=tensor, micro=8, shared=True, tensor_pipelined=True)
    first = next(i for i, kernel in enumerate(ahead) if isinstance(kernel, Overlapped))
    both = ahead[first : first + 2]
    piece = gemm_seconds(both[1], H100)

    assert Counter(both[0].kernels) == {both[1]: tensor - 1}
    assert chain_seconds(both, H100, lambda _: moved).busy == pytest.approx(
        max(moved, (tensor - 1) * piece) + piece
    )


@MODEST
@given(st.sampled_from([2, 4, 8]), st.booleans())
def test_pipelining_moves_the_same_bytes_and_computes_the_same(tensor, shared):
    """The same collectives and FLOPs; without shared tokens nothing changes at all."""
    plain, cut = (
        kernels(tensor=tensor, shared=shared, tensor_pipelined=each) for each in (False, True)
    )
    for one, other in zip(plain, cut, strict=True):
        moved = [[k for k in flat(c) if isinstance(k, Collective)] for c in (one, other)]
        done = [sum(k.flops for k in flat(c) if isinstance(k, Gemm)) for c in (one, other)]

        assert moved[0] == moved[1]
        assert done[0] == done[1]
        assert shared or one == other


def test_shares_of_a_sum_are_added_up_in_a_pass_of_their_own():
    """A sum of X bytes over t ranks reads X and writes X / t behind each of two products."""
    ahead, _ = kernels(tensor=4, micro=2, shared=True, tensor_pipelined=True)
    summed = [k for k in flat(ahead) if isinstance(k, Collective) and "reduce" in k.operation]

    assert len(summed) == 2
    assert bytes_of(ahead, "partial sums") == sum(k.nbytes for k in summed) * (1 + 1 / 4)


# --- what a pipeline keeps ------------------------------------------------------------------------


def pipelined(kept):
    """Llama 2 7B on two stages, its weights shared out and kept from forward to backward."""
    plan = {"data": 4, "pipeline": 2, "zero": 3, "reshard": False}
    changes = ("framework.sharding.each_microbatch=false", f"{KEPT}={kept}")
    return build_job(
        training("dgx-h100", 1, "llama2-7b", plan, (32, 1, 2048), "torchtitan", *changes)
    )


KEPT = "framework.sharding.kept_in_pipeline"


def test_weights_kept_in_a_pipeline_are_gathered_once_a_step():
    """Given up in every backward they come for each microbatch; kept, once for all of them."""
    once, each = pipelined("true"), pipelined("false")
    stacked = [job.layers.stacked(0, 0)[0] for job in (once, each)]

    assert layer_fetch(once, stacked[0], FORWARD) == []
    assert len(layer_fetch(each, stacked[1], FORWARD)) == 1
    assert layer_fetch(each, stacked[1], BACKWARD) == []
    assert ("parameters", 0, "data") in joint_traffic(once)
    assert ("parameters", 0, "data") not in joint_traffic(each)


# --- shares that the host copies ------------------------------------------------------------------


@MODEST
@given(st.sampled_from([1, 2, 4]), st.integers(0, 50))
def test_shares_that_are_copied_one_by_one_cost_their_number(pipeline, microseconds):
    """A copy for each rank and tensor: six tensors a layer, and three at each end of the model."""
    model = {"name": "llama2-7b", "layers": 8}
    data = 8 // pipeline
    change = f"framework.gradients.share_each={microseconds} us"
    job, alone = (
        build_job(training("dgx-h100", 1, model, plan, (16, 1, 2048), "nanotron", change))
        for plan in ({"data": data, "pipeline": pipeline, "zero": zero} for zero in (1, 0))
    )

    assert copy_seconds(job, 0) == pytest.approx(
        1e-6 * microseconds * data * (6 * 8 // pipeline + 3)
    )
    assert copy_seconds(alone, 0) == 0


# --- the software of a case -----------------------------------------------------------------------


def case_of(**fields):
    """Return a readable case with the given fields."""
    (entry,) = parse_entries([{"id": "case", "group": "made-up", **fields}])
    return entry.row


def test_words_of_a_case_turn_on_the_options_that_they_name():
    """A pattern over its id or its note adds settings; the words of another add none."""
    choice = FrameworkChoice(
        framework="torchtitan",
        assumed="a test",
        settings={"a": 1},
        stated={"*async?tp*": {"b": 2}, "*asynctp*": {"b": 2}},
    )

    assert choice.options(case_of(note="compiled, float8, Async TP")) == {"a": 1, "b": 2}
    assert choice.options(case_of(id="row-asynctp")) == {"a": 1, "b": 2}
    assert choice.options(case_of(note="compiled")) == {"a": 1}
    assert choice.settings == {"a": 1}


def test_software_may_cut_a_step_into_as_many_microbatches_as_pipeline_ranks():
    """32 sequences of a replica over 8 ranks of 2 chunks are 8 microbatches of 4, unless stated."""
    layout = {"tp": 1, "pp": 8, "dp": 8, "interleave": 2, "schedule": "interleaved-1f1b"}
    usual = {"microbatches": "pipeline"}
    cut = case_settings(case_of(parallel=layout, batch={"global": 256}), usual)
    stated = case_settings(case_of(parallel=layout, batch={"global": 256, "micro": 2}), usual)
    plain = case_settings(case_of(parallel=layout, batch={"global": 256}))

    assert (cut.micro, stated.micro, plain.micro) == (4, 2, 1)
    assert "pipeline ranks" in cut.assumed["micro"]
