"""Which of several equal paths a flow takes: by hash, over a neighbour, along listed cables."""

import json
from collections import Counter
from itertools import pairwise
from math import prod

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.catalog.fabrics import LinkList
from clustersim.catalog.records.machines import HostFacts
from clustersim.errors import CatalogError
from clustersim.scenario.load import load
from clustersim.topology.cluster import build_cluster
from clustersim.topology.fabrics.dragonfly import DragonflyFabric
from clustersim.topology.fabrics.fat_tree import FatTreeFabric
from clustersim.topology.links import Hop, choose_each
from wrong_values import wrong_values

MODEST = settings(max_examples=20, deadline=None)
NIC = Hop("", 25e9, 1e-6, "nic")
CABLE = Hop("", 20e9, 3e-7)
FRONTIER = load("frontier-22b").scenario.cluster
SELENE = load("megatron21-t1-39b").scenario.cluster


def hashed(base, nodes, seed=0, **counts):
    """Return the cluster with hashed routing, and some counts of its fabric changed."""
    fabric = base.fabric.model_copy(update={"routing": "hashed", **counts, "seed": seed})
    return build_cluster(base.model_copy(update={"fabric": fabric}), nodes)


def tree(leaf_uplinks, leaves_per_pod, pod_uplinks, rails=False):
    """Return a hashed tree with two NICs a node and two nodes a leaf."""
    return FatTreeFabric(
        NIC, CABLE, 2, rails, 2, leaf_uplinks, leaves_per_pod, pod_uplinks, "hashed"
    )


def listed(links, nodes=2, nics=1, seed=0, routing="hashed"):
    """Return a cluster of one-device nodes on listed cables."""
    fabric = LinkList.model_validate(
        {
            "type": "links",
            "links": {"value": links, "assumed": "a test"},
            "latency": {"value": "0.3 us", "assumed": "a test"},
            "routing": {"value": routing, "assumed": "a test"},
            "seed": seed,
        }
    )
    node = SELENE.node
    ends = list(range(nics))
    node = node.model_copy(update={"nics": node.nics.model_copy(update={"devices": ends})})
    return build_cluster(SELENE.model_copy(update={"fabric": fabric, "node": node}), nodes)


def hashes(paths, seed, sources, targets, pair=0):
    """Return the paths that flows between all sources and targets are hashed to."""
    a, b = (ends.ravel() for ends in np.meshgrid(sources, targets, indexing="ij"))
    pairs = np.full(len(a), pair)
    return choose_each(np.full(len(a), paths), seed, a, b, pairs).tolist()


# --- hashed flows ---------------------------------------------------------------------------------


@MODEST
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 9), st.booleans())
def test_every_way_up_a_hashed_tree_is_cables_that_exist(uplinks, leaves, cores, rails):
    """Each of a pair's paths consists of listed cables, and no two of them are the same."""
    fabric, nodes = tree(uplinks, leaves, cores, rails), 8
    cables = {hop.name: hop for _, _, hop in fabric.edges(nodes)}
    count = fabric.leaf(nodes - 1, 1) + 1
    for a in range(count):
        for b in range(count):
            paths = [fabric.between(a, b, way) for way in range(fabric.path_count(a, b))]

            assert all(cables[hop.name] == hop for hops in paths for hop in hops)
            assert len({tuple(hops) for hops in paths}) == len(paths)
            for hops in paths:
                stops = [hop.name.split(">") for hop in hops]
                assert all(x[1] == y[0] for x, y in pairwise(stops))
                assert not hops or (stops[0][0], stops[-1][1]) == (f"leaf{a}", f"leaf{b}")


@MODEST
@given(st.integers(1, 4), st.integers(1, 9))
def test_the_spines_of_a_pod_share_its_uplinks(uplinks, cores):
    """Whether or not they divide evenly, two spines' shares differ by one at most."""
    fabric = tree(uplinks, 1, cores)
    held = Counter(a for a, b, hop in fabric.edges(8) if hop.kind == "spine-core" and a[0] == "s")
    shares = [held[f"spine0.{spine}"] for spine in range(uplinks)]

    assert sum(shares) == cores
    assert max(shares) - min(shares) <= 1


