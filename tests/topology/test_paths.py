"""Flows on several paths: hashed by queue pair, by destination, sprayed."""

from collections import Counter
from statistics import mean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.errors import PlanError
from clustersim.scenario.machine import load_cluster
from clustersim.topology.cluster import build_cluster
from clustersim.topology.faults import FailedCable, FailedSwitch, FaultyNic, SlowLink

MODEST = settings(max_examples=20, deadline=None)

MACHINES = {
    "tree": ("superpod-a100", {}),
    "racks": ("meta-24k", {}),
    "pods": ("meta-24k", {"leaves_per_pod": 4, "pod_uplinks": 32}),
    "dragonfly": ("frontier", {"nodes_per_switch": 1, "switches_per_group": 8}),
}
ROUTINGS = [("hashed", 1), ("hashed", 3), ("hashed", 16), ("static", 1), ("sprayed", 1)]


def machine(name, nodes, *faults, **fabric):
    """Return a machine with some keys of its fabric changed."""
    use = load_cluster({"name": name, "fabric": fabric}, nodes)
    return build_cluster(use, nodes, faults=faults)


def crossings(cluster, pairs):
    """Return the flows that cross each link, by name."""
    a, b = np.array([*pairs]).T
    routes = cluster.routes(a, b)
    loads = Counter()
    for link, share in zip(routes.links.tolist(), routes.shares.tolist(), strict=True):
        loads[cluster.links.names[link]] += share
    return loads


def shift(cluster, step):
    """Return pairs of each node's first device with that of the node so many further."""
    size, nodes = cluster.node.devices, cluster.nodes
    return [(node * size, (node + step) % nodes * size) for node in range(nodes)]


# --- laws -----------------------------------------------------------------------------------------


@MODEST
@given(st.sampled_from([*MACHINES]), st.sampled_from(ROUTINGS), st.data())
def test_every_byte_takes_one_path(name, routing, data):
    """The shares of a message on each level add up to it; a route alone is that of many."""
    base, fabric = MACHINES[name]
    if name == "dragonfly" and routing[0] == "static":
        return
    cluster = machine(base, 32, routing=routing[0], queue_pairs=routing[1], **fabric)
    a, b = (data.draw(st.integers(0, cluster.devices - 1)) for _ in range(2))
    loads = crossings(cluster, [(a, b)])
    route = cluster.route(a, b)
    named = {
        cluster.links.names[link]: share
        for link, share in zip(route.links, route.shares, strict=True)
    }

    assert named == pytest.approx(dict(loads))
    assert len({*route.links}) == len(route.links)
    if a // cluster.node.devices != b // cluster.node.devices:
        assert loads[cluster.port(a).up.name] == pytest.approx(1.0)
        assert loads[cluster.port(b).down.name] == pytest.approx(1.0)
        for kind in ("leaf-spine", "spine-core", "global"):
            at = sum(
                s
                for link, s in zip(route.links, route.shares, strict=True)
                if cluster.links.kinds[link] == kind
            )
            assert at == pytest.approx(round(at))


@pytest.mark.parametrize("name", [*MACHINES])
def test_sprayed_flows_load_all_cables_alike(name):
    """Each of the equal cables of a leaf, or between two groups, carries the same share."""
    base, fabric = MACHINES[name]
    cluster = machine(base, 32, routing="sprayed", **fabric)
    last = cluster.devices - cluster.node.devices
    route = cluster.route(0, last)
    kinds = {}
    for link, share in zip(route.links, route.shares, strict=True):
        kinds.setdefault(cluster.links.kinds[link], set()).add(round(share, 12))
    equal = {"leaf-spine", "spine-core", "global"} & {*kinds}

    assert equal
    assert all(len(kinds[kind]) == 1 for kind in equal)


@pytest.mark.parametrize("step", [1, 3, 20, 31])
def test_static_routing_has_no_collisions_in_shifts_and_a_hash_has(step):
    """All nodes of a tree without oversubscription send to the node `step` further."""
    static = machine("superpod-a100", 40, routing="static")
    loads = crossings(static, shift(static, step))
    cables = {link: load for link, load in loads.items() if "spine" in link}
    hashed = machine("superpod-a100", 40, routing="hashed")
    collided = crossings(hashed, shift(hashed, step))

    assert max(cables.values(), default=1.0) == 1.0
    if len(cables) > 20:
        assert max(load for link, load in collided.items() if "spine" in link) > 1.0


def test_static_routing_collides_where_destinations_are_a_stride_apart():
    """Four nodes send to the nodes of the same place below other leaves: by the same spine."""
    cluster = machine("superpod-a100", 100, routing="static")
    size = cluster.node.devices
    pairs = [(node * size, (80 - 20 * node) % 100 * size) for node in range(4)]
    loads = crossings(cluster, pairs)

    assert max(load for link, load in loads.items() if link.startswith("leaf0>")) == 4.0


@pytest.mark.large
def test_more_queue_pairs_collide_less_and_many_not_at_all():
    """The busiest cable of a shift, mean over seeds, falls to the share of sprayed flows."""

    def busiest(routing, pairs, seeds):
        found = []
        for seed in range(seeds):
            cluster = machine("superpod-a100", 40, routing=routing, queue_pairs=pairs, seed=seed)
            loads = crossings(cluster, shift(cluster, 20))
            found.append(max(load for link, load in loads.items() if "spine" in link))
        return mean(found)

    falling = [busiest("hashed", pairs, 6) for pairs in (1, 4, 16, 256)]

    assert falling == sorted(falling, reverse=True)
    assert falling[0] > 2
    assert falling[-1] < 1.3
    assert busiest("sprayed", 1, 1) == pytest.approx(1.0)


