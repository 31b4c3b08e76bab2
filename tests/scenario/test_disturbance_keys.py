"""Invalid disturbances: one line each, with the place, the value and what is allowed."""

import pytest

from clustersim.errors import ClustersimError
from clustersim.scenario.load import load
from clustersim.simulation.step.build import build_job


def test_more_blocks_than_can_be_replayed_are_rejected():
    """Jitter on all replicas is limited to the blocks that are replayed, before work starts."""
    batch = {"batch.global": 15_728_640, "batch.micro": 1}
    jitter = {"type": "jitter", "deviation": 0.1}
    with pytest.raises(ClustersimError, match="31,457,280 blocks of replicas that all differ"):
        build_job(load("megatron21-t1-1.7b", {**batch, "disturbances": [jitter]}))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            "{type: slow-device, devices: [5000], factor: 2}",
            "disturbances[0].devices[0]: 5000 is no device of the job (it has 0 to 15)",
        ),
        (
            "{type: late-host, nodes: [8], delay: 1 us}",
            "disturbances[0].nodes[0]: 8 is no node of the job (it has 0 to 1)",
        ),
        (
            "{type: jitter, stages: [99], deviation: 0.1}",
            "disturbances[0].stages[0]: 99 is no stage of the job (it has 0 to 7)",
        ),
        (
            "{type: slow-device, devices: [3], factor: 0}",
            "disturbances[0].factor: must be more than 0, not 0",
        ),
        (
            "{type: slow-device, devices: [3]}",
            "disturbances[0]: needs factor or clock (factor: 1.1, or clock: 0.9)",
        ),
        (
            "{type: jitter, distribution: histogram, histogram: []}",
            "disturbances[0]: histogram: is empty (list pairs of a value and how often it occurs)",
        ),
        (
            "{type: sequence-lengths, histogram: [[2048, 0]]}",
            "disturbances[0]: histogram: is empty (list pairs of a value and how often it occurs)",
        ),
        (
            "{type: jitter, link: n0.dev0>n0.dev1}",
            "disturbances[0].link: unknown key (allowed: name, seed, devices, nodes, stages, type,"
            " distribution, deviation, histogram, each)",
        ),
        ("{type: jitter}", "disturbances[0]: deviation: missing (distribution 'normal' needs it)"),
        (
            "{type: jitter, deviation: 0.1, histogram: [[1, 2]]}",
            "disturbances[0]: histogram: has no effect (set distribution: histogram)",
        ),
        (
            "{type: jitter, deviation: 0.1, devices: [1], nodes: [0]}",
            "disturbances[0]: 'devices' excludes nodes (leave out one of them)",
        ),
        (
            "{type: jitter, deviation: 0.1}, {type: jitter, deviation: 0.2}",
            "disturbances[1].type: 'jitter' is already the name of another disturbance"
            " (give each a name of its own)",
        ),
        (
            "{type: failed-nic, node: 9, nic: 0}",
            "disturbances[0].node: 9 is no node of the job (it has 0 to 1)",
        ),
        (
            "{type: slow-nic, node: 0, nic: 7, bandwidth: 0.5}",
            "disturbances[0].nic: 7 is no NIC of a node (it has 0 to 3)",
        ),
        (
            "{type: slow-link, link: n0.nic0>g0.s0, bandwidth: 0.5}",
            "disturbances[0].link: 'n0.nic0>g0.s0' is no link of the job's machine (did you mean"
            " 'n0.nic0>g0s0'?)",
        ),
        (
            "{type: slow-link, link: n0.nic0>g0s0}",
            "disturbances[0]: needs bandwidth or loss (bandwidth: 0.5, or loss: 0.001)",
        ),
        (
            "{type: failed-cable, link: n0.nic0>g0s0}",
            "disturbances[0].link: 'n0.nic0>g0s0' is the cable of a NIC (use type: failed-nic)",
        ),
    ],
)
def test_a_wrong_disturbance_is_named(given, problem):
    """A wrong value, or a link or NIC that the machine lacks, is one line, with what is allowed."""
    setting = f"disturbances=[{given}]"
    with pytest.raises(ClustersimError) as error:
        build_job(load("frontier-22b", [setting]))

    assert str(error.value) == f"--set {setting}: {problem}"