def test_flows_of_a_hashed_tree_spread_over_all_its_cables():
    """Every uplink of a leaf is taken, and no core by less than half the flows of another.

    Inside a pod there are 8 paths, by its spines, and between pods 12, by the cores.
    """
    cluster = hashed(
        SELENE, 16, nodes_per_leaf=2, leaf_uplinks=8, leaves_per_pod=32, pod_uplinks=12
    )
    used = Counter(
        cluster.links.names[link]
        for a in range(0, 128, 4)
        for b in range(0, 128, 5)
        for link in cluster.route(a, b).links
    )
    up = Counter({name: n for name, n in used.items() if name.startswith("leaf")})
    leaf = [up[f"leaf0>spine0.{spine}"] for spine in range(8)]
    cores = [sum(n for name, n in used.items() if name.endswith(f">core{i}")) for i in range(12)]

    assert min(leaf) > 0
    assert min(cores) > 0.5 * max(cores)


@MODEST
@given(st.integers(0, 2**40), st.integers(1, 64))
def test_the_hash_is_fair_and_repeats_itself(seed, paths):
    """The same flow takes the same path; 2,000 flows give each path at least half of its share."""
    chosen = hashes(paths, seed, range(50), range(100, 140))
    counts = Counter(chosen)

    assert chosen == hashes(paths, seed, range(50), range(100, 140))
    assert set(counts) == set(range(paths))
    if paths <= 16:
        assert min(counts.values()) > 0.5 * len(chosen) / paths


@MODEST
@given(st.integers(0, 2**40), st.integers(2, 64))
def test_queue_pairs_of_a_flow_are_hashed_on_their_own(seed, paths):
    """The first as a flow without others; 512 of one flow take half of the paths at least."""
    many = [hashes(paths, seed, [3], [8], pair)[0] for pair in range(512)]

    assert many[0] == hashes(paths, seed, [3], [8])[0]
    assert len({*many}) > paths / 2


def test_a_hash_known_by_heart():
    """The choice is the same on every machine and in every version: these are its values."""
    assert hashes(16, 0, [0], range(8)) == [1, 3, 15, 4, 4, 2, 7, 15]


def test_the_seed_moves_the_flows():
    """Another seed gives other paths to some flows, and the same seed the same to all."""

    def names(seed):
        cluster = hashed(
            SELENE, 8, seed, nodes_per_leaf=1, leaf_uplinks=8, leaves_per_pod=64, pod_uplinks=8
        )
        return [
            [cluster.links.names[link] for link in cluster.route(a, b).links]
            for a in range(0, 8)
            for b in range(8, 64, 3)
        ]

    assert names(1) == names(1)
    assert names(1) != names(2)


def test_a_hashed_dragonfly_uses_each_cable_between_two_groups():
    """A flow takes one of the pair's cables; over many flows all four are taken, in both ways."""
    cluster = hashed(FRONTIER, 256)
    used = Counter()
    for a in range(0, 1024, 16):
        for b in range(1024, 2048, 64):
            route = [cluster.links.names[link] for link in cluster.route(a, b).links]
            assert route == [hop.name for hop in cluster.hops(a, b)]
            used.update(name.partition("#")[2] for name in route if "#" in name)

    assert set(used) == {"0", "1", "2", "3"}
    assert min(used.values()) > 0.5 * max(used.values())


@MODEST
@given(st.integers(2, 4), st.integers(1, 6))
def test_each_way_of_a_hashed_dragonfly_is_the_minimal_path_of_its_cable(groups, pair_links):
    """Local, that cable, local; without the local hops where a switch holds the cable."""
    fabric = DragonflyFabric(NIC, CABLE, 2, groups, 4, 2, pair_links, "hashed")
    cables = {hop.name: hop for _, _, hop in fabric.edges(groups * fabric.nodes_per_group)}
    for a in range(4):
        for b in range(4):
            up, down = (0, a), (groups - 1, b)
            for way in range(fabric.path_count(up, down)):
                hops = fabric.between(up, down, way)
                leave = fabric.gateways(0, groups - 1)[way]
                enter = fabric.gateways(groups - 1, 0)[way]

                assert all(cables[hop.name] == hop for hop in hops)
                assert [hop.kind for hop in hops] == (
                    ["local"] * (a != leave) + ["global"] + ["local"] * (b != enter)
                )
    assert fabric.path_count((0, 1), (0, 2)) == 1


