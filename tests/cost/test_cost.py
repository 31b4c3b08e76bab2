"""Closed forms by hand: collectives, messages and kernels."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.cost import closed_form
from clustersim.cost.closed_form import GroupSpan
from clustersim.cost.compute import Seconds, chain_seconds, overlapped_seconds
from clustersim.cost.kernels.products import gemm_efficiency, gemm_seconds, stream_seconds
from clustersim.program.collectives.algorithms import ALGORITHMS, scalar_reduction
from clustersim.scenario.load import load
from clustersim.topology.accelerator import Products, Tile, build_accelerator
from clustersim.topology.library import Library, Protocol, build_library
from clustersim.workload.kernels import Collective, Gemm, Overlapped, Stream

MODEST = settings(max_examples=40, deadline=None)
FRONTIER = load("frontier-22b").scenario.cluster
SELENE = load("megatron21-t1-39b").scenario.cluster
FLAT = build_accelerator(FRONTIER.node.accelerator)
"""A device with a roofline of products."""

MEASURED = build_accelerator(SELENE.node.accelerator)
"""A device whose products are measured."""

PLAIN = replace(
    MEASURED,
    peak={"bf16": 100e12},
    memory_bandwidth=1e12,
    memory_achieved=1.0,
    compute_units=100,
    launch_overhead=0.0,
    products=Products(1.0, 0.0),
    tiles=(Tile(100, 100, 1.0),),
)
"""A device of round numbers: 100 units, tiles of 100 x 100, 100 TFLOP/s, 1 TB/s."""

SLOW = Protocol("simple", base=8e-6, device_hop=3e-6, network_hop=14e-6, bandwidth=1.0)
QUICK = Protocol("ll", base=1e-6, device_hop=0.5e-6, network_hop=2e-6, bandwidth=0.5)
LIBRARY = Library("test", 20e-6, {"ring": (QUICK, SLOW)}, {"send": ("ring",)})


# --- collectives ----------------------------------------------------------------------------------


def price(operation, nbytes, span, *, library=LIBRARY, bandwidth=1e11, algorithm="ring"):
    """Return the cost of a collective over links that carry `bandwidth` on the bus."""
    factor = closed_form.bus_factor(operation, span.ranks)
    record = ALGORITHMS[algorithm]
    return record.cost(operation, nbytes, span, factor / bandwidth, factor, library)


@MODEST
@given(st.sampled_from([2, 4, 8]), st.sampled_from([1, 2]), st.floats(1, 1.5))
def test_a_byte_takes_longer_in_a_pair_of_a_node(ranks, nodes, pairing):
    """`pairing` in a ring of two devices of one node, and nothing in others."""
    library = replace(only(SLOW), pairing=pairing)
    span = GroupSpan(ranks=ranks, nodes=nodes, fullest=ranks // nodes)
    paired, plain = (
        price("all-reduce", 1e9, span, library=each)
        for each in (library, replace(library, pairing=1.0))
    )
    longer = pairing if (ranks, nodes) == (2, 1) else 1.0

    assert paired.nbytes / paired.rate == pytest.approx(longer * plain.nbytes / plain.rate)


def only(protocol, *, algorithm="ring", call=0.0):
    """Return a library of one protocol."""
    return Library("one", call, {algorithm: (protocol,)}, {})


def test_a_ring_by_hand():
    """1 GB all-reduced by 8 ranks of one node at 100 GB/s.

    20 us for the call, 8 us base, 2 x 7 hops of 3 us; 2 x 7 / 8 x 1 GB = 1.75 GB in 17.5 ms.
    """
    cost = price("all-reduce", 1e9, GroupSpan(8, 1, 8))

    assert cost.protocol == "simple"
    assert cost.latency == pytest.approx(20e-6 + 8e-6 + 42e-6)
    assert cost.nbytes == pytest.approx(1.75e9)
    assert cost.rate == pytest.approx(1e11)
    assert cost.seconds == pytest.approx(70e-6 + 17.5e-3)


def test_a_ring_over_nodes_by_hand():
    """16 ranks on 4 nodes: of 15 steps 3 cross the network: 2 (12 x 3 us + 3 x 14 us) = 156 us."""
    cost = price("all-reduce", 1e12, GroupSpan(16, 4, 4))

    assert cost.latency == pytest.approx(20e-6 + 8e-6 + 156e-6)


def test_small_buffers_take_the_protocol_of_low_latency():
    """1 kB goes by the protocol that halves the bandwidth, and so costs 2 x 1.75 kB on the wire."""
    cost = price("all-reduce", 1e3, GroupSpan(8, 1, 8))

    assert cost.protocol == "ll"
    assert cost.nbytes == pytest.approx(2 * 1.75e3)
    assert cost.rate == pytest.approx(1e11)
    assert cost.latency == pytest.approx(20e-6 + 1e-6 + 14 * 0.5e-6)


def test_pieces_of_a_pipeline_by_hand():
    """8 ranks broadcast 1 GB at 100 GB/s, each further piece costing 7 us on each of 7 hops.

    Cut in m, it takes (7 + m) x (7 us + 10 ms / m): at best, with 100 pieces, 107 x 107 us, and
    7 hops of 3 us.
    """
    pipelined = replace(SLOW, base=0.0, chunk=7e-6)
    cost = price("broadcast", 1e9, GroupSpan(8, 1, 8), library=only(pipelined))

    assert cost.seconds == pytest.approx(21e-6 + 107 * 107e-6)
    assert cost.ranked == pytest.approx(21e-6 + 10e-3)


@pytest.mark.parametrize(
    ("span", "seconds"),
    [
        (GroupSpan(8, 1, 8), 70e-3),  # at most 25 GB/s on the bus in a node
        (GroupSpan(8, 1, 8, True), 70e-3),
        (GroupSpan(8, 2, 4), 175e-3),  # 10 GB/s over nodes
        (GroupSpan(8, 2, 4, True), 1.75 / 8),  # 4 ranks a node at 2 GB/s each, with other groups
    ],
)
def test_a_protocol_moves_no_more_than_its_limit(span, seconds):
    """1.75 GB in a node, over nodes, and on NICs that groups of the same nodes share."""
    limited = replace(SLOW, base=0.0, device_hop=0.0, network_hop=0.0, limit=25e9)
    library = only(replace(limited, network_limit=10e9, shared_limit=2e9))

    assert price("all-reduce", 1e9, span, library=library).seconds == pytest.approx(seconds)


def test_messages_posted_at_once_each_cost_their_sender_a_post():
    """8 ranks exchange: 8 us base, 1 hop of 3 us, 7 posts of 1 us; 7 / 8 x 1 GB in 8.75 ms."""
    library = replace(only(SLOW, algorithm="grouped"), post=1e-6)
    cost = price("all-to-all", 1e9, GroupSpan(8, 1, 8), library=library, algorithm="grouped")

    assert cost.seconds == pytest.approx(18e-6 + 8.75e-3)


spans = st.tuples(st.integers(1, 8), st.integers(1, 8)).map(
    lambda shape: GroupSpan(shape[0] * shape[1], shape[0], shape[1])
)


@MODEST
@given(st.floats(1, 1e10), spans, st.floats(1e9, 1e12))
def test_a_ring_passes_halves_for_its_halves(nbytes, span, bandwidth):
    """A reduce-scatter and an all-gather carry what an all-reduce does, and neither costs more."""
    whole, half, other = (
        price(operation, nbytes, span, library=only(SLOW), bandwidth=bandwidth)
        for operation in ("all-reduce", "reduce-scatter", "all-gather")
    )

    assert half == other
    assert whole.nbytes == pytest.approx(2 * half.nbytes)
    assert half.seconds <= whole.seconds <= 2 * half.seconds


@MODEST
@given(
    st.sampled_from(sorted({*ALGORITHMS} - {"torus"})), st.floats(1, 1e10), st.floats(1, 1e10),
    spans, st.floats(0, 1e-5), st.floats(1e9, 1e12)
)  # fmt: skip
def test_more_bytes_never_take_less_by_one_protocol(algorithm, fewer, more, span, chunk, limit):
    """Whatever the algorithm, its pieces and limits, a larger buffer is never faster."""
    protocol = replace(SLOW, chunk=chunk, limit=limit, network_limit=limit)
    small, large = (
        price("all-reduce", nbytes, span, library=only(protocol), algorithm=algorithm).seconds
        for nbytes in sorted((fewer, more))
    )

    assert small <= large


@MODEST
@given(st.floats(1, 1e10), st.floats(1, 1e10), spans, st.floats(0, 1e-5))
def test_what_the_tuner_ranks_by_never_falls_with_more_bytes(fewer, more, span, chunk):
    """The choice of protocol never makes a larger buffer faster in the tuner's eyes.

    The time itself may fall a little where the choice changes, because the tuner ignores pieces.
    """
    library = replace(LIBRARY, algorithms={"ring": (QUICK, replace(SLOW, chunk=chunk))})
    small, large = (
        price("all-reduce", nbytes, span, library=library).ranked
        for nbytes in sorted((fewer, more))
    )

    assert small <= large


def test_a_message_by_hand():
    """1 MB between nodes at 25 GB/s: 20 + 8 + 14 us, then 40 us; a path of 100 us shows instead.

    By the other protocol it would be 20 + 1 + 2 us, then twice the bytes in 80 us: 103 us.
    """
    near = closed_form.message_cost(1e6, True, 25e9, 5e-6, LIBRARY)
    far = closed_form.message_cost(1e6, True, 25e9, 100e-6, LIBRARY)

    assert near.seconds == pytest.approx(82e-6)
    assert far.seconds == pytest.approx(140e-6)


def test_a_message_to_another_node_moves_no_more_than_the_library_does():
    """1 MB between nodes at 10 of 25 GB/s: 20 + 8 + 14 us, then 100 us; inside a node as fast.

    By the other protocol, which needs twice the bytes, it would be 20 + 1 + 2 us, then 200 us.
    """
    library = replace(LIBRARY, message=10e9)
    across, inside = (closed_form.message_cost(1e6, way, 25e9, 0, library) for way in (True, False))

    assert across.seconds == pytest.approx(142e-6)
    assert inside == closed_form.message_cost(1e6, False, 25e9, 0, LIBRARY)


def test_messages_had_the_protocols_of_the_ring():
    """On Fugaku the ring of a reduction copies and adds; a message does not."""
    library = build_library(load("fugaku-llm-13b").scenario.cluster.node.library, 4)
    ring, pairwise, message = (
        closed_form.message_cost(1e9, True, 6.8e9, 0, library, algorithm)
        for algorithm in ("ring", "pairwise", None)
    )

    assert library.choices["send"] == ("pairwise",)
    assert message == pairwise
    assert message.seconds < 0.5 * ring.seconds


def test_one_number_goes_down_and_up_a_tree():
    """64 ranks on 8 nodes: 20 + 1 + 2 (7 x 0.5 + 3 x 2) us = 40 us by the quicker protocol.

    A ring would take 20 + 1 + 2 (56 x 0.5 + 7 x 2) us = 105 us; in one node there is no tree, and
    8 ranks take 20 + 1 + 2 x 7 x 0.5 us = 28 us.
    """
    library = replace(LIBRARY, algorithms={"ring": (QUICK, SLOW), "tree": (QUICK, SLOW)})

    assert scalar_reduction(GroupSpan(64, 8, 8), library) == pytest.approx(40e-6)
    assert scalar_reduction(GroupSpan(64, 8, 8), LIBRARY) == pytest.approx(105e-6)
    assert scalar_reduction(GroupSpan(8, 1, 8), library) == pytest.approx(28e-6)


# --- kernels --------------------------------------------------------------------------------------

sides = st.integers(1, 20_000)


@MODEST
@given(sides, sides, sides, st.integers(1, 64))
def test_a_product_never_beats_the_best_measured(m, n, k, batch):
    """Efficiency is above nothing and never above the best that the device's file states."""
    assert 0 < gemm_efficiency(Gemm("x", m, n, k, batch), PLAIN) <= PLAIN.products.best


