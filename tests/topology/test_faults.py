"""Faults of the network: no route crosses a failed link, and slow links carry their share."""

from itertools import permutations

import pytest

from boxes import DATA
from clustersim.errors import PlanError
from clustersim.scenario.load import from_mapping
from clustersim.simulation.step.simulate import simulate
from clustersim.topology.cluster import build_cluster
from clustersim.topology.faults import FailedCable, FaultyNic, SlowLink, goodput
from clustersim.topology.link_names import links_like

CABLES = [("n0.nic0", "a"), ("n1.nic0", "c"), *map(tuple, ("ab", "bc", "ad", "de", "ec"))]

SQUARE = {
    "type": "links",
    "links": {"value": [[*ends, "25 GB/s"] for ends in CABLES], "assumed": "a test"},
    "latency": {"value": "1 us", "assumed": "a test"},
}
"""Two nodes that are joined by a short path over b, and a longer one over d and e."""


def machine(name, nodes, *faults, fabric=None):
    """Return a machine of the catalogue with faults."""
    cluster = {"name": name, "nodes": nodes, **({"fabric": fabric} if fabric else {})}
    record = from_mapping("test", {**DATA, "cluster": cluster}).scenario.cluster
    return build_cluster(record, nodes, None, faults)


def names(cluster, a, b):
    """Return the links of a route."""
    return [cluster.links.names[link] for link in cluster.route(a, b).links]


def test_the_devices_of_a_failed_nic_use_the_others():
    """No route of the node crosses the failed NIC, and other nodes keep their routes."""
    plain, cluster = (
        machine("frontier", 4, *faults) for faults in ((), (FaultyNic(1, 2, 0.0, "here"),))
    )
    size = cluster.node.devices
    for device in range(size):
        for other in (0, 5):
            out, home = names(cluster, size + device, other), names(cluster, other, size + device)

            assert not any("n1.nic2" in link for link in (*out, *home))
            assert any("n1.nic" in link for link in out)
        assert names(cluster, device, 2 * size) == names(plain, device, 2 * size)


def test_a_slow_link_has_its_share_of_the_bandwidth():
    """Half of the bandwidth of one direction is left; loss with go-back-N costs its window."""
    [link] = [name for name in names(machine("frontier", 4), 0, 8) if name.startswith("n0.nic")]
    share = goodput(0.01, 100)
    cluster = machine("frontier", 4, SlowLink(link, share, "here"))
    out, home = cluster.route(0, 8), cluster.route(8, 0)
    capacity = {cluster.links.names[row]: cluster.links.capacities[row] for row in out.links}

    assert share == pytest.approx(0.99 / 1.99)
    assert capacity[link] == pytest.approx(0.99 / 1.99 * 23.75e9)
    assert min(cluster.links.capacities[row] for row in home.links) == pytest.approx(23.75e9)


def test_a_slow_nic_is_slow_in_both_directions():
    """Its cable carries a tenth up and down."""
    cluster = machine("frontier", 4, FaultyNic(0, 0, 0.1, "here"))

    for a, b in ((0, 8), (8, 0)):
        rows = cluster.route(a, b).links
        assert min(cluster.links.capacities[row] for row in rows) == pytest.approx(2.375e9)


def test_a_bundle_without_one_cable_carries_the_rest():
    """Adaptive routing spreads over the cables that remain."""
    plain = machine("superpod-h100", 64)
    link = next(name for name in names(plain, 0, 8 * 63) if name.startswith("leaf"))
    uplinks = plain.fabric.leaf_uplinks
    cluster = machine("superpod-h100", 64, FailedCable(link, "here"))
    (row,) = [row for row in cluster.route(0, 8 * 63).links if cluster.links.names[row] == link]
    (before,) = [row for row in plain.route(0, 8 * 63).links if plain.links.names[row] == link]

    assert cluster.links.capacities[row] == pytest.approx(
        plain.links.capacities[before] * (uplinks - 1) / uplinks
    )


