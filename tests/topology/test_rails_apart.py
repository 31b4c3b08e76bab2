"""Rail-only machines and planes, cable by cable: nodes forward between rails."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clustersim
from clustersim.errors import CatalogError, PlanError
from clustersim.scenario.machine import load_cluster
from clustersim.topology.cluster import build_cluster
from clustersim.topology.faults import FaultyNic

NODES, RAILS = 4, 8


def cabled(cables):
    """Return a fabric of some cables."""
    facts = {"links": cables, "latency": "0.1 us"}
    return {"type": "links"} | {
        key: {"value": value, "assumed": "a test"} for key, value in facts.items()
    }


def rail_only(nodes=NODES):
    """Return a fabric with a switch for each rail, and nothing between these."""
    cables = [
        [f"n{node}.nic{rail}", f"rail{rail}", "400 Gb/s"]
        for node in range(nodes)
        for rail in range(RAILS)
    ]
    return cabled(cables)


def planes(nodes=NODES):
    """Return a fabric of a tree for each half of the NICs: two leaves and two spines."""
    cables = [
        [f"n{node}.nic{rail}", f"plane{rail % 2}-leaf{node // 2}", "400 Gb/s"]
        for node in range(nodes)
        for rail in range(RAILS)
    ]
    cables += [
        [f"plane{plane}-leaf{leaf}", f"plane{plane}-spine{spine}", "1600 Gb/s"]
        for plane in range(2)
        for leaf in range(nodes // 2)
        for spine in range(2)
    ]
    return cabled(cables)


def machine(fabric, *faults, nodes=NODES):
    """Return DGX H100 that are joined by a fabric."""
    use = load_cluster({"name": "dgx-h100", "fabric": fabric}, nodes)
    return build_cluster(use, nodes, None, faults)


@pytest.fixture(scope="module")
def apart():
    return machine(rail_only())


def names(cluster, a, b):
    """Return the links of a route."""
    return [cluster.links.names[link] for link in cluster.route(a, b).links]


@given(st.integers(0, NODES * RAILS - 1), st.integers(0, NODES * RAILS - 1))
def test_a_message_enters_the_network_on_the_rail_of_its_receiver(apart, a, b):
    """And by no other switch; between devices of one rail there is no forwarding."""
    if a == b:
        return
    crossed = [link for link in names(apart, a, b) if "rail" in link]
    if a // RAILS == b // RAILS:
        assert crossed == []
        return
    rail = apart.rail(b)

    assert crossed == [
        f"n{a // RAILS}.nic{rail}>rail{rail}", f"rail{rail}>n{b // RAILS}.nic{rail}",
    ]  # fmt: skip
    assert [apart.links.names[apart.links.number(hop)] for hop in apart.hops(a, b)] == names(
        apart, a, b
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, NODES * RAILS - 1), st.integers(0, NODES * RAILS - 1))
def test_planes_are_trees_of_their_own(a, b):
    """No route crosses both, and the plane is that of the receiver's NIC."""
    cluster = PLANES
    crossed = {found for link in names(cluster, a, b) for found in re.findall(r"plane\d", link)}

    assert crossed <= {f"plane{cluster.rail(b) % 2}"}


PLANES = machine(planes())


def test_rails_without_spines_take_the_time_of_an_ideal_switch_with_relays():
    """Of an all-to-all whose library relays: the switch between rails is never used."""
    machines = ({"name": "dgx-h100", "fabric": rail_only()}, "dgx-h100")
    rail, switch = (
        clustersim.collective(each, "all-to-all", devices=32, bytes="256MiB").timings[0].time_s
        for each in machines
    )

    assert rail == pytest.approx(switch, rel=0.02)


def test_a_job_trains_on_a_rail_only_machine():
    """Its tensor groups are in nodes and its rings on rails, so that it takes no longer."""
    changes = {"plan.data": 4, "batch.global": 32}
    times = [
        clustersim.simulate(
            {**JOB, "cluster": {"name": "dgx-h100", "nodes": 4, **fabric}}, changes
        ).step_time
        for fabric in ({}, {"fabric": rail_only()})
    ]

    assert times[1] == pytest.approx(times[0], rel=0.01)


JOB = {
    "model": "gpt-22b",
    "plan": {"tensor": 8, "data": 4},
    "batch": {"global": 32, "micro": 1, "sequence": 2048},
    "precision": "bf16",
    "framework": "megatron-core",
}


def test_the_receiver_forwards_where_the_sender_has_no_such_nic():
    """After the failure of a NIC, whose device uses another one of its node."""
    cluster = machine(rail_only(), FaultyNic(0, 3, 0.0, "here"))
    crossed = [link for link in names(cluster, 0, RAILS + 3) if "rail" in link]

    assert len(crossed) == 2
    assert "rail3" not in "".join(crossed)


def test_nodes_without_a_common_rail_are_rejected():
    """Each has one NIC left, of another rail."""
    faults = [FaultyNic(0, nic, 0.0, "here") for nic in range(RAILS - 1)]
    faults += [FaultyNic(1, nic, 0.0, "here") for nic in range(1, RAILS)]
    cluster = machine(rail_only(), *faults)

    with pytest.raises(PlanError, match="no NIC that works joins node 0 and node 1 between rails"):
        cluster.routes(np.array([0]), np.array([RAILS]))


def test_a_rail_in_two_parts_is_rejected():
    """Nodes forward between rails, and not between nodes."""
    fabric = rail_only()
    fabric["links"]["value"][2] = ["n0.nic2", "elsewhere", "400 Gb/s"]

    with pytest.raises(CatalogError, match=r"n0\.nic2 and n1\.nic2 are not connected"):
        machine(fabric)