@MODEST
@given(st.sampled_from([FLAT, MEASURED, PLAIN]), sides, sides, sides)
def test_a_product_is_never_faster_than_its_roofs(device, m, n, k):
    """A GEMM takes at least its FLOPs at peak, and at least its bytes at full bandwidth."""
    gemm = Gemm("x", m, n, k)
    seconds = gemm_seconds(gemm, device)

    assert seconds >= gemm.flops / device.peak_rate("bf16")
    assert seconds >= gemm.nbytes / device.memory_bandwidth


def test_a_slower_library_takes_longer_for_the_work_of_a_product():
    """Half of the rate doubles the time where compute limits it, not where memory does."""
    deep, flat = Gemm("deep", 10000, 10000, 10000), Gemm("flat", 10000, 10000, 1)

    for product, times in ((deep, 2.0), (flat, 1.0)):
        slower = gemm_seconds(product._replace(share=0.5), PLAIN)
        assert slower == pytest.approx(times * gemm_seconds(product, PLAIN))


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
    device = replace(PLAIN, products=Products(0.8, 64.0))

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
    seconds = gemm_seconds(Gemm("x", 10_000, 10_000, 1), PLAIN)

    assert seconds == pytest.approx(200.04e-6)


def test_a_product_of_matrices_runs_at_the_pace_of_compute():
    """10,000 cubed: 2e12 FLOP at 100 TFLOP/s in 20 ms; 6e8 B would take 0.6 ms."""
    gemm = Gemm("x", 10_000, 10_000, 10_000)

    assert gemm_seconds(gemm, PLAIN) == pytest.approx(20e-3)
    assert gemm_seconds(gemm, replace(PLAIN, launch_overhead=5e-6)) == pytest.approx(20.005e-3)


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
    chain = chain_seconds(KERNELS, device, lambda collective: 7e-6)

    assert chain.stream == pytest.approx(1e-6 + 2 * 3e-6)
    assert chain.gemm == pytest.approx(20e-6 + 3e-6)
    assert chain.attention == pytest.approx(2e-6 + 3e-6)
    assert chain.tensor == pytest.approx(7e-6)
    assert chain.launches == 5
    assert chain.flops == 2e9 + 2e7
    assert chain.total == pytest.approx(1e-6 + 20e-6 + 2e-6 + 4 * 3e-6 + 7e-6)


