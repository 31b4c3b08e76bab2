"""Collectives on machines: closed forms against the engine, worked examples, choices."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from simpy import Environment

from boxes import PLAIN, fixed, ideal, machine
from clustersim.catalog import libraries
from clustersim.cost.closed_form import bus_factor
from clustersim.engine.network.network import Network
from clustersim.errors import PlanError
from clustersim.program.collectives import ring
from clustersim.program.collectives.algorithms import ALGORITHMS, scalar_reduction
from clustersim.program.collectives.communicator import Communicator
from clustersim.program.collectives.trees import double_tree
from clustersim.scenario.entries import entry
from clustersim.topology.cluster import Cluster, build_cluster
from clustersim.topology.faults import FailedCable, find_faults
from wrong_values import wrong_values

MODEST = settings(max_examples=20, deadline=None)


def bus_bandwidth(communicator, algorithm, operation):
    """Return the bus bandwidth of a large buffer, payload only [B/s]."""
    load = communicator.load(algorithm, operation)
    (seconds,) = load.seconds_per_byte(communicator.cluster.links.capacities)
    return bus_factor(operation, communicator.span.ranks) / seconds


def crossings(load):
    """Return how many of the equal flows of a load cross each link."""
    return {link: share / load.unit for link, share in load.shares.items()}


# --- time -----------------------------------------------------------------------------------------


def engine_seconds(cluster, traffic):
    """Return when a traffic that is alone on the machine is through."""
    env = Environment()
    network = Network(env, cluster.links.capacities.tolist())
    ends = []
    network.start(traffic, lambda _: ends.append(env.now))
    env.run()
    network.check()
    return ends[0]


PAIRS = [(name, operation) for name, each in ALGORITHMS.items() for operation in each.operations]
MACHINES = {
    "frontier": lambda: machine("frontier", 3),
    "dgx-1v": lambda: machine("dgx-1v", 2),
    "dgx-a100": lambda: machine("dgx-a100", 3),
    "dgx-h100": lambda: machine("dgx-h100", 3),
    "ideal": lambda: ideal(3),
    "tpu-v4-pod": lambda: machine("tpu-v4-pod", 32, (4, 4, 2)),
}


def test_the_catalogue_names_the_algorithms_of_the_table():
    """A library file may name each algorithm that has a record, and no other."""
    assert tuple(ALGORITHMS) == libraries.ALGORITHMS
    assert {operation for _, operation in PAIRS} == {*libraries.OPERATIONS}


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(sorted(MACHINES)), st.data(), st.floats(1.0, 1e10))
def test_an_algorithm_alone_takes_its_closed_form(name, data, nbytes):
    """Every possible algorithm, uncontended in the engine, takes the time of its formula."""
    cluster = MACHINES[name]()
    count = data.draw(st.integers(2, cluster.devices))
    start = data.draw(st.integers(0, cluster.devices - count))
    stride = data.draw(st.integers(1, (cluster.devices - start) // count))
    group = range(start, start + stride * count, stride)
    able = [pair for pair in PAIRS if not Communicator(cluster, [group]).obstacle(*pair)]
    algorithm, operation = data.draw(st.sampled_from(able))
    communicator = fixed(cluster, algorithm, operation, group)
    cost = communicator.cost(operation, nbytes)
    traffic = communicator.traffic("alone", operation, nbytes)

    assert cost.algorithm == algorithm
    assert engine_seconds(cluster, traffic) == pytest.approx(cost.seconds, rel=1e-9)


@MODEST
@given(
    st.sampled_from(["frontier", "dgx-h100"]),
    st.sampled_from(["all-reduce", "reduce-scatter", "all-gather", "all-to-all", "barrier"]),
    st.floats(1.0, 1e10),
)
def test_what_the_library_chooses_takes_its_closed_form(name, operation, nbytes):
    """Concurrent groups end at the time of the formula, and put their load on each link."""
    cluster = MACHINES[name]()
    communicator = Communicator(cluster, [range(i, 24, 8) for i in range(8)])
    cost = communicator.cost(operation, nbytes)
    traffic = communicator.traffic("alone", operation, nbytes)
    carried = {link: weight * traffic.nbytes for link, weight in traffic.crossings()}

    assert engine_seconds(cluster, traffic) == pytest.approx(cost.seconds, rel=1e-9)
    load = communicator.load(cost.algorithm, operation)
    wire = {link: share * cost.nbytes / load.unit for link, share in load.shares.items()}
    assert wire == pytest.approx(carried)


@MODEST
@given(st.sampled_from(["dgx-a100", "frontier"]), st.data(), st.floats(1.0, 1e10))
def test_a_message_alone_takes_its_closed_form(name, data, nbytes):
    """A send between two devices, alone on its links, ends at the time of the formula."""
    cluster = MACHINES[name]()
    ends = data.draw(st.lists(st.integers(0, 23), min_size=2, max_size=2, unique=True))
    communicator = Communicator(cluster, [ends])
    traffic = communicator.traffic("message", "send", nbytes)
    cost = communicator.cost("send", nbytes)

    assert sorted(traffic.links) == sorted(cluster.route(*ends).links)
    assert engine_seconds(cluster, traffic) == pytest.approx(cost.seconds, rel=1e-9)


# --- worked examples ------------------------------------------------------------------------------

ONE_NODE = [
    ("ring", "all-reduce", 14 * 10e-6 + 14e-3),  # 2 (p - 1) a + 2 (p - 1) / p x 8 ms
    ("doubling", "all-reduce", 3 * 10e-6 + 24e-3),  # log2 p (a + 8 ms)
    ("halving-doubling", "all-reduce", 6 * 10e-6 + 14e-3),  # 2 log2 p a + 2 (p - 1) / p x 8 ms
    ("nvls", "all-reduce", 10e-6 + 9e-3),  # a + (1 + 1 / p) x 8 ms
    ("ring", "reduce-scatter", 7 * 10e-6 + 7e-3),  # (p - 1) a + (p - 1) / p x 8 ms
    ("ring", "all-gather", 7 * 10e-6 + 7e-3),
    ("nvls", "all-gather", 10e-6 + 8e-3),  # a + 8 ms down each link
    ("halving-doubling", "reduce-scatter", 3 * 10e-6 + 7e-3),  # log2 p a + (p - 1) / p x 8 ms
    ("bruck", "all-gather", 3 * 10e-6 + 7e-3),  # ceil(log2 p) a + (p - 1) / p x 8 ms
    ("binomial", "broadcast", 3 * 10e-6 + 24e-3),  # ceil(log2 p) (a + 8 ms)
    ("ring", "broadcast", 7 * 10e-6 + 8e-3),  # a chain in many pieces: (p - 1) a + 8 ms
    ("pairwise", "all-to-all", 7 * 10e-6 + 7e-3),  # (p - 1) a + (p - 1) / p x 8 ms
    ("bruck", "all-to-all", 3 * 10e-6 + 12e-3),  # ceil(log2 p) (a + 8 ms / 2)
    ("grouped", "all-to-all", 10e-6 + 7 * 1e-6 + 7e-3),  # a, a post for each message, the bytes
    ("pairwise", "send", 10e-6 + 8e-3),  # a + 8 ms
    ("dissemination", "barrier", 3 * 10e-6),  # ceil(log2 p) a
]


FOUR_NODES = [
    # 2 x 28 hops in nodes, 2 x 3 between; a NIC carries an eighth of 2 x 31 / 32 x 800 MB
    ("ring", "all-reduce", 56 * 10e-6 + 6 * 20e-6 + 19.375e-3),
    # 2 x 7 hops in a node, 2 x log2 4 between; an inner NIC carries an eighth of 2 x 800 MB
    ("tree", "all-reduce", 14 * 10e-6 + 4 * 20e-6 + 20e-3),
    # the same NICs behind one hop to the crossbar, whose links carry 9 / 8 x 800 MB in 9 ms
    ("nvls-tree", "all-reduce", 10e-6 + 4 * 20e-6 + 20e-3),
    # 2 x 7 hops in a node, one to the switch; a NIC carries an eighth of 800 MB, once
    ("sharp", "all-reduce", 14 * 10e-6 + 20e-6 + 10e-3),
    # 2 x 7 hops in a node, 2 x 3 between; 14 ms in nodes, while 2 x 3 / 4 x 100 MB at 10 GB/s
    ("hierarchical", "all-reduce", 14 * 10e-6 + 6 * 20e-6 + 15e-3),
    # 31 rounds over the network: in each, a NIC carries a block of 25 MB
    ("pairwise", "all-to-all", 31 * (20e-6 + 2.5e-3)),
    # one hop, 31 posts; a NIC carries the 24 blocks of 25 MB for other nodes
    ("grouped", "all-to-all", 20e-6 + 31 * 1e-6 + 60e-3),
]


@pytest.mark.parametrize(
    ("nodes", "algorithm", "operation", "seconds"),
    [*((1, *row) for row in ONE_NODE), *((4, *row) for row in FOUR_NODES)],
)
def test_algorithms_by_hand(nodes, algorithm, operation, seconds):
    """8 devices a node on a crossbar, hops of 10 us and 20 us, 800 MB; sums in comments.

    A device's link carries 100 GB/s, the buffer in 8 ms, each of 8 NICs of a node 10 GB/s.
    """
    cost = fixed(ideal(nodes), algorithm, operation, range(8 * nodes)).cost(operation, 800e6)

    assert cost.seconds == pytest.approx(seconds)


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_a_barrier_of_nccl_is_an_all_reduce_of_one_number(nodes):
    """It has no barrier of its own, so a ring goes round twice, or a tree up and down."""
    communicator = Communicator(machine("dgx-h100", nodes), [range(8 * nodes)])
    seconds = scalar_reduction(communicator.span, communicator.cluster.library)

    assert communicator.cost("barrier", 0.0).seconds == pytest.approx(seconds)


def test_a_torus_by_hand():
    """4 x 4 x 4 closed rings of 45 GB/s each way: 2 x 63 / 64 S / (2 x 3 x 45 GB/s), 12 steps.

    A reduce-scatter passes half of each ring, 2 steps an axis; an all-reduce goes back as well.
    """
    cluster = machine("tpu-v4-pod", 64, (4, 4, 4))
    communicator = fixed(cluster, "torus", "all-reduce", range(64))
    small, large = (communicator.cost("all-reduce", nbytes) for nbytes in (0.0, 1e9))
    ((step,),) = [cluster.library.algorithms["torus"]]

    assert small.latency == pytest.approx(
        cluster.library.call_overhead + step.base + 12 * step.network_hop
    )
    assert large.seconds - small.seconds == pytest.approx(2 * 63 / 64 * 1e9 / (6 * 45e9))


def test_a_line_runs_at_half_the_pace_of_a_ring():
    """3 x 1 x 1 chips are a line: folded 0 2 1, its middle link is passed by two of the hops.

    2 x 2 / 3 / 2 of the buffer goes each way on each hop, so twice that on a link.
    """
    cluster = machine("tpu-v4-pod", 3, (3, 1, 1))
    load = fixed(cluster, "torus", "all-reduce", range(3)).load("torus", "all-reduce")

    assert load.seconds_per_byte(cluster.links.capacities) == pytest.approx(2 * 2 / 3 / 45e9)


@MODEST
@given(st.integers(2, 8))
def test_reduction_in_the_switch_beats_a_ring_by_its_formula(ranks):
    """Each device's link carries (1 + 1 / p) S, so the bus runs at 2 (p - 1) / (p + 1) of it."""
    communicator = fixed(ideal(1), "nvls", "all-reduce", range(ranks))
    load = communicator.load("nvls", "all-reduce")

    assert list(load.shares.values()) == [pytest.approx(1 + 1 / ranks)] * 2 * ranks
    assert bus_bandwidth(communicator, "nvls", "all-reduce") == pytest.approx(
        2 * (ranks - 1) / (ranks + 1) * 100e9
    )


