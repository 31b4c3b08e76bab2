"""Layouts on one machine share what is known about it; no answer depends on the others."""

import gc
from concurrent.futures import ThreadPoolExecutor
from weakref import ref

import pytest

from clustersim.answers import to_json
from clustersim.scenario.load import load
from clustersim.simulation.step.build import _LATEST, cluster_of
from clustersim.simulation.step.simulate import simulate

TREE = "cluster.nodes=4", "batch.global=32", "plan.data=2"

MACHINES = {
    "fat tree": ("megatron21-t1-39b", *TREE),
    "hashed fat tree": ("megatron21-t1-39b", *TREE, "cluster.fabric.routing=hashed"),
    "dragonfly": ("frontier-22b", "cluster.nodes=4", "plan.data=4", "batch.global=32"),
    "torus": ("fugaku-30b-pp48", "batch.global=64"),
}

LAYOUTS = {
    "fat tree": ({"tensor": 4, "data": 4}, {"pipeline": 4, "data": 1}, {"tensor": 2, "data": 8}),
    "hashed fat tree": ({"tensor": 4, "data": 4}, {"pipeline": 4, "data": 1}),
    "dragonfly": ({"tensor": 2, "data": 2}, {"tensor": 4, "data": 1}),
    "torus": ({"tensor": 2, "data": 2}, {"pipeline": 24, "data": 2}),
}


def answer_of(loaded):
    found = to_json(simulate(loaded).answer)
    found.pop("wall_s")
    return found


@pytest.mark.parametrize("machine", MACHINES)
def test_an_answer_does_not_depend_on_earlier_layouts(machine):
    """All its digits, after other layouts on the same machine and on a machine of its own."""
    name, *settings = MACHINES[machine]
    base = load(name, settings)
    alone = answer_of(load(name, settings))
    for degrees in LAYOUTS[machine]:
        layout = base.changed({f"plan.{axis}": degree for axis, degree in degrees.items()})
        simulate(layout)
        assert layout.scenario.cluster is base.scenario.cluster

    assert answer_of(base) == alone


def test_layouts_share_a_machine_unless_its_links_were_numbered_by_use():
    """A fat tree numbers its links by arithmetic, a dragonfly those between switches by use."""
    for machine, shared in (("fat tree", True), ("dragonfly", False)):
        loaded = load(MACHINES[machine][0], MACHINES[machine][1:])
        before = cluster_of(loaded)
        simulate(loaded)

        assert (cluster_of(loaded) is before) is shared


def test_a_machine_is_found_by_the_number_of_the_record_that_is_kept_with_it():
    """A record that is not kept leaves its number to a later one, whose ranks had no devices."""
    for _ in range(2):  # the machine of an equal record, whose links have numbers, is built again
        simulate(load(MACHINES["dragonfly"][0], MACHINES["dragonfly"][1:]))

    assert [key for key, _ in _LATEST._built] == [
        id(record) for record, _ in _LATEST._built.values()
    ]


def test_threads_share_no_machine():
    """What a machine keeps is changed without locks."""
    loaded = load("megatron21-t1-39b")
    with ThreadPoolExecutor(1) as other:
        elsewhere = other.submit(cluster_of, loaded).result()

    assert cluster_of(loaded) is not elsewhere


def test_a_machine_with_faults_is_not_shared():
    """Its routes and capacities are those of its faults."""
    loaded = load("megatron21-t1-39b")
    fault = {"type": "slow-nic", "node": 0, "nic": 0, "bandwidth": 0.5}
    faulty = loaded.changed({"disturbances": [fault]})

    assert cluster_of(faulty).faults
    assert not cluster_of(loaded).faults


def test_machines_of_earlier_scenarios_are_freed():
    """With all that they keep; two are kept for the next layouts."""
    machines = []
    for replicas in (1, 2, 3, 4, 6):
        nodes = f"cluster.nodes={2 * replicas}"
        loaded = load("megatron21-t1-39b", [nodes, f"plan.data={replicas}", "batch.global=48"])
        simulate(loaded)
        machines.append(ref(cluster_of(loaded)))
    gc.collect()

    assert [machine() is None for machine in machines] == [True, True, True, False, False]
