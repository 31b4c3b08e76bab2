"""Tori: routes by arithmetic against shortest paths, rings by their rule, walks round two axes."""

import json
from itertools import combinations, pairwise
from math import prod

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.catalog.fabrics import Torus
from clustersim.errors import PlanError
from clustersim.scenario.load import load
from clustersim.topology.cluster import build_cluster
from clustersim.topology.fabrics.grid import circuit
from clustersim.topology.fabrics.torus import build_torus
from clustersim.topology.links import Hop
from wrong_values import wrong_values

MODEST = settings(max_examples=20, deadline=None)
MANY = settings(max_examples=60, deadline=None)
NIC = Hop("", 40e9, 5e-7, "nic")
CABLE = Hop("", 6e9, 1e-7)
FUGAKU = {
    "shape": [24, 23, 24, 2, 3, 2],
    "ring": [24, 23, 24, 0, 3, 0],
    "axes": list("XYZabc"),
    "joined": [[0, 3], [1, 4], [2, 5]],
}


def fact(value):
    return {"value": value, "assumed": "a test"}


def record(shape, ring, axes=None, joined=None, job=None, virtual=False):
    data = {
        "type": "torus",
        "shape": fact(shape),
        "axes": axes or [f"x{i}" for i in range(len(shape))],
        "ring": fact(ring),
        "link": {"bandwidth": fact("6 GB/s"), "latency": fact("0.1 us")},
        "job": job,
        "virtual": virtual,
    }
    return Torus.model_validate(data | ({"joined": fact(joined)} if joined else {}))


def torus(shape, ring, nodes=None, nic=NIC, **more):
    """Return a torus, of all its nodes or of the first ones."""
    job = more.get("job")
    return build_torus(
        record(shape, ring, **more), nic, CABLE, 1, nodes or prod(shape if job is None else job)
    )


def graph_of(fabric, nodes):
    """Return the fabric's cables and those of its NICs as a graph."""
    graph = nx.DiGraph()
    for a, b, hop in fabric.edges(nodes):
        assert not graph.has_edge(a, b), "two cables between two routers"
        graph.add_edge(a, b, capacity=hop.bandwidth)
    for node in range(nodes):
        port = fabric.port(node, 0)
        for hop in (port.up, port.down):
            graph.add_edge(*hop.name.split(">"), capacity=hop.bandwidth)
    return graph


def name(fabric, node):
    return fabric.port(node, 0).switch_name


@st.composite
def shapes(draw, largest=48):
    """Draw lengths and the ring rule of each axis: a line, a whole ring, or every second length."""
    shape = draw(
        st.lists(st.integers(1, 6), min_size=1, max_size=4).filter(lambda s: prod(s) <= largest)
    )
    return shape, [draw(st.sampled_from([0, length, 2, 4])) for length in shape]


# --- routes ---------------------------------------------------------------------------------------


@MODEST
@given(shapes(24))
def test_every_route_is_a_shortest_path_of_cables(shape):
    """Whatever lengths and rings: as many links as the graph needs, each beginning at the last."""
    fabric = torus(*shape)
    nodes = prod(shape[0])
    graph = graph_of(fabric, nodes)
    steps = dict(nx.all_pairs_shortest_path_length(graph))
    cables = {hop.name: hop for _, _, hop in fabric.edges(nodes)}
    for a in range(nodes):
        for b in range(nodes):
            hops = fabric.between(fabric.port(a, 0).switch, fabric.port(b, 0).switch)

            assert len(hops) == steps[name(fabric, a)][name(fabric, b)]
            assert all(cables[hop.name] == hop for hop in hops)
            stops = [hop.name.split(">") for hop in hops]
            assert all(before[1] == after[0] for before, after in pairwise(stops))
            if hops:
                assert (stops[0][0], stops[-1][1]) == (name(fabric, a), name(fabric, b))


@pytest.mark.large
@MODEST
@given(shapes(), st.data())
def test_the_first_nodes_of_a_machine_reach_each_other_inside_the_cables_shown(shape, data):
    """A part of a machine passes routers next to its own where that is shorter; all are in `edges`.

    Rings are those of the whole machine then.
    """
    nodes = data.draw(st.integers(1, prod(shape[0])))
    part, whole = torus(*shape, nodes=nodes), torus(*shape)
    shown = {hop.name for _, _, hop in part.edges(nodes)}
    for a in range(nodes):
        for b in range(nodes):
            hops = part.between(a, b)

            assert hops == whole.between(a, b)
            assert shown.issuperset(hop.name for hop in hops)


def test_of_two_equal_ways_round_a_ring_the_positive_is_taken():
    """On a ring of four, 0 to 2 goes by 1, 2 to 0 by 3, and 0 to 3 goes backwards."""
    fabric = torus([4], [4])

    def stops(a, b):
        return [hop.name for hop in fabric.between(a, b)]

    assert stops(0, 2) == ["r0>r1", "r1>r2"]
    assert stops(2, 0) == ["r2>r3", "r3>r0"]
    assert stops(0, 3) == ["r0>r3"]