def nic_shares(load, cluster):
    """Return what each NIC's cable carries, each way."""
    kinds = cluster.links.kinds
    return [share for link, share in load.shares.items() if kinds[link] == "nic"]


@MODEST
@given(st.integers(1, 8))
def test_a_tree_over_two_nodes_halves_the_traffic_of_a_ring(local):
    """Each NIC carries S / g each way; in a ring 2 (p - 1) / p as much, twice it for many ranks."""
    cluster = ideal(2)
    members = [*range(local), *range(8, 8 + local)]
    communicator = Communicator(cluster, [members])
    trees, rings = (
        nic_shares(communicator.load(name, "all-reduce"), cluster) for name in ("tree", "ring")
    )

    assert trees == [pytest.approx(1 / local)] * 4 * local
    assert rings == [pytest.approx((2 * local - 1) / local / local)] * 4 * local


def test_a_fabric_that_adds_up_carries_each_share_once_on_every_cable():
    """80 nodes are on three leaves a rail: an eighth goes up once from each leaf, and down once."""
    cluster = reducing("superpod-h100", 80, hashed=False)
    load = fixed(cluster, "sharp", "all-reduce", range(640)).load("sharp", "all-reduce")
    outside = [link for link in load.shares if cluster.links.kinds[link] not in INSIDE]
    kinds = Counter(cluster.links.kinds[link] for link in outside)

    assert kinds["nic"] == 2 * 640
    assert len(outside) - kinds["nic"] == 8 * 2 * 3
    assert {load.shares[link] for link in outside} == {1 / 8}


