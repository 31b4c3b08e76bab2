"""Bisection and diameter of fabrics: arithmetic against maximum flows and shortest paths."""

from itertools import combinations

import networkx as nx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clustersim.topology.fabrics.dragonfly import DragonflyFabric
from clustersim.topology.fabrics.explicit import ExplicitFabric
from clustersim.topology.fabrics.fabric import SwitchFabric
from clustersim.topology.fabrics.fat_tree import FatTreeFabric
from clustersim.topology.links import Hop, Port

MODEST = settings(max_examples=25, deadline=None)
NIC = Hop("", 2.0, 1e-6, "nic")

cables = st.sampled_from([1.0, 2.0, 3.0, 8.0]).map(lambda width: Hop("", width, 3e-7))


def graph_of(fabric, nodes, nics):
    """Return the cables of a fabric and of its NICs, those side by side as one."""
    graph = nx.DiGraph()
    hops = [hop for _, _, hop in fabric.edges(nodes)]
    for node in range(nodes):
        for nic in range(nics):
            port = fabric.port(node, nic)
            hops += [port.up, port.down]
    for hop in hops:
        a, b = hop.name.partition("#")[0].split(">")
        neighbours = graph.get_edge_data(a, b, {"capacity": 0.0})["capacity"]
        graph.add_edge(a, b, capacity=neighbours + hop.bandwidth)
    return graph


