"""Two roads to one time: closed forms against the engine, kernels against arithmetic."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simpy import Environment

from clustersim.cost import collectives
from clustersim.cost.compute import (
    Seconds,
    chain_seconds,
    gemm_efficiency,
    gemm_seconds,
    stream_seconds,
)
from clustersim.engine.network import Network
from clustersim.program.collectives.ring import ring_load
from clustersim.scenario.load import load
from clustersim.topology.accelerator import Tile, build_accelerator
from clustersim.topology.cluster import build_cluster
from clustersim.topology.library import Library, Protocol
from clustersim.traffic import Traffic
from clustersim.workload.kernels import Collective, Gemm, Stream

MODEST = settings(max_examples=40, deadline=None)
FRONTIER = load("frontier-22b").scenario.cluster
SELENE = load("megatron21-t1-39b").scenario.cluster
DEVICES = [build_accelerator(record.node.accelerator) for record in (FRONTIER, SELENE)]

PLAIN = replace(
    DEVICES[1],
    peak={"fp16": 100e12},
    memory_bandwidth=1e12,
    memory_achieved=1.0,
    compute_units=100,
    launch_overhead=0.0,
    gemm_best=1.0,
    gemm_inner_half=0.0,
    tiles=(Tile(100, 100, 1.0),),
)
"""A device of round numbers: 100 units, tiles of 100 x 100, 100 TFLOP/s, 1 TB/s."""

SLOW = Protocol("simple", base=8e-6, device_hop=3e-6, network_hop=14e-6, bandwidth=1.0)
QUICK = Protocol("ll", base=1e-6, device_hop=0.5e-6, network_hop=2e-6, bandwidth=0.5)
LIBRARY = Library("test", 20e-6, {"ring": (QUICK, SLOW)}, {})


def engine_seconds(cluster, traffic):
    """Return when a traffic that is alone on the machine is through."""
    env = Environment()
    network = Network(env, cluster.links.capacities)
    ends = []
    network.start(traffic, lambda _: ends.append(env.now))
    env.run()
    network.check()
    return ends[0]


# --- collectives ----------------------------------------------------------------------------------

GROUPS = {
    "a package": (FRONTIER, range(2)),
    "half a node": (FRONTIER, range(4)),
    "a node": (FRONTIER, range(8)),
    "two nodes": (FRONTIER, range(16)),
    "one GCD of each node": (FRONTIER, range(0, 32, 8)),
    "two GPUs": (SELENE, range(2)),
    "a DGX": (SELENE, range(8)),
    "four DGX": (SELENE, range(32)),
    "one GPU of each DGX": (SELENE, range(3, 200, 8)),
}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("operation", sorted(collectives.RING_PASSES))
@pytest.mark.parametrize("nbytes", [1e3, 1e6, 1e9])
def test_a_ring_alone_takes_its_closed_form(group, operation, nbytes):
    """A ring collective in the engine, alone on its links, ends when the formula says."""
    record, members = GROUPS[group]
    cluster = build_cluster(record, max(members) // 8 + 1)
    ring = ring_load(cluster, [members])
    bandwidth = ring.bandwidth(cluster.links.capacities)
    cost = collectives.ring(operation, nbytes, len(members), ring.nodes, bandwidth, cluster.library)
    traffic = Traffic(operation, ring.links, ring.weights, cost.wire_bytes, cost.latency)

    assert engine_seconds(cluster, traffic) == pytest.approx(cost.seconds, rel=1e-9)


@MODEST
@given(st.sampled_from([FRONTIER, SELENE]), st.data(), st.floats(1.0, 1e10))
def test_a_message_alone_takes_its_closed_form(record, data, nbytes):
    """One message in the engine, alone on its links, ends when the formula says."""
    cluster = build_cluster(record, 3)
    a, b = data.draw(st.lists(st.integers(0, 23), min_size=2, max_size=2, unique=True))
    route = cluster.route(a, b)
    bandwidth = min(cluster.links.capacities[link] for link in route.links)
    cost = collectives.message(nbytes, route.network, bandwidth, route.latency, cluster.library)
    ones = (1.0,) * len(route.links)
    traffic = Traffic("message", route.links, ones, cost.wire_bytes, cost.latency)

    assert cost.latency >= route.latency
    assert engine_seconds(cluster, traffic) == pytest.approx(cost.seconds, rel=1e-9)


def test_rings_side_by_side_share_their_links_by_half():
    """Rings over both GCDs of a package in every node, on one NIC, get half of it each."""
    cluster = build_cluster(FRONTIER, 4)
    one = ring_load(cluster, [range(0, 32, 8)])
    both = ring_load(cluster, [range(0, 32, 8), range(1, 32, 8)])
    capacities = cluster.links.capacities

    assert one.bandwidth(capacities) == pytest.approx(25e9 * 0.92)
    assert both.bandwidth(capacities) == pytest.approx(one.bandwidth(capacities) / 2)


def test_a_ring_by_hand():
    """1 GB all-reduced by 8 ranks of one node at 100 GB/s.

    20 us for the call, 8 us base, 2 x 7 hops of 3 us; 2 x 7 / 8 x 1 GB = 1.75 GB in 17.5 ms.
    """
    cost = collectives.ring("all-reduce", 1e9, 8, 1, 1e11, LIBRARY)

    assert cost.protocol == "simple"
    assert cost.latency == pytest.approx(20e-6 + 8e-6 + 42e-6)
    assert cost.wire_bytes == pytest.approx(1.75e9)
    assert cost.seconds == pytest.approx(70e-6 + 17.5e-3)


def test_a_ring_over_nodes_by_hand():
    """16 ranks on 4 nodes: of 15 steps 3 cross the network: 2 (12 x 3 us + 3 x 14 us) = 156 us."""
    cost = collectives.ring("all-reduce", 1e12, 16, 4, 1e11, LIBRARY)

    assert cost.latency == pytest.approx(20e-6 + 8e-6 + 156e-6)


def test_small_buffers_take_the_protocol_of_low_latency():
    """1 kB goes by the protocol that halves the bandwidth, and so costs 2 x 1.75 kB on the wire."""
    cost = collectives.ring("all-reduce", 1e3, 8, 1, 1e11, LIBRARY)

    assert cost.protocol == "ll"
    assert cost.wire_bytes == pytest.approx(2 * 1.75e3)
    assert cost.latency == pytest.approx(20e-6 + 1e-6 + 14 * 0.5e-6)


@MODEST
@given(st.floats(1, 1e10), st.integers(2, 64), st.floats(1e9, 1e12))
def test_a_ring_passes_halves_for_its_halves(nbytes, ranks, bandwidth):
    """A reduce-scatter and an all-gather carry what an all-reduce does, and neither costs more."""
    library = Library("one", 0.0, {"ring": (SLOW,)}, {})
    whole, half, other = (
        collectives.ring(operation, nbytes, ranks, 1, bandwidth, library)
        for operation in ("all-reduce", "reduce-scatter", "all-gather")
    )

    assert half == other
    assert whole.wire_bytes == pytest.approx(2 * half.wire_bytes)
    assert half.seconds <= whole.seconds <= 2 * half.seconds


@MODEST
@given(st.floats(1, 1e10), st.floats(1, 1e10), st.integers(2, 64), st.integers(1, 8))
def test_more_bytes_never_take_less(fewer, more, ranks, nodes):
    """The choice of protocol never makes a larger buffer faster."""
    fewer, more = sorted((fewer, more))
    small, large = (
        collectives.ring("all-reduce", nbytes, ranks * nodes, nodes, 1e10, LIBRARY).seconds
        for nbytes in (fewer, more)
    )

    assert small <= large


def test_a_message_by_hand():
    """1 MB between nodes at 25 GB/s: 20 + 8 + 14 us, then 40 us; a path of 100 us shows instead.

    By the other protocol it would be 20 + 1 + 2 us, then twice the bytes in 80 us: 103 us.
    """
    near = collectives.message(1e6, True, 25e9, 5e-6, LIBRARY)
    far = collectives.message(1e6, True, 25e9, 100e-6, LIBRARY)

    assert near.seconds == pytest.approx(82e-6)
    assert far.seconds == pytest.approx(140e-6)


def test_one_number_goes_down_and_up_a_tree():
    """64 ranks on 8 nodes: 20 + 1 + 2 (7 x 0.5 + 3 x 2) us = 40 us by the quicker protocol."""
    assert collectives.scalar_reduction(64, 8, LIBRARY) == pytest.approx(40e-6)


# --- kernels --------------------------------------------------------------------------------------

sides = st.integers(1, 20_000)


@MODEST
@given(st.sampled_from([*DEVICES, PLAIN]), sides, sides, sides, st.integers(1, 64))
def test_a_product_never_beats_the_best_measured(device, m, n, k, batch):
    """Efficiency is above nothing and never above the best that the device's file states."""
    assert 0 < gemm_efficiency(Gemm("x", m, n, k, batch), device) <= device.gemm_best