def test_a_reduction_in_the_fabric_goes_around_a_failed_cable():
    """Each leaf still sends its share up once, and the cable carries nothing either way."""
    plain = reducing("superpod-h100", 80)
    failed = next(name for name in links_of_reduction(plain) if name.startswith("leaf8>spine"))
    crossed = links_of_reduction(reducing("superpod-h100", 80, FailedCable(failed, "here")))
    ends = failed.partition("#")[0].split(">")

    assert not any({*ends} == {*link.partition("#")[0].split(">")} for link in crossed)
    assert any(link.startswith("leaf8>spine") for link in crossed)


def reducing(name, nodes, *faults, hashed=True):
    """Return a machine, of single cables where flows are hashed, of which the switches reduce."""
    plain = machine(name, nodes)
    fabric = replace(plain.fabric, reduces=True, routing="hashed" if hashed else "adaptive")
    found = find_faults(faults, plain.node, fabric, nodes)
    return Cluster(name, nodes, plain.node, plain.accelerator, plain.library, fabric, found)


def links_of_reduction(cluster):
    """Return the links that an all-reduce of all devices in the fabric crosses, by name."""
    communicator = fixed(cluster, "sharp", "all-reduce", range(cluster.devices))
    shares = communicator.load("sharp", "all-reduce").shares
    return [cluster.links.names[link] for link in shares]