def test_a_collective_beside_products_shows_what_they_do_not_hide():
    """A product of 20 us: 7 us of sum are hidden, of 27 us 7 show; a launch each.

    Where the sum occupies a tenth of the units, the product has nine tenths of them for 7 us and
    takes 0.7 us longer.
    """
    product, total = Gemm("up", 1000, 1000, 1000), Collective("sum", "all-reduce", 1e6)
    chain = [Overlapped(total, (product,))]
    short, long, slowed = (
        chain_seconds(chain, PLAIN, lambda _, took=took: took, occupied)
        for took, occupied in ((7e-6, 0.0), (27e-6, 0.0), (7e-6, 0.1))
    )

    assert (short.gemm, short.tensor, short.launches) == (pytest.approx(20e-6), 0.0, 2)
    assert long.total == pytest.approx(27e-6)
    assert long.tensor == pytest.approx(7e-6)
    assert (slowed.tensor, slowed.slowed) == (0.0, pytest.approx(0.7e-6))


@MODEST
@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_side_by_side_lies_between_the_longer_and_the_sum(compute, moved, occupied):
    """Nothing is hidden beyond the shorter of both, and sharing a device never costs more."""
    together = overlapped_seconds(compute, moved, occupied)

    assert max(compute, moved) <= together <= compute + moved
    assert overlapped_seconds(compute, moved, 1.0) == compute + moved