def test_a_route_goes_along_one_axis_after_another():
    """On a 3 x 4 mesh from (0, 3) to (2, 1): X first, then Y, and each link has its axis' kind."""
    fabric = torus([3, 4], [0, 0], axes=["X", "Y"])
    hops = fabric.between(3, 9)

    assert [hop.name for hop in hops] == ["r0.3>r1.3", "r1.3>r2.3", "r2.3>r2.2", "r2.2>r2.1"]
    assert [hop.kind for hop in hops] == ["axis X", "axis X", "axis Y", "axis Y"]
    assert {hop.bandwidth for hop in hops} == {CABLE.bandwidth}
    assert {hop.latency for hop in hops} == {CABLE.latency}


def test_two_neighbours_on_an_axis_of_two_have_one_cable():
    """An axis of length two is no ring, even where its rule would make it one."""
    fabric = torus([2], [2])

    assert fabric.rings == (False,)
    assert sorted(hop.name for _, _, hop in fabric.edges(2)) == ["r0>r1", "r1>r0"]


# --- jobs -----------------------------------------------------------------------------------------


def test_fugaku_has_158976_nodes_and_closes_x_y_z_and_b():
    """24 x 23 x 24 x 2 x 3 x 2 nodes; the axes a and c have length two."""
    fabric = torus(**FUGAKU)

    assert fabric.lengths == (24, 23, 24, 2, 3, 2)
    assert prod(fabric.lengths) == 158_976
    assert fabric.rings == (True, True, True, False, True, False)
    assert fabric.coordinates(158_975) == (23, 22, 23, 1, 2, 1)
    assert fabric.node((23, 22, 23, 1, 2, 1)) == 158_975


def test_a_job_closes_the_axes_that_it_has_whole_and_virtually_its_joined_ones():
    """A block of 24 x 2 x 24 x 2 x 3 x 2 has 13,824 nodes; X, Z and b are rings, the others not.

    X-a and Z-c make rings of 48, Y-b one of 6: the 48 x 6 x 48 that a job of that size sees.
    """
    block, seen = (
        torus(**FUGAKU, job=[24, 2, 24, 2, 3, 2], virtual=virtual) for virtual in (False, True)
    )

    assert prod(block.lengths) == 13_824
    assert block.rings == (True, False, True, False, True, False)
    assert (seen.lengths, seen.rings) == ((48, 6, 48), (True, True, True))


@pytest.mark.parametrize(
    ("job", "rings"),
    [
        ([4, 4, 4], (True, True, True)),
        ([8, 4, 12], (True, True, True)),
        ([2, 4, 4], (False, True, True)),
        ([2, 2, 1], (False, False, False)),
        ([6, 8, 16], (False, True, True)),
    ],
)
def test_slices_of_a_tpu_pod_close_where_they_are_whole_cubes(job, rings):
    """Optical switches join the ends of an axis whose length is a multiple of four."""
    assert torus([16, 20, 28], [4, 4, 4], job=job).rings == rings


@MODEST
@given(shapes(24), st.data())
def test_virtual_neighbours_are_neighbours_of_the_machine(shape, data):
    """Every node has one place; a step on a virtual axis is one cable, and so is closing a ring."""
    lengths, ring = shape
    if len(lengths) % 2:
        lengths, ring = [*lengths, 1], [*ring, 0]
    axes = data.draw(st.permutations(range(len(lengths))))
    joined = [list(pair) for pair in zip(axes[::2], axes[1::2], strict=True)]
    fabric = torus(lengths, ring, joined=joined, virtual=True)
    nodes = prod(lengths)

    assert sorted(fabric.position(node) for node in range(nodes)) == sorted(
        torus(lengths, ring).position(node) for node in range(nodes)
    )
    assert fabric.lengths == tuple(lengths[a] * lengths[b] for a, b in joined)
    for node in range(nodes):
        place = list(fabric.coordinates(node))
        assert fabric.node(place) == node
        for axis, length in enumerate(fabric.lengths):
            if place[axis] + 1 < length or fabric.rings[axis]:
                neighbours = list(place)
                neighbours[axis] = (place[axis] + 1) % length
                ends = [fabric.port(n, 0).switch for n in (node, fabric.node(neighbours))]
                assert len(fabric.between(*ends)) == 1