INSIDE = ("crossbar", "bus")


# --- double binary trees --------------------------------------------------------------------------


def depth_in(parents, member):
    """Return how many links lie between a member of a tree and its root."""
    depth = 0
    while parents[member] is not None:
        member, depth = parents[member], depth + 1
        assert depth <= len(parents)
    return depth


@given(st.integers(1, 600))
@settings(max_examples=60, deadline=None)
def test_whoever_is_inner_in_one_tree_is_a_leaf_in_the_other(count):
    """Each member has no child in one of both trees, or is a root, which has one child.

    One root each, all others below it, at most ceil(log2 n) + 1 links deep.
    """
    trees = double_tree(count)
    children = [Counter(parent for parent in parents if parent is not None) for parents in trees]
    for parents in trees:
        assert sum(parent is None for parent in parents) == 1
        assert max(depth_in(parents, member) for member in range(count)) <= (
            (count - 1).bit_length() + 1
        )

    for member in range(count):
        assert max(below[member] for below in children) <= 2
        assert any(
            below[member] == 0 or (parents[member] is None and below[member] == 1)
            for below, parents in zip(children, trees, strict=True)
        )


@MODEST
@given(st.integers(2, 16), st.integers(1, 8))
def test_no_nic_carries_more_than_twice_its_channel_each_way(nodes, local):
    """As leaf S / 2, as inner member 3 / 2 S of its channel: a tree never loads a NIC more."""
    cluster = ideal(16)
    members = [8 * node + index for node in range(nodes) for index in range(local)]
    load = Communicator(cluster, [members]).load("tree", "all-reduce")

    assert max(nic_shares(load, cluster)) <= 2 / local + 1e-9