def test_small_kernels_run_at_the_speed_of_the_host():
    """Five launches of 10 us take 50 us, whatever little the device has to do."""
    chain = chain_seconds(KERNELS, PLAIN, lambda _: 7e-6)
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


@MODEST
@given(st.integers(0, 50), st.integers(0, 50), st.floats(0, 1e-4), st.floats(0, 1e-4))
def test_a_backward_is_issued_at_the_pace_of_the_autograd_engine(recomputed, back, python, engine):
    """Recomputed kernels are issued at the rate of Python, the rest of a backward by its engine."""
    chain = Seconds(launches=recomputed) + Seconds(launches=back).of_backward()

    assert chain.dispatched(python, 0.0, engine).dispatch == pytest.approx(
        recomputed * python + back * engine
    )
    assert chain.dispatched(python).dispatch == pytest.approx((recomputed + back) * python)


def test_seconds_add_and_multiply_part_by_part():
    """Three layers and a head are their parts three times and once."""
    layer, head = Seconds(gemm=2.0, stream=1.0, launches=4, flops=8.0), Seconds(tensor=5.0)
    whole = layer * 3 + head

    assert whole == Seconds(gemm=6.0, stream=3.0, tensor=5.0, launches=12, flops=24.0)
    assert math.isclose(whole.total, 14.0)