def between_halves(fabric, nodes, nics):
    """Return the most that each half of the nodes can send to the others [B/s]."""
    graph = graph_of(fabric, nodes, nics)
    found = []
    for half in combinations(range(nodes), nodes // 2):
        flow = graph.copy()
        for node in range(nodes):
            for nic in range(nics):
                name = f"n{node}.nic{nic}"
                flow.add_edge("half", name) if node in half else flow.add_edge(name, "others")
        found.append(nx.maximum_flow_value(flow, "half", "others"))
    return found


def farthest(fabric, nodes, nics, graph=None):
    """Return the most links on a shortest path between NICs of two nodes."""
    steps = dict(nx.all_pairs_shortest_path_length(graph or graph_of(fabric, nodes, nics)))
    ends = [(node, f"n{node}.nic{nic}") for node in range(nodes) for nic in range(nics)]
    return max((steps[a][b] for i, a in ends for j, b in ends if i != j), default=0)


@pytest.mark.parametrize("nodes", [1, 2, 5])
def test_the_bisection_of_a_switch_is_that_of_its_nics(nodes):
    """Two NICs of 2 B/s each for every node of the smaller half."""
    fabric = SwitchFabric(NIC, 2)

    assert fabric.bisection(nodes) == nodes // 2 * 2 * 2.0
    assert fabric.diameter(nodes) == farthest(fabric, nodes, 2)


@st.composite
def trees(draw):
    """Draw a tree of two or three levels, wide or narrow at each, and the nodes on it."""
    nics, rails = draw(st.integers(1, 2)), draw(st.booleans())
    per_leaf, uplinks, leaves = (draw(st.integers(1, 3)) for _ in range(3))
    fabric = FatTreeFabric(
        NIC, draw(cables), nics, rails, per_leaf, uplinks, leaves, draw(st.integers(1, 4))
    )
    return fabric, draw(st.integers(2, 7)), nics


def fills(fabric, nodes):
    """Return whether the nodes fill their leaves and pods, an even number of nodes in all."""
    per_block = fabric.nics if fabric.rail_optimised else 1
    leaves = -(-nodes // fabric.nodes_per_leaf) * per_block
    full_pods = leaves % fabric.leaves_per_pod == 0 or leaves < fabric.leaves_per_pod
    whole_blocks = fabric.leaves_per_pod % per_block == 0
    return nodes % fabric.nodes_per_leaf == 0 and full_pods and whole_blocks


@MODEST
@given(trees())
def test_no_two_halves_of_a_full_tree_have_a_narrower_cut(drawn):
    """The bisection is the least of the maximum flows between all pairs of halves."""
    fabric, nodes, nics = drawn
    assume(fills(fabric, nodes))

    assert fabric.bisection(nodes) == pytest.approx(min(between_halves(fabric, nodes, nics)))


@MODEST
@given(trees())
def test_the_bisection_of_any_tree_is_a_cut_that_exists(drawn):
    """It is the narrowest cut after the first or before the last half of the nodes, never less."""
    fabric, nodes, nics = drawn
    flows = between_halves(fabric, nodes, nics)

    assert fabric.bisection(nodes) == pytest.approx(min(flows[0], flows[-1]))


@MODEST
@given(trees())
def test_the_diameter_of_a_tree_is_its_longest_shortest_path(drawn):
    """2, 4 or 6 links, by the highest level that two nodes need."""
    fabric, nodes, nics = drawn

    assert fabric.diameter(nodes) == farthest(fabric, nodes, nics)


@st.composite
def dragonflies(draw):
    """Draw a small dragonfly, whole or with its last group in part."""
    nics = draw(st.integers(1, 2))
    fabric = DragonflyFabric(
        NIC, draw(cables), nics, draw(st.integers(1, 3)), nics * draw(st.integers(1, 3)),
        draw(st.integers(1, 2)), draw(st.integers(1, 3)), "minimal"
    )  # fmt: skip
    return fabric, draw(st.integers(1, min(fabric.groups * fabric.nodes_per_group, 7))), nics


@MODEST
@given(dragonflies())
def test_the_bisection_of_a_dragonfly_is_a_cut_that_exists(drawn):
    """It is never below the least flow between two halves, nor above what their NICs carry."""
    fabric, nodes, nics = drawn
    flows = between_halves(fabric, nodes, nics) if nodes > 1 else [0.0]

    assert fabric.bisection(nodes) >= min(flows) * (1 - 1e-9)
    assert fabric.bisection(nodes) <= nodes // 2 * nics * NIC.bandwidth


@pytest.mark.parametrize("switches", [3, 4])
@pytest.mark.parametrize("pair_links", [1, 2, 3])
def test_no_halves_of_two_groups_have_a_narrower_cut_than_between_them(switches, pair_links):
    """Where a group has many cables inside, the narrowest cut is the cables to the other."""
    fabric = DragonflyFabric(NIC, Hop("", 1.0, 3e-7), 1, 2, switches, 1, pair_links, "minimal")
    least = min(between_halves(fabric, 2 * switches, 1))

    assert fabric.bisection(2 * switches) == pytest.approx(least)
    assert least == pair_links


@pytest.mark.parametrize(("groups", "pairs"), [(4, 4), (8, 16), (74, 37 * 37)])
def test_a_dragonfly_is_cut_between_its_groups(groups, pairs):
    """(g / 2)^2 pairs of groups stand apart, each joined by three cables."""
    fabric = DragonflyFabric(NIC, Hop("", 1.0, 3e-7), 1, groups, 2, 64, 3, "minimal")

    assert fabric.bisection(groups * 128) == 3 * pairs


@MODEST
@given(dragonflies())
def test_the_diameter_of_a_dragonfly_is_its_longest_minimal_route(drawn):
    """Of all pairs of NICs, the way with fewest links that stays within their two groups."""
    fabric, nodes, nics = drawn
    graph, longest = graph_of(fabric, nodes, nics), 0
    size = fabric.nodes_per_group
    for one in range(-(-nodes // size)):
        for other in range(one + 1):
            homes = [n for n in range(nodes) if n // size in (one, other)]
            switches = [
                s for s in graph if s[0] == "g" and int(s[1 : s.index("s")]) in (one, other)
            ]
            nics_here = [f"n{n}.nic{k}" for n in homes for k in range(nics)]
            steps = dict(nx.all_pairs_shortest_path_length(graph.subgraph(nics_here + switches)))
            pairs = [(a, b) for a in nics_here for b in nics_here]
            longest = max(
                [longest, *(steps[a][b] for a, b in pairs if a.split(".")[0] != b.split(".")[0])]
            )

    assert fabric.diameter(nodes) == longest


@st.composite
def networks(draw):
    """Draw a joined network of a few switches, some cables side by side."""
    size, nodes = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    ends = [(i, draw(st.integers(0, i - 1))) for i in range(1, size)]
    pairs = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    ends += draw(st.lists(pairs.filter(lambda pair: pair[0] != pair[1]), max_size=5))
    found = {}
    for a, b in ends:
        for here, far in ((f"s{a}", f"s{b}"), (f"s{b}", f"s{a}")):
            neighbours = found.setdefault(here, {}).get(far, ())
            hop = Hop(f"{here}>{far}#{len(neighbours)}", 1.0, 3e-7, "cable")
            found[here][far] = (*neighbours, hop)
    homes = [f"s{draw(st.integers(0, size - 1))}" for _ in range(nodes)]
    ports = tuple((Port(home, f"n{i}.nic0", NIC, home),) for i, home in enumerate(homes))
    return ExplicitFabric(1, ports, found), nodes


@MODEST
@given(networks())
def test_listed_cables_are_cut_after_the_first_half_of_the_nodes(drawn):
    """The bisection is what the first half can send to the others; the diameter that of a graph."""
    fabric, nodes = drawn

    if nodes > 1:
        assert fabric.bisection(nodes) == pytest.approx(between_halves(fabric, nodes, 1)[0])
    assert fabric.diameter(nodes) == farthest(fabric, nodes, 1)