# --- rings on machines ----------------------------------------------------------------------------


def test_rings_of_a_frontier_node_use_links_within_their_width():
    """All rings together at full pace fill no link above its width, and the tightest exactly."""
    cluster = machine("frontier", 1)
    node = cluster.node
    rings = ring.local_rings(node, tuple(range(8)))
    assert sum(share for _, share in rings) == pytest.approx(1.0)
    assert all(sorted(circle) == list(range(8)) for circle, _ in rings)
    communicator = Communicator(cluster, [range(8)])
    pace = bus_bandwidth(communicator, "ring", "all-reduce")
    used = Counter()
    for circle, share in rings:
        for a, b in zip(circle, [*circle[1:], circle[0]], strict=True):
            used[a, b] += share * pace

    assert set(used) <= set(node.widths)
    assert len(used) == len(communicator.load("ring", "all-reduce").shares)
    full = [used[pair] / node.widths[pair] for pair in used]
    assert max(full) == pytest.approx(1.0)


def _all_reduce(off, nbytes):
    """Return the cost on the 8 H100 of a node, without some algorithms."""
    cluster = machine("dgx-h100", 1, issuer="training")
    return Communicator(cluster, [range(8)], off=off).cost("all-reduce", nbytes)


@pytest.mark.parametrize("mib", [64, 256])
def test_an_all_reduce_without_the_switch_takes_a_scatter_and_a_gather(mib):
    """Both are rings, so that sequence parallelism neither gains nor loses by its collectives."""
    nbytes = mib * 2**20
    communicator = Communicator(machine("dgx-h100", 1, issuer="training"), [range(8)])
    halves = [communicator.cost(each, nbytes) for each in ("reduce-scatter", "all-gather")]
    cost = _all_reduce(["nvls", "nvls-tree"], nbytes)

    assert cost.algorithm == "ring"
    assert cost.seconds - cost.latency == pytest.approx(
        sum(half.seconds - half.latency for half in halves), rel=0.005
    )
    assert cost.seconds > _all_reduce([], nbytes).seconds


def test_small_all_reduces_are_rings_with_and_without_the_switch():
    """NCCL chooses none in the switch for 256 KiB, so that turning it off changes nothing."""
    assert _all_reduce(["nvls"], 2**18).seconds == _all_reduce([], 2**18).seconds


def test_a_library_without_algorithms_is_an_error():
    """A framework that turns off all that a library has for an operation is stated as such."""
    with pytest.raises(PlanError, match="ring is turned off by the framework"):
        _all_reduce(["ring", "tree", "nvls", "nvls-tree", "sharp"], 1e6)


def test_rings_of_a_frontier_node_carry_150_gb_a_second():
    """The 8 GCDs have four rings of 50 GB/s x 0.75 = 37.5 GB/s of payload: 150 GB/s.

    Each way, two of them share every link of 100 GB/s and each package; the links of 50 GB/s carry
    one, but for 0-2 and 4-6, over which no further circle closes.
    """
    communicator = Communicator(machine("frontier", 1), [range(8)])
    crossed = Counter(map(round, crossings(communicator.load("ring", "all-reduce")).values()))

    assert bus_bandwidth(communicator, "ring", "all-reduce") == pytest.approx(150e9)
    assert crossed == {2: 2 * (4 + 2), 1: 2 * 4}