# --- faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("routing", ROUTINGS)
def test_flows_of_a_failed_cable_take_the_others(routing):
    """None crosses it, each byte has another path; messages of odd nodes go as others do."""
    keys = {"routing": routing[0], "queue_pairs": routing[1]}
    plain = machine("superpod-a100", 40, **keys)
    link = next(link for link in crossings(plain, [(0, 20 * 8)]) if link.startswith("leaf"))
    faults = FailedCable(link, "here"), FaultyNic(1, 0, 0.0, "here")
    cluster = machine("superpod-a100", 40, *faults, **keys)
    pairs = [(node * 8, (node + 20) * 8) for node in range(20)]
    loads = crossings(cluster, pairs)
    leaving = sum(
        load for name, load in loads.items() if name.startswith("leaf") and ">spine" in name
    )

    assert loads[link] == 0
    assert leaving == pytest.approx(20)


@pytest.mark.parametrize("routing", ["hashed", "static", "sprayed"])
def test_flows_of_a_failed_spine_spread_over_the_others(routing):
    """Those that took it are chosen anew; all others keep their cables."""
    plain = machine("superpod-a100", 40, routing=routing)
    failed = machine("superpod-a100", 40, FailedSwitch("spine0.3", "here"), routing=routing)
    pairs = [
        (8 * node + rail, 8 * (20 + (node + step) % 20) + rail)
        for node in range(20)
        for rail in range(8)
        for step in range(4)
    ]
    before, after = (crossings(each, pairs) for each in (plain, failed))
    moved = {
        link: after[link] - before[link]
        for link in {*before, *after}
        if link.startswith("leaf") and abs(after[link] - before[link]) > 1e-9
    }
    gained = [more for more in moved.values() if more > 0]

    assert sum(after.values()) == pytest.approx(sum(before.values()))
    assert {link for link, more in moved.items() if more < 0} == {
        link for link in before if link.startswith("leaf") and link.endswith(">spine0.3")
    }
    assert len(gained) > 3
    assert max(gained) <= 0.75 * sum(gained)


@pytest.mark.parametrize(
    ("name", "switch", "link", "share"),
    [
        ("superpod-a100", "spine0.3", "leaf0>spines0", 19 / 20),
        ("meta-24k", "core0", "spines0>cores", 438 / 439),
        ("frontier", "g0s0", "g0s1>group0", 30 / 31),
    ],
)
def test_bundles_lose_the_cables_of_a_failed_switch(name, switch, link, share):
    """One of each leaf to its spines, of a pod to the cores, and of each switch of a group."""
    nodes = {"meta-24k": 512, "frontier": 130}.get(name, 40)
    plain = machine(name, nodes)
    failed = machine(name, nodes, FailedSwitch(switch, "here"))
    devices = [0, 8, 8 * 20 if name == "superpod-a100" else 8 * (nodes - 1)]
    for cluster in (plain, failed):
        for a, b in ((1, devices[-1]), (devices[-1], 1), (2, devices[1])):
            cluster.route(a, b)
    shares = failed.faults.shares

    assert shares[link] == pytest.approx(share)


def test_the_nics_on_a_failed_leaf_fail():
    """Devices of a rail use the NICs of the others; nodes with no other NIC are cut off."""
    cluster = machine("superpod-a100", 40, FailedSwitch("leaf1", "here"))
    names = {cluster.links.names[link] for link in cluster.route(1, 9).links}

    assert {*cluster.faults.nodes} == {*range(20)}
    assert not any(end in name for name in names for end in ("nic1", "leaf1"))
    with pytest.raises(PlanError, match=r"here\.switch: no NIC of node 0 remains"):
        machine("meta-24k", 4, FailedSwitch("leaf0", "here"))


def test_a_switch_that_is_not_there_is_rejected():
    """With the nearest name."""
    with pytest.raises(PlanError, match=r"no switch .* \(did you mean 'spine0.9'\?\)"):
        machine("superpod-a100", 40, FailedSwitch("spine0.99", "here"))
    with pytest.raises(PlanError, match=r"here\.switch: without .* cuts the job in two"):
        machine("meta-24k", 4, FailedSwitch("spine0.0", "here"), leaf_uplinks=1).route(0, 31)


def test_a_slow_cable_slows_what_is_sprayed_over_it():
    """Packets take all cables in turn, so that the flow has the pace of the slowest."""
    plain = machine("superpod-a100", 40, routing="sprayed")
    link = next(link for link in crossings(plain, [(0, 20 * 8)]) if link.startswith("leaf"))
    slow = machine("superpod-a100", 40, SlowLink(link, 0.01, "here"), routing="sprayed")
    rates = [cluster.rate(cluster.route(0, 20 * 8)) for cluster in (plain, slow)]

    assert rates[1] == pytest.approx(0.01 * 20 * plain.fabric.cable.bandwidth)
    assert rates[0] == pytest.approx(plain.fabric.nic.bandwidth)


def test_queue_pairs_without_a_hash_are_rejected():
    """They have no effect where packets are spread or a path goes by its destination."""
    for routing in ("adaptive", "static", "sprayed"):
        with pytest.raises(Exception, match=f"queue_pairs: has no effect on routing '{routing}'"):
            machine("superpod-a100", 2, routing=routing, queue_pairs=4)