@pytest.mark.parametrize(("groups", "share"), [(3, 1 / 1.5), (2, 1.0)])
def test_detours_take_their_share_of_the_cables_between_groups(groups, share):
    """Half of the traffic by a third group: its cables carry 1.5 times as much; two have none."""

    def bundles(detour):
        fabric = DragonflyFabric(NIC, CABLE, 2, groups, 4, 2, 3, "adaptive", detour)
        return {hop.name: hop.bandwidth for hop in fabric.between((0, 0), (1, 1))}

    straight, around = bundles(0.0), bundles(0.5)

    assert straight["group0>world"] == pytest.approx(3 * (groups - 1) * CABLE.bandwidth)
    for name, bandwidth in straight.items():
        part = share if "world" in name else 1.0
        assert around[name] == pytest.approx(part * bandwidth)


def test_a_list_of_cables_is_hashed_sprayed_or_static():
    """Two paths between two switches: a share of each, or one by the destination."""
    links = [["n0.nic0", "a", "25 GB/s"], ["n1.nic0", "b", "25 GB/s"]]
    links += [[end, f"m{way}", "25 GB/s"] for way in range(2) for end in ("a", "b")]
    shares = {}
    for routing in ("hashed", "static", "sprayed"):
        cluster = listed(links, routing=routing)
        route = cluster.route(0, 8)
        names = [cluster.links.names[link] for link in route.links]
        shares[routing] = [
            share for name, share in zip(names, route.shares, strict=True) if name.startswith("a>")
        ]

    assert shares == {"hashed": [1.0], "static": [1.0], "sprayed": [0.5, 0.5]}


# --- neighbours and hosts -------------------------------------------------------------------------


@pytest.mark.parametrize("base", [FRONTIER, SELENE], ids=["mesh", "crossbar"])
def test_a_relayed_message_enters_the_network_on_the_rail_of_its_receiver(base):
    """It leaves by the NIC of the receiver's number, over each link once, and as shortly as any."""
    cluster = build_cluster(base, 2)
    for a in range(8):
        for b in range(8, 16):
            route = cluster.relayed(a, b)
            names = [cluster.links.names[link] for link in route.links]
            nics = [name.partition(">")[0] for name in names if name.startswith("n0.nic")]

            assert nics == [f"n0.nic{cluster.rail(b)}"]
            assert len(set(names)) == len(names)
            assert names[0].startswith(f"n0.dev{a}>")
            assert names[-1].endswith(f">n1.dev{b - 8}")
            assert all(x.split(">")[1] == y.split(">")[0] for x, y in pairwise(names[:3]))
            if cluster.rail(a) == cluster.rail(b):
                assert route == cluster.route(a, b)


def test_a_relayed_message_spares_the_spines_of_a_rail_optimised_tree():
    """Rail 3 to rail 5 of a neighbour on the same leaves: by a device, not by a spine."""
    cluster = build_cluster(SELENE, 2)

    def kinds(route):
        return [cluster.links.kinds[link] for link in route.links]

    assert "leaf-spine" in kinds(cluster.route(3, 13))
    assert kinds(cluster.relayed(3, 13)) == ["crossbar", "crossbar", "bus", "nic", "nic", "bus"]
    assert cluster.relayed(3, 5) == cluster.route(3, 5)


def test_host_memory_is_one_link_that_all_devices_of_a_node_share():
    """A device has a link to its host, each way its own; memory is read and written over one."""
    host = {
        "memory": {"value": "512 GB", "assumed": "a test"},
        "bandwidth": {"value": "200 GB/s", "assumed": "a test"},
        "link": {"value": "36 GB/s", "assumed": "a test"},
    }
    node = FRONTIER.node.model_copy(update={"host": HostFacts.model_validate(host)})
    cluster = build_cluster(FRONTIER.model_copy(update={"node": node}), 2)
    out, home = cluster.to_host(10), cluster.from_host(10)

    def links(route):
        names, widths = cluster.links.names, cluster.links.capacities
        return {names[link]: widths[link] for link in route.links}

    assert links(out) == {"n1.dev2>n1.host": 36e9, "n1.host>n1.memory": 200e9}
    assert links(home) == {"n1.host>n1.dev2": 36e9, "n1.host>n1.memory": 200e9}
    assert {cluster.links.kinds[link] for link in out.links} == {"host"}
    assert not out.network


def test_a_host_without_a_known_link_is_invalid():
    """Data for host memory on such a node: the message names the key that is missing."""
    node = FRONTIER.node.model_copy(update={"host": None})
    cluster = build_cluster(FRONTIER.model_copy(update={"node": node}), 1)

    with pytest.raises(CatalogError) as error:
        cluster.to_host(0)

    assert str(error.value) == (
        "frontier-ex235a: node.host.link: missing, but the run copies data to host memory"
        " (give the bandwidth per direction of a device's link to its host)"
    )