def test_a_ring_in_a_dgx_runs_at_the_rate_of_a_switch_link():
    """8 A100 on a crossbar: one ring at 300 GB/s x 0.783 = 234.9 GB/s, as was measured."""
    communicator = Communicator(machine("dgx-a100", 1), [range(8)])
    load = communicator.load("ring", "all-reduce")

    assert bus_bandwidth(communicator, "ring", "all-reduce") == pytest.approx(234.9e9)
    assert len(load.shares) == 16
    assert [*crossings(load).values()] == [pytest.approx(1.0)] * 16


def test_rings_across_nodes_use_every_nic_once():
    """Two DGX, 16 ranks: 8 channels, each over one NIC: 8 x 23.5 = 188 GB/s in all."""
    cluster = machine("selene", 2)
    communicator = Communicator(cluster, [range(16)])
    weights = crossings(communicator.load("ring", "all-reduce"))
    nics = [weight for link, weight in weights.items() if cluster.links.kinds[link] == "nic"]

    assert communicator.span[:4] == (16, 2, 8, False)
    assert nics == [pytest.approx(1.0)] * 2 * 8 * 2
    assert bus_bandwidth(communicator, "ring", "all-reduce") == pytest.approx(8 * 25e9 * 0.94)


@MODEST
@given(
    st.sampled_from(["frontier", "dgx-1v", "dgx-a100"]),
    st.sets(st.integers(0, 7), min_size=2),
    st.data(),
)
def test_a_ring_sends_its_whole_stream_into_and_out_of_each_member(name, members, data):
    """Whatever the rings, each member passes on one unit of the stream, and gets one."""
    node = machine(name, 1).node
    order = tuple(data.draw(st.permutations(sorted(members))))
    out, into = Counter(), Counter()
    for circle, share in ring.local_rings(node, order):
        assert sorted(circle) == sorted(members)
        for a, b in zip(circle, [*circle[1:], circle[0]], strict=True):
            out[a] += share
            into[b] += share

    assert out == into == {member: pytest.approx(1.0) for member in members}


@pytest.mark.parametrize(("groups", "shared"), [(8, True), (1, False)])
def test_groups_with_members_on_the_same_nodes_share_them(groups, shared):
    """Data groups over tensor groups of a node, as eight at once; a single group has all of it."""
    cluster = machine("frontier", 2)
    found = Communicator(cluster, [[first, 8 + first] for first in range(groups)])

    assert found.span.shared is shared


def test_rings_side_by_side_share_their_links_by_half():
    """Rings over both GCDs of a package in every node, on one NIC, get half of it each."""
    cluster = machine("frontier", 4)
    groups = [range(0, 32, 8), range(1, 32, 8)]
    one, both = (
        bus_bandwidth(Communicator(cluster, groups[:count]), "ring", "all-reduce")
        for count in (1, 2)
    )

    assert one == pytest.approx(25e9 * 0.95)
    assert both == pytest.approx(one / 2)


CHANNELS = [
    ("dgx-a100", 1, 8, 1),
    ("frontier", 1, 8, 4),
    ("frontier", 1, 2, 1),
    ("dgx-a100", 2, 16, 8),
]


@pytest.mark.parametrize(("name", "nodes", "ranks", "count"), CHANNELS)
def test_channels_are_counted(name, nodes, ranks, count):
    """One ring on a crossbar, four over a Frontier node, one in a package, eight by eight NICs."""
    cluster = machine(name, nodes)
    found = ring.channels(cluster, range(ranks))

    assert len(found) == count
    assert sum(share for _, share in found) == pytest.approx(1.0)


def test_a_tree_has_a_channel_for_every_member_of_the_fullest_node():
    """Of 3 and 5 devices in two nodes, 5 channels; in the smaller node two gateways serve twice."""
    cluster, members = ideal(2), [*range(3), *range(8, 13)]
    load = Communicator(cluster, [members]).load("tree", "all-reduce")

    assert sorted(nic_shares(load, cluster)) == pytest.approx([1 / 5] * 12 + [2 / 5] * 4)


# --- choice ---------------------------------------------------------------------------------------

OPERATIONS = ("all-reduce", "all-gather", "broadcast", "all-to-all", "barrier")


