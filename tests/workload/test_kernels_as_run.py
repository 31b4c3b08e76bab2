"""Kernels as software runs them: what a shape, a switch or a precision changes."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.cost.compute import Seconds
from clustersim.cost.kernels.products import gemm_efficiency, gemm_seconds
from clustersim.plan.parallelism import even_layers, filled
from clustersim.scenario.load import load
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate
from clustersim.topology.accelerator import Products, Tile
from clustersim.workload.kernels import Gemm, Stream
from enumerated import joint_traffic

MODEST = settings(max_examples=20, deadline=None)

A100 = build_job(load("korthikanti-22b-full")).cluster.accelerator


def bloom(*changes):
    """BLOOM on 12 stages of its machine, in bf16 unless a change sets another."""
    laid = (
        "cluster={name: jean-zay, nodes: 6}",
        "plan={tensor: 4, pipeline: 12, data: 1, layers: with-ends}",
        "batch={global: 16, micro: 2, sequence: 2048}", "model=bloom-176b", "precision=bf16",
        "recompute=full", *changes
    )  # fmt: skip
    return load("mtnlg-530b", laid)


# --- rows that are no whole vectors ---------------------------------------------------------------


@MODEST
@given(st.integers(1, 40), st.integers(1, 64))
def test_rows_are_ragged_where_they_are_no_whole_vectors(eighths, batch):
    """Heads of a multiple of 8 numbers of 16 bits run on tensor cores; one number more does not."""
    whole, more = 8 * eighths, 8 * eighths + 1
    products = [Gemm("x", 2048, 2048, k, batch, peak="fp16", row=k) for k in (whole, more)]

    assert [product.ragged for product in products] == [False, True]
    assert gemm_seconds(products[0], A100) == gemm_seconds(products[0]._replace(row=0), A100)
    assert gemm_seconds(products[1], A100) >= gemm_seconds(products[1]._replace(row=0), A100)


def test_a_ragged_product_runs_at_its_peak_by_hand():
    """2048 x 2048 x 1024 on 19.5 TFLOP/s: its pipeline fills in 180 x 19.5 / 312 = 11.25.

    256 tiles of 128 x 128 are 2.37 waves of 108 units, so 3: 256 of 324 of the best, 0.8.
    """
    tiles = (Tile(128, 128, 1.0),)
    device = replace(A100, tiles=tiles, products=Products(0.8, 180.0))
    product = Gemm("x", 2048, 2048, 1024, peak="fp16", row=4)
    share = 0.8 * (256 / 324) * 1024 / 1035.25

    assert gemm_efficiency(product, device, 19.5 / 312) == pytest.approx(share)
    assert gemm_seconds(product, device) == pytest.approx(
        product.flops / (19.5e12 * share) + device.launch_overhead
    )


def test_devices_without_such_a_peak_take_all_rows_alike():
    """Where the library has tensor cores for every row, a head of 145 costs what its FLOPs do."""
    device = replace(A100, gemm_ragged=None)
    product = Gemm("x", 2048, 2048, 145, peak="fp16", row=145)

    assert gemm_seconds(product, device) == gemm_seconds(product._replace(row=0), device)


def test_heads_off_the_vector_slow_the_core_of_attention_down():
    """Of 13,824 numbers 128 heads are 108 wide and ragged, 96 are 144 wide and not."""
    base = ("model.hidden=13824", "model.ffn=55296")
    cores = []
    for heads in (96, 128):
        job = build_job(bloom(*base, f"model.heads={heads}"))
        kernels = [k for op in job.layers.ops(job.model.layer(0)) for k in op.forward]
        cores.append([k for k in kernels if isinstance(k, Gemm) and k.attention])

    assert [[k.ragged for k in core] for core in cores] == [[False] * 2, [True] * 2]
    assert sum(gemm_seconds(k, A100) for k in cores[1]) > 3 * sum(
        gemm_seconds(k, A100) for k in cores[0]
    )


# --- a host that waits ----------------------------------------------------------------------------


@MODEST
@given(st.integers(0, 50), st.floats(0, 1e-3), st.floats(0, 1e-4))
def test_a_host_that_waits_adds_its_time_to_that_of_the_device(launches, compute, dispatch):
    """Then a chain takes the sum; else the larger, which is never more."""
    chain = Seconds(gemm=compute, launches=launches)
    waiting, ahead = (chain.dispatched(dispatch, waits=waits).total for waits in (True, False))

    assert waiting == pytest.approx(compute + launches * dispatch)
    assert ahead <= waiting


def test_a_step_whose_host_waits_takes_longer_by_its_launches():
    """BLOOM's steps with CUDA_LAUNCH_BLOCKING=1: `dispatch` is what is added to each block."""
    usual, waits = (simulate(bloom(f"framework.launches_wait={w}")) for w in ("false", "true"))

    assert usual.attribution["dispatch"] == 0
    assert waits.attribution["dispatch"] > 0
    assert waits.step_time > usual.step_time + waits.attribution["dispatch"]


# --- gradients of a precision ---------------------------------------------------------------------


def test_gradients_in_bf16_are_copied_and_added_to_a_sum_of_32_bits():
    """18 bytes a weight and microbatch in DeepSpeed's bf16, 6 in its fp16."""
    moved = {}
    for precision in ("bf16", "fp16"):
        job = build_job(bloom(f"precision={precision}"))
        (summed,) = job.layers.ops(job.model.layer(0))[0].backward
        assert isinstance(summed, Stream)
        moved[precision] = summed.nbytes

    assert moved["bf16"] == 3 * moved["fp16"]


def test_32_bit_sums_are_reduced_whole():
    """With ZeRO-1 fp16 moves half of an all-reduce of 2 bytes, bf16 a whole one of 4."""
    sent = {}
    for precision in ("bf16", "fp16"):
        laid = ("cluster.nodes=12", "plan.data=2", "plan.zero=1", f"precision={precision}")
        found = joint_traffic(build_job(bloom(*laid)))
        sent[precision] = found["gradients", 3, "data"].nbytes

    assert sent["bf16"] == pytest.approx(4 * sent["fp16"], rel=0.01)


# --- layers of stages -----------------------------------------------------------------------------


@MODEST
@given(st.integers(1, 200), st.integers(1, 40))
def test_stages_that_are_filled_are_as_full_as_any_sharing_allows(layers, parts):
    """All layers are there, stages are full but for the last, and no fullest one has fewer."""
    parts = min(parts, layers)
    shares = filled(layers, parts)

    assert (len(shares), sum(shares)) == (parts, layers)
    assert max(shares) == max(even_layers(layers, parts)) == -(-layers // parts)
    assert shares == tuple(sorted(shares, reverse=True)) or shares == even_layers(layers, parts)