# --- listed cables --------------------------------------------------------------------------------


@st.composite
def networks(draw):
    """Draw a joined network of a few switches, and four nodes with a NIC on one each."""
    size = draw(st.integers(1, 6))
    cables = [(f"s{i}", f"s{draw(st.integers(0, i - 1))}") for i in range(1, size)]
    pairs = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    more = draw(st.lists(pairs.filter(lambda pair: pair[0] != pair[1]), max_size=6))
    cables += [(f"s{a}", f"s{b}") for a, b in more]
    homes = [f"s{draw(st.integers(0, size - 1))}" for _ in range(4)]
    return [[a, b, "10 GB/s"] for a, b in cables] + [
        [f"n{node}.nic0", home, "40 GB/s"] for node, home in enumerate(homes)
    ]


@MODEST
@given(networks())
def test_the_ways_of_listed_cables_are_all_the_shortest_paths(links):
    """As many as there are, no two the same, each a path of cables with fewest links."""
    cluster = listed(links, nodes=4)
    fabric, graph = cluster.fabric, nx.MultiDiGraph()
    for a, b, hop in fabric.edges(4):
        graph.add_edge(a, b, key=hop.name)
    for a in range(4):
        for b in range(4):
            out, home = fabric.port(a, 0).switch, fabric.port(b, 0).switch
            paths = [
                tuple(hop.name for hop in fabric.between(out, home, number))
                for number in range(fabric.path_count(out, home))
            ]
            shortest = (
                nx.all_shortest_paths(nx.DiGraph(graph), out, home) if out != home else [[out]]
            )
            expected = 0
            for path in shortest:
                side_by_side = [graph.number_of_edges(x, y) for x, y in pairwise(path)]
                expected += prod(side_by_side)
            names = [hop.partition("#")[0].split(">") for used in paths for hop in used]

            assert len(set(paths)) == len(paths) == expected
            assert all(graph.has_edge(x, y) for x, y in names)
            assert {len(hops) for hops in paths} == {len(list(pairwise(path)))}


def test_flows_over_listed_cables_spread_over_those_side_by_side():
    """Two cables between two leaves: of 64 flows each takes its part, and keeps it."""
    links = [["a", "b", "10 GB/s"]] * 2
    links += [[f"n{node}.nic0", "ab"[node % 2], "40 GB/s"] for node in range(16)]
    cluster = listed(links, nodes=16)
    used = Counter(
        cluster.links.names[link]
        for a in range(0, 128, 16)
        for b in range(8, 128, 16)
        for link in cluster.route(a, b).links
        if cluster.links.kinds[link] == "cable"
    )

    assert set(used) == {"a>b", "a>b#1"}
    assert min(used.values()) >= 16


def test_a_listed_cable_of_a_nic_is_as_wide_as_the_narrower_of_the_two():
    """A NIC of 25 GB/s on 10 and on 100 GB/s, of which 94 % is payload."""
    cluster = listed([["n0.nic0", "s", "10 GB/s"], ["n1.nic0", "s", "100 GB/s"]])

    assert cluster.fabric.port(0, 0).up == Hop("n0.nic0>s", 9.4e9, SELENE.nic.latency, "nic")
    assert cluster.fabric.port(1, 0).down.bandwidth == pytest.approx(23.5e9)


def test_two_nics_on_one_cable_need_no_switch():
    """Back to back they share nothing with a third: each sends at its own rate both ways."""
    cluster = listed([["n1.nic0", "n0.nic0", "20 GB/s"]])
    far, back = cluster.route(0, 8), cluster.route(8, 0)
    names = [cluster.links.names[link] for link in far.links]

    assert not set(far.links) & set(back.links)
    assert names == [
        "n0.dev0>n0.nic0",
        "n0.nic0>n1.nic0-n0.nic0",
        "n1.nic0-n0.nic0>n1.nic0",
        "n1.nic0>n1.dev0",
    ]


@pytest.mark.parametrize(("links", "complaint"), wrong_values("cables of a fabric"))
def test_a_list_that_leaves_a_nic_alone_is_invalid(links, complaint):
    """The message names the entry or the NIC, and what to do."""
    with pytest.raises(CatalogError) as error:
        listed(json.loads(links))

    assert str(error.value) == complaint