@MODEST
@given(st.integers(0, 7), st.integers(0, 7), st.integers(0, 2))
def test_groups_that_lie_alike_have_one_signature(rail, other, first):
    """On one switch it matters neither which nodes a group spans nor which rail it is on."""
    cluster = machine("dgx-h100", 4)
    groups = [range(rail, 16, 8), range(8 * first + other, 8 * first + 16, 8)]
    one, two = (Communicator(cluster, [group]).signatures(OPERATIONS)[1] for group in groups)

    assert one == two


def test_groups_that_lie_otherwise_have_another_signature():
    """A package and two, a node and two, a square of a torus and a line of as many chips."""
    frontier, pod = machine("frontier", 2), machine("tpu-v4-pod", 32, (4, 4, 2))
    square = [0, 2, 8, 10]
    pairs = [
        (frontier, range(2), [1, 2]),
        (frontier, range(8), range(4, 12)),
        (pod, square, range(0, 8, 2)),
    ]

    for cluster, *groups in pairs:
        one, two = (Communicator(cluster, [group]).signatures(OPERATIONS)[1] for group in groups)
        assert one != two


@pytest.mark.parametrize(("what", "problem"), wrong_values("algorithms that cannot run"))
def test_an_algorithm_that_cannot_run_says_what_it_needs(what, problem):
    """The message has the place of the prescription, and what it needs: on two DGX A100."""
    algorithm, operation, ranks = what.split()
    communicator = fixed(machine("dgx-a100", 2), algorithm, operation, range(int(ranks)))

    with pytest.raises(PlanError) as error:
        communicator.cost(operation, 1e6)
    assert str(error.value) == f"here.it.stands: '{algorithm}' {problem}"


def test_every_group_must_meet_what_an_algorithm_needs():
    """The cost of groups of four and four is not that of five and three next to them."""
    cluster = ideal(4)
    even, uneven = [*range(4), *range(8, 12)], [*range(16, 21), *range(24, 27)]

    assert not Communicator(cluster, [even]).obstacle("hierarchical", "all-reduce")
    assert Communicator(cluster, [even, uneven]).obstacle("hierarchical", "all-reduce")


def test_a_library_without_a_way_says_what_it_tried():
    """The message names the operation, the library and what each of its algorithms lacks."""
    cluster = ideal(1)
    cluster.library = replace(PLAIN, choices={"all-reduce": ("tree", "doubling")})
    communicator = Communicator(cluster, [range(6)])

    with pytest.raises(PlanError) as error:
        communicator.cost("all-reduce", 1e6)
    assert str(error.value) == (
        "collectives.all-reduce: library 'plain' has no algorithm for this group (tree needs a"
        " group over several nodes; doubling needs a power of two of ranks)"
    )
    with pytest.raises(PlanError, match="its file names none for this operation"):
        communicator.cost("broadcast", 1e6)


@MODEST
@given(st.sampled_from(sorted(MACHINES)), st.floats(1, 1e10))
def test_the_tuner_takes_what_it_ranks_first(name, nbytes):
    """No algorithm that the library may take is ranked before the one that is taken."""
    cluster = MACHINES[name]()
    assume(cluster.library.choices)
    communicator = Communicator(cluster, [range(cluster.devices)])
    taken = communicator.cost("all-reduce", nbytes)
    names = communicator.choices("all-reduce")

    assert taken.algorithm in names
    assert taken.ranked == min(
        communicator.cost_of(name, "all-reduce", nbytes).ranked for name in names
    )


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_a_byte_takes_as_long_on_a_machine_whose_routes_are_new(algorithm):
    """Adaptive routes are links that are made with the first load: its time includes them."""
    cluster, again = (build_cluster(entry("cluster", "frontier").record, 64) for _ in range(2))
    groups = np.arange(512).reshape(8, 64, order="F")
    links = cluster.links.capacities.size
    fresh = Communicator(cluster, groups).seconds_per_byte(algorithm, "all-reduce")
    known = Communicator(again, groups)
    known.load(algorithm, "all-reduce")

    assert cluster.links.capacities.size > links
    assert fresh.tolist() == known.seconds_per_byte(algorithm, "all-reduce").tolist()