@MODEST
@given(st.sampled_from([*DEVICES, PLAIN]), sides, sides, sides)
def test_a_product_is_never_faster_than_its_roofs(device, m, n, k):
    """A GEMM takes at least its FLOPs at peak, and at least its bytes at achieved bandwidth."""
    gemm = Gemm("x", m, n, k)
    seconds = gemm_seconds(gemm, device, "fp16")

    assert seconds >= gemm.flops / device.peak_rate("fp16")
    assert seconds >= stream_seconds(gemm.nbytes, device)


def test_the_last_wave_counts_as_a_whole():
    """1,000 x 1,000 is 100 tiles, one wave of 100 units; a row more is 110 tiles and two waves.

    1,001,000 useful of 2 x 100 x 10,000 computed: 0.5005.
    """
    assert gemm_efficiency(Gemm("x", 1000, 1000, 64), PLAIN) == pytest.approx(1.0)
    assert gemm_efficiency(Gemm("x", 1001, 1000, 64), PLAIN) == pytest.approx(0.5005)


def test_a_batch_of_products_shares_its_waves():
    """Fifty products of 100 x 200 are 100 tiles in one wave; one alone leaves 98 units idle."""
    assert gemm_efficiency(Gemm("x", 100, 200, 64, 50), PLAIN) == pytest.approx(1.0)
    assert gemm_efficiency(Gemm("x", 100, 200, 64), PLAIN) == pytest.approx(0.02)


