"""Machines: routes by arithmetic against shortest paths, bundles against cables, rings on nodes."""

from collections import Counter
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.catalog.fabrics import Dragonfly, FatTree, SingleSwitch
from clustersim.scenario.load import load
from clustersim.topology.cluster import build_cluster

MODEST = settings(max_examples=20, deadline=None)
CABLE = {"bandwidth": {"value": "25 GB/s", "assumed": "a test"}} | {
    "latency": {"value": "0.3 us", "assumed": "a test"}
}


def record(scenario):
    """Return the cluster of a shipped scenario as it was read."""
    return load(scenario).scenario.cluster


FRONTIER = record("frontier-22b")
SELENE = record("megatron21-t1-39b")


def fact(value):
    return {"value": value, "assumed": "a test"}


def made(kind, type, **counts):
    """Return a fabric of a type with these counts."""
    facts = {name: fact(value) for name, value in counts.items()}
    return kind.model_validate({"type": type, "link": CABLE, **facts})


def dragonfly(groups, switches, nodes_per_switch, pair_links, routing):
    return made(
        Dragonfly, "dragonfly", groups=groups, switches_per_group=switches, routing=routing,
        nodes_per_switch=nodes_per_switch, links_per_group_pair=pair_links
    )  # fmt: skip


def fat_tree(rails, nodes_per_leaf, leaf_uplinks, leaves_per_pod, pod_uplinks, routing="adaptive"):
    return made(
        FatTree, "fat-tree", rail_optimised=rails, routing=routing, nodes_per_leaf=nodes_per_leaf,
        leaf_uplinks=leaf_uplinks, leaves_per_pod=leaves_per_pod, pod_uplinks=pod_uplinks
    )  # fmt: skip


def whole(shape, routing="minimal"):
    """Return a dragonfly whose groups are all filled with nodes of Frontier."""
    groups, switches, nodes_per_switch, _ = shape
    nodes = groups * switches // 4 * nodes_per_switch
    return machine(FRONTIER, dragonfly(*shape, routing), nodes)


def machine(base, fabric, nodes):
    return build_cluster(base.model_copy(update={"fabric": fabric}), nodes)


def shortest(graph, a, b):
    """Return latency and hops of the quickest way, the one with fewest links among equals."""

    def weight(_a, _b, edge):
        return edge["latency"] + 1e-12

    path = nx.dijkstra_path(graph, a, b, weight)
    return sum(graph.edges[e]["latency"] for e in pairwise(path)), len(path) - 1


def device(cluster, number):
    node, local = divmod(number, cluster.node.devices)
    return f"n{node}.dev{local}"


def pairs(cluster):
    """Pairs of a few devices of each node."""
    chosen = [d for d in range(cluster.devices) if d % cluster.node.devices in (0, 1, 5)]
    return [(a, b) for a in chosen for b in chosen if a != b]


def ways(cluster, a, b):
    """Return the graph that a message may pass: its own node, or two nodes by the NICs they use."""
    (here, i), (peer, j) = divmod(a, 8), divmod(b, 8)
    nics = {} if here == peer else {(here, cluster.node.nic_of[i]), (peer, cluster.node.nic_of[j])}
    allowed = {f"n{node}.nic{nic}" for node, nic in nics}
    others = (n for n in cluster.graph if n[0] != "n" or n in allowed)
    own = (n for n in cluster.graph if n.startswith((f"n{here}.", f"n{peer}.")) and "nic" not in n)
    return cluster.graph.subgraph([*others, *own])


def agrees_with_shortest_paths(cluster):
    for a, b in pairs(cluster):
        hops = cluster.hops(a, b)
        graph = ways(cluster, a, b)
        seconds, count = shortest(graph, device(cluster, a), device(cluster, b))

        assert sum(hop.latency for hop in hops) == pytest.approx(seconds, rel=1e-9)
        assert len(hops) == count


# --- routes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [FRONTIER, SELENE], ids=["mesh", "crossbar"])
def test_a_switch_is_two_links_from_nic_to_nic(base):
    """Every pair of nodes on one switch is as far apart as in the graph."""
    agrees_with_shortest_paths(machine(base, SingleSwitch(type="switch"), 3))


@MODEST
@given(
    st.sampled_from([FRONTIER, SELENE]), st.booleans(), st.integers(1, 3), st.integers(1, 3),
    st.sampled_from([2, 4, 8]), st.integers(1, 5), st.integers(2, 4),
    st.sampled_from(["adaptive", "hashed"])
)  # fmt: skip
def test_a_fat_tree_goes_up_to_the_lowest_common_level(
    base, rails, nodes_per_leaf, leaf_uplinks, leaves_per_pod, pod_uplinks, nodes, routing
):
    """Hops and latency equal those of the shortest path, on one to many pods, rails or not."""
    shape = fat_tree(rails, nodes_per_leaf, leaf_uplinks, leaves_per_pod, pod_uplinks, routing)
    agrees_with_shortest_paths(machine(base, shape, nodes))