@pytest.mark.parametrize(
    ("name", "nodes", "fabric"),
    [
        ("fugaku", 48, {"job": [2, 2, 1, 2, 3, 2]}),
        ("meta-24k", 64, {"routing": "hashed"}),
        ("frontier", 260, {"routing": "minimal"}),
        ("frontier", 260, {"routing": "hashed"}),
    ],
)
def test_no_route_crosses_a_failed_cable(name, nodes, fabric):
    """Every pair that used the cable has another route; the others keep theirs."""
    plain = machine(name, nodes, fabric=fabric)
    size, last = plain.node.devices, plain.devices - plain.node.devices
    devices = [0, size, last // size // 2 * size, last]
    pairs = [*permutations(devices, 2)]
    failed = next(
        link
        for a, b in pairs
        for link in names(plain, a, b)
        if ".nic" not in link and ".dev" not in link
    )  # the first between switches
    cluster = machine(name, nodes, FailedCable(failed, "here"), fabric=fabric)
    a, _, b = failed.partition("#")[0].partition(">")
    both = {failed, f"{b}>{a}" + failed[len(f"{a}>{b}") :]}
    moved = 0
    for pair in pairs:
        before, after = names(plain, *pair), names(cluster, *pair)
        moved += not both.isdisjoint(before)

        assert both.isdisjoint(after)
        assert before[:2] == after[:2]
        assert before == after or not both.isdisjoint(before)
    assert moved


def test_a_failed_cable_inside_a_node_is_passed_by():
    """Devices of the node forward to each other; the other nodes are as before."""
    link = "n1.dev0>n1.dev1"
    plain, cluster = (machine("frontier", 2, *given) for given in ((), (FailedCable(link, "x"),)))

    assert link in names(plain, 8, 9)
    assert link not in names(cluster, 8, 9)
    assert names(cluster, 0, 1) == names(plain, 0, 1)


def test_a_longer_path_is_taken_where_no_equal_one_remains():
    """Between two switches without their shortest path the flow takes the next longer one."""
    cluster = machine("desktop-2x3090", 2, FailedCable("a>b", "here"), fabric=SQUARE)
    size = cluster.node.devices

    assert [link[0] + link[-1] for link in names(cluster, 0, size) if len(link) == 3] == [
        "ad",
        "de",
        "ec",
    ]


def test_a_failed_cable_that_cuts_the_job_in_two_is_rejected():
    """A device behind a crossbar has one cable, and so have two switches of a chain."""
    with pytest.raises(PlanError, match="a device of node 1 has no other way to the rest"):
        machine("dgx-h100", 2, FailedCable("n1.dev0>n1.switch", "here"))
    two = {"value": SQUARE["links"]["value"][:4], "assumed": "a test"}
    chain = {**SQUARE, "links": two}
    cluster = machine("desktop-2x3090", 2, FailedCable("a>b", "here"), fabric=chain)
    with pytest.raises(PlanError) as error:
        cluster.route(0, cluster.node.devices)

    assert str(error.value) == (
        "here.link: without a>b there is no route from a to c, which cuts the job in two"
        " (use type: slow-link, or leave it out)"
    )


def test_a_node_without_nics_is_rejected():
    """The last NIC of a node cannot fail: its devices would not reach the others."""
    with pytest.raises(PlanError, match="no NIC of node 0 remains, which cuts the job in two"):
        machine("frontier", 2, *(FaultyNic(0, nic, 0.0, "here") for nic in range(4)))


def test_links_are_known_by_the_names_of_routes():
    """Every link of a route is one that a scenario can name, and no other is."""
    for name, nodes in (("frontier", 4), ("superpod-h100", 64), ("fugaku", 48)):
        cluster = machine(name, nodes)
        for link in names(cluster, 0, cluster.devices - 1):
            known = links_like(link, cluster.node, cluster.fabric, nodes)
            assert link in known


def test_a_slow_link_slows_what_crosses_it_only():
    """One slow link unfolds the replica that crosses it; a faster one of no use changes nothing."""
    scenario = ["batch.global=32"]
    plain = simulate("frontier-22b", scenario)
    used, unused = "n0.dev0>n0.dev1", "n0.dev4>n0.dev2"
    slow, same = (
        simulate(
            "frontier-22b",
            [*scenario, f"disturbances=[{{type: slow-link, link: {link}, bandwidth: 0.1}}]"],
        )
        for link in (used, unused)
    )

    assert slow.step_time > 1.01 * plain.step_time
    assert same.step_time <= plain.step_time * (1 + 1e-12) or unused in {
        link.name for link in plain.program.carried
    }