def test_a_shallow_product_runs_below_its_depth():
    """At the inner dimension `inner_half` the rate is half of the best."""
    device = replace(PLAIN, gemm_inner_half=64.0, gemm_best=0.8)

    assert gemm_efficiency(Gemm("x", 1000, 1000, 64), device) == pytest.approx(0.4)


def test_the_library_picks_the_better_tile():
    """1,000 x 50: tiles of 100 x 100 are 10 half empty; tiles of 50 x 50, at 0.9, are 20 full.

    10 of 100 units half used is 0.05; 20 of 100 at 0.9 is 0.18.
    """
    device = replace(PLAIN, tiles=(Tile(100, 100, 1.0), Tile(50, 50, 0.9)))

    assert gemm_efficiency(Gemm("x", 1000, 50, 64), PLAIN) == pytest.approx(0.05)
    assert gemm_efficiency(Gemm("x", 1000, 50, 64), device) == pytest.approx(0.18)


def test_a_product_of_vectors_runs_at_the_pace_of_memory():
    """10,000 x 10,000 x 1: 2e8 FLOP in 2 us at peak, but (10^4 + 10^4 + 10^8) x 2 B in 200 us."""
    seconds = gemm_seconds(Gemm("x", 10_000, 10_000, 1), PLAIN, "fp16")

    assert seconds == pytest.approx(200.04e-6)


def test_a_product_of_matrices_runs_at_the_pace_of_compute():
    """10,000 cubed: 2e12 FLOP at 100 TFLOP/s in 20 ms; 6e8 B would take 0.6 ms."""
    gemm = Gemm("x", 10_000, 10_000, 10_000)

    assert gemm_seconds(gemm, PLAIN, "fp16") == pytest.approx(20e-3)
    assert gemm_seconds(gemm, replace(PLAIN, launch_overhead=5e-6), "fp16") == pytest.approx(
        20.005e-3
    )


def test_a_stream_runs_at_the_achieved_share_of_bandwidth():
    """1 GB at 0.8 of 1 TB/s takes 1.25 ms."""
    assert stream_seconds(1e9, replace(PLAIN, memory_achieved=0.8)) == pytest.approx(1.25e-3)


KERNELS = [
    Stream("norm", 1e6, 2),
    Gemm("up", 1000, 1000, 1000),
    Gemm("scores", 100, 100, 100, 10, attention=True),
    Collective("sum", "all-reduce", 1e6),
]


def test_a_chain_is_the_sum_of_its_kernels():
    """A pass of 1 MB in 1 us and two launches; 2e9 FLOP in 20 us; 2e7 FLOP in 2 us; 7 us of sum.

    The batched product has ten tiles for a hundred units, so a tenth of peak.
    """
    device = replace(PLAIN, launch_overhead=3e-6)
    chain = chain_seconds(KERNELS, device, "fp16", lambda collective: 7e-6)

    assert chain.stream == pytest.approx(1e-6 + 2 * 3e-6)
    assert chain.gemm == pytest.approx(20e-6 + 3e-6)
    assert chain.attention == pytest.approx(2e-6 + 3e-6)
    assert chain.tensor == pytest.approx(7e-6)
    assert chain.launches == 5
    assert chain.flops == 2e9 + 2e7
    assert chain.total == pytest.approx(1e-6 + 20e-6 + 2e-6 + 4 * 3e-6 + 7e-6)


def test_small_kernels_run_at_the_speed_of_the_host():
    """Five launches of 10 us take 50 us, whatever little the device has to do."""
    chain = chain_seconds(KERNELS, PLAIN, "fp16", lambda _: 7e-6)
    bound = chain.dispatched(10e-6)

    assert chain.total == pytest.approx(30e-6)
    assert bound.total == pytest.approx(50e-6)
    assert bound.dispatch == pytest.approx(20e-6)
    assert chain.dispatched(1e-6) == chain


@MODEST
@given(st.integers(0, 50), st.floats(0, 1e-3), st.floats(0, 1e-3), st.floats(0, 1e-4))
def test_a_chain_takes_the_larger_of_device_and_host(launches, compute, tensor, dispatch):
    """The whole is max(device, launches x dispatch); `dispatch` alone makes up the difference."""
    chain = Seconds(gemm=compute, tensor=tensor, launches=launches)
    bound = chain.dispatched(dispatch)

    assert bound.total == pytest.approx(max(compute + tensor, launches * dispatch))
    assert (bound.compute, bound.tensor) == (chain.compute, chain.tensor)


def test_seconds_add_and_multiply_part_by_part():
    """Three layers and a head are their parts three times and once."""
    layer, head = Seconds(gemm=2.0, stream=1.0, launches=4, flops=8.0), Seconds(tensor=5.0)
    whole = layer * 3 + head

    assert whole == Seconds(gemm=6.0, stream=3.0, tensor=5.0, launches=12, flops=24.0)
    assert math.isclose(whole.total, 14.0)