@pytest.mark.parametrize(("nodes", "pods"), [(4, 1), (8, 2), (12, 3)])
def test_routes_of_a_rail_optimised_tree_by_hand(nodes, pods):
    """NIC i of all nodes of a leaf meet there: 2 links; another leaf 4, another pod 6.

    Two nodes a leaf, 8 rails, so 8 leaves for each pair of nodes; 16 leaves a pod is 4 nodes.
    """
    cluster = machine(SELENE, fat_tree(True, 2, 2, 16, 4), nodes)

    def nic_to_nic(rail, node, other_rail):
        return len(cluster.hops(rail, 8 * node + other_rail)) - 2  # less the buses at both ends

    assert sum(node.startswith("spine") for node in cluster.graph) == 2 * pods
    assert nic_to_nic(3, 1, 3) == 2
    assert nic_to_nic(3, 1, 4) == 4
    assert nic_to_nic(3, 3, 3) == 4
    if pods > 1:
        assert nic_to_nic(3, nodes - 1, 3) == 6


small_dragonflies = st.tuples(
    st.integers(2, 4), st.sampled_from([4, 8]), st.integers(1, 2), st.integers(1, 4)
)


@MODEST
@given(small_dragonflies, st.data())
def test_a_minimal_dragonfly_route_is_the_shortest_through_its_two_groups(shape, data):
    """Local, global, local: as many hops and as long as the shortest path within the two groups.

    Through a third group two global cables may be fewer hops; that is not minimal routing.
    """
    cluster, per_group = whole(shape), shape[1] // 4 * shape[2]
    a, b = (data.draw(st.integers(0, cluster.devices - 1)) for _ in "ab")
    homes = {d // 8 // per_group for d in (a, b)}
    graph = ways(cluster, a, b)
    inside = [n for n in graph if n[0] == "n" or int(n[1 : n.index("s")]) in homes]
    hops = cluster.hops(a, b)

    if a == b:
        assert hops == []
        return
    found = shortest(graph.subgraph(inside), device(cluster, a), device(cluster, b))
    assert (sum(hop.latency for hop in hops), len(hops)) == (pytest.approx(found[0]), found[1])


@MODEST
@given(small_dragonflies, st.data())
def test_every_hop_of_a_minimal_route_is_a_cable(shape, data):
    """Each link of a route is an edge of the graph, as wide as one of its cables.

    Two groups may have several cables between the same two switches; the edge is their sum.
    """
    cluster = whole(shape)
    cables = Counter((a, b) for a, b, _ in cluster.fabric.edges(cluster.nodes))
    a, b = (data.draw(st.integers(0, cluster.devices - 1)) for _ in "ab")

    for hop in cluster.hops(a, b):
        ends = tuple(hop.name.partition("#")[0].split(">"))
        edge = cluster.graph.edges[ends]
        neighbours = cables.get(ends, 1)
        assert edge["bandwidth"] == pytest.approx(hop.bandwidth * neighbours)
    for before, after in pairwise(cluster.hops(a, b)):
        assert before.name.partition("#")[0].split(">")[1] == after.name.split(">")[0]


@MODEST
@given(small_dragonflies)
def test_every_cable_between_two_groups_has_one_end_in_each(shape):
    """Every pair of groups is joined by the stated number of cables, the same both ways."""
    groups, *_, pair_links = shape
    cluster = whole(shape)
    between, ends = Counter(), Counter()
    for a, b, hop in cluster.fabric.edges(cluster.nodes):
        home, other = (int(end[1 : end.index("s")]) for end in (a, b))
        ends[a, b] += 1
        if home != other:
            between[home, other] += 1
            assert hop.name.partition("#")[0] == f"{a}>{b}"

    expected = {(a, b): pair_links for a in range(groups) for b in range(groups) if a != b}
    assert between == expected
    assert all(ends[a, b] == ends[b, a] for a, b in ends)


@MODEST
@given(small_dragonflies)
def test_an_adaptive_dragonfly_adds_up_its_cables(shape):
    """A bundle is as wide as the cables out of its switch into the group, or out of the group."""
    groups, switches, *_ = shape
    cluster = whole(shape, "adaptive")
    local, out = Counter(), Counter()
    for a, b, hop in cluster.fabric.edges(cluster.nodes):
        home, other = (end[1 : end.index("s")] for end in (a, b))
        if home == other:
            local[a] += hop.bandwidth
        else:
            out[home] += hop.bandwidth

    route = cluster.hops(0, cluster.devices - 1)
    bundles = [hop for hop in route if "group" in hop.name]
    assert [hop.name for hop in bundles] == [
        "g0s0>group0",
        "group0>world",
        f"world>group{groups - 1}",
        f"group{groups - 1}>g{groups - 1}s{switches - 1}",
    ]
    assert bundles[0].bandwidth == pytest.approx(local["g0s0"])
    assert bundles[1].bandwidth == pytest.approx(out["0"])
    assert bundles[2].bandwidth == pytest.approx(out[str(groups - 1)])
    assert bundles[3].bandwidth == pytest.approx(local[f"g{groups - 1}s{switches - 1}"])


@MODEST
@given(small_dragonflies, st.data())
def test_an_adaptive_route_waits_for_the_longest_minimal_one(shape, data):
    """Adaptive routes are charged one cable inside a group and three across, never less."""
    adaptive, minimal = whole(shape, "adaptive"), whole(shape)
    a, b = (data.draw(st.integers(0, adaptive.devices - 1)) for _ in "ab")

    longer = adaptive.route(a, b).latency
    assert longer >= minimal.route(a, b).latency * (1 - 1e-12)
    assert longer <= minimal.route(a, b).latency + 2 * 0.3e-6 * (1 + 1e-12)


@MODEST
@given(st.booleans(), st.integers(1, 3), st.integers(1, 3), st.integers(1, 5))
def test_a_fat_tree_adds_up_its_cables(rails, nodes_per_leaf, leaf_uplinks, pod_uplinks):
    """A bundle is as wide as the cables of its leaf to all spines, or of its pod to all cores."""
    cluster = machine(
        SELENE,
        fat_tree(rails, nodes_per_leaf, leaf_uplinks, 4, pod_uplinks),
        4 * nodes_per_leaf + 1,
    )
    graph = cluster.graph
    up, over = Counter(), Counter()
    for a, b, edge in graph.edges(data=True):
        if a.startswith("leaf") and b.startswith("spine"):
            up[a] += edge["bandwidth"]
        if a.startswith("spine") and b.startswith("core"):
            over[a.partition(".")[0].replace("spine", "spines")] += edge["bandwidth"]

    bundles = {h.name: h.bandwidth for h in cluster.hops(0, cluster.devices - 1)}
    pod = cluster.fabric.leaf(cluster.nodes - 1, 7) // 4
    assert bundles["leaf0>spines0"] == pytest.approx(up["leaf0"])
    assert bundles["spines0>cores"] == pytest.approx(over["spines0"])
    assert bundles[f"cores>spines{pod}"] == pytest.approx(over[f"spines{pod}"])


# --- nodes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [FRONTIER, SELENE], ids=["mesh", "crossbar"])
def test_routes_inside_a_node_are_shortest_paths(base):
    """Devices of a node reach each other by as few links as the graph has between them."""
    cluster = machine(base, SingleSwitch(type="switch"), 1)
    inside = cluster.graph.subgraph(n for n in cluster.graph if "nic" not in n)
    for a in range(8):
        for b in range(8):
            if a != b:
                length = nx.shortest_path_length(inside, f"n0.dev{a}", f"n0.dev{b}")
                assert len(cluster.hops(a, b)) == length


def test_the_links_of_a_frontier_node_are_symmetric():
    """Both directions of a link are equally wide, and every GCD has 3 or 4 links."""
    widths = build_cluster(FRONTIER, 1).node.widths

    assert widths == {(b, a): width for (a, b), width in widths.items()}
    assert {sum(a == d for a, _ in widths) for d in range(8)} == {3}
    assert sum(widths.values()) == pytest.approx(2 * 0.75 * (4 * 200e9 + 2 * 100e9 + 6 * 50e9))


@pytest.mark.parametrize(
    ("base", "nics"), [(FRONTIER, (0, 0, 1, 1, 2, 2, 3, 3)), (SELENE, tuple(range(8)))]
)
def test_every_device_uses_the_nic_next_to_it(base, nics):
    """GCDs (0, 1), (2, 3), ... are packages, whose NIC is on the odd one; GPU i has NIC i."""
    assert build_cluster(base, 1).node.nic_of == nics


def test_gcd_0_has_no_direct_link_to_gcd_4():
    """0 to 4 passes a GCD between; of 0-2-4 and 0-6-4 both are 50 GB/s wide, the first is taken."""
    cluster = build_cluster(FRONTIER, 1)

    assert (0, 4) not in cluster.node.widths
    assert [hop.name for hop in cluster.hops(0, 4)] == ["n0.dev0>n0.dev2", "n0.dev2>n0.dev4"]
    assert [hop.bandwidth for hop in cluster.hops(0, 4)] == pytest.approx([37.5e9, 75e9])


@MODEST
@given(st.integers(0, 15), st.integers(0, 15))
def test_a_route_consists_of_its_hops(a, b):
    """Numbers, names, capacities and latency of a route are those of its hops, first and later."""
    cluster = build_cluster(FRONTIER, 2)
    route, hops = cluster.route(a, b), cluster.hops(a, b)

    assert cluster.route(a, b) == route
    assert [cluster.links.names[link] for link in route.links] == [hop.name for hop in hops]
    assert [cluster.links.capacities[link] for link in route.links] == [h.bandwidth for h in hops]
    assert route.latency == sum(hop.latency for hop in hops)
    assert route.network == (a // 8 != b // 8)
    assert len(set(route.links)) == len(route.links)