@MANY
@given(st.integers(1, 7), st.integers(1, 7), st.booleans(), st.booleans())
def test_a_walk_visits_every_place_once_and_closes_where_one_can(a, b, ring_a, ring_b):
    """It fails to close only where no walk can: a line, or an odd chessboard without a ring."""
    walk = circuit((a, b), (ring_a and a > 2, ring_b and b > 2))
    graph = nx.Graph()
    for x in range(a):
        for y in range(b):
            ends = [((x + 1) % a, y)] if x + 1 < a or (ring_a and a > 2) else []
            ends += [(x, (y + 1) % b)] if y + 1 < b or (ring_b and b > 2) else []
            graph.add_edges_from(((x, y), end) for end in ends)
    chessboard = bool(graph) and nx.is_bipartite(graph) and a * b % 2 == 1
    line = min(a, b) == 1 and not (ring_a and a > 2) and not (ring_b and b > 2)

    assert walk.cells[0] == (0, 0)
    assert sorted(walk.cells) == [(x, y) for x in range(a) for y in range(b)]
    assert all(graph.has_edge(*step) for step in pairwise(walk.cells))
    assert walk.closed == (not chessboard and not line)
    if walk.closed:
        assert graph.has_edge(walk.cells[-1], walk.cells[0])


@pytest.mark.parametrize(("shape", "complaint"), wrong_values("blocks of another size"))
def test_a_block_of_another_size_is_refused(shape, complaint):
    """The message names the key, both numbers and what to do."""
    with pytest.raises(PlanError) as error:
        torus([4, 6], [0, 0], **json.loads(shape))

    assert str(error.value) == complaint


# --- the whole ------------------------------------------------------------------------------------


@MODEST
@given(shapes(10), st.data())
def test_no_two_halves_of_a_torus_have_a_narrower_cut(shape, data):
    """The bisection is the least of the maximum flows between all pairs of halves."""
    nodes = prod(shape[0])
    fabric = torus(*shape, nic=NIC._replace(bandwidth=data.draw(st.sampled_from([5e9, 40e9]))))
    graph = graph_of(fabric, nodes)
    least = min(_flow(graph, half, nodes) for half in combinations(range(nodes), nodes // 2))

    assert fabric.bisection(nodes) == pytest.approx(least)


def _flow(graph, half, nodes):
    """Return the most that the NICs of a half can send to the others [B/s]."""
    graph = graph.copy()
    for node in range(nodes):
        nic = f"n{node}.nic0"
        graph.add_edge("half", nic) if node in half else graph.add_edge(nic, "others")
    return nx.maximum_flow_value(graph, "half", "others") if half else 0.0


@MODEST
@given(shapes(16), st.data())
def test_the_bisection_of_a_part_is_a_cut_that_exists(shape, data):
    """For some first nodes of a machine it is never below the least flow between two halves."""
    nodes = data.draw(st.integers(1, min(prod(shape[0]), 8)))
    fabric = torus(*shape, nodes=nodes)
    graph = graph_of(fabric, nodes)
    least = min(_flow(graph, half, nodes) for half in combinations(range(nodes), nodes // 2))

    assert least * (1 - 1e-9) <= fabric.bisection(nodes) <= nodes // 2 * NIC.bandwidth


@MODEST
@given(shapes(), st.data())
def test_the_diameter_is_the_longest_of_all_routes(shape, data):
    """From NIC to NIC, for the whole machine and for its first nodes."""
    nodes = data.draw(st.integers(1, prod(shape[0])))
    fabric = torus(*shape, nodes=nodes)
    longest = max(2 + len(fabric.between(a, b)) for a in range(nodes) for b in range(nodes))

    assert fabric.diameter(nodes) == (longest if nodes > 1 else 0)


def test_figures_of_the_whole_of_fugaku():
    """Cut across X or Z, each a ring of 24: 2 x 158,976 / 24 links; diameter 12+11+12+1+1+1 and 2.

    A shorter axis costs more cables, and Y has 23, which no cut halves.
    """
    fabric = torus(**FUGAKU)

    assert fabric.bisection(158_976) == pytest.approx(2 * 158_976 / 24 * CABLE.bandwidth)
    assert fabric.diameter(158_976) == 2 + 12 + 11 + 12 + 1 + 1 + 1


# --- clusters -------------------------------------------------------------------------------------


@MODEST
@given(shapes(12), st.data())
def test_devices_on_a_torus_are_as_far_apart_as_the_graph_says(shape, data):
    """Node, NIC, routers, NIC, node: a cluster's route has the links of the shortest path."""
    base = load("frontier-22b").scenario.cluster
    nodes = prod(shape[0])
    cluster = build_cluster(base.model_copy(update={"fabric": record(*shape)}), nodes)
    a, b = (data.draw(st.integers(0, cluster.devices - 1)) for _ in "ab")
    route, hops = cluster.route(a, b), cluster.hops(a, b)
    used = {f"n{d // 8}.nic{cluster.rail(d)}" for d in (a, b)} if a // 8 != b // 8 else set()
    graph = cluster.graph.subgraph(n for n in cluster.graph if ".nic" not in n or n in used)

    assert len(hops) == len(route.links)
    ends = [f"n{d // 8}.dev{d % 8}" for d in (a, b)]
    assert len(hops) == nx.shortest_path_length(graph, *ends)
    assert {cluster.links.kinds[link] for link in route.links} == {hop.kind for hop in hops}
