"""Steps on random fabrics take the same time with their replicas folded or each of them replayed.

Fat trees of any width, dragonflies and tori; axes in any order on the devices; slower devices, late
hosts, and slow and failed NICs.
"""

import math
import random
from dataclasses import replace

import pytest

from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.program.job import Job
from clustersim.program.schedules import SCHEDULES
from clustersim.scenario.load import from_mapping
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate
from tests.engine.test_operation_replay import written_out
from tests.random_steps import devices_of_node, divisors

CASES = 200
"""Steps of a seed; eight seeds run in CI."""


def fat_tree(rng):
    """Return a tree of leaves and pods, some of which are oversubscribed."""
    nodes, leaves = rng.randint(1, 3), rng.randint(1, 4)
    return {
        "name": "meta-24k",
        "size": 24,
        "nodes": rng.choice([2, 3, 4]),
        "fabric": {
            "rail_optimised": rng.random() < 0.3,
            "nodes_per_leaf": nodes,
            "leaves_per_pod": leaves,
            "leaf_uplinks": rng.choice([nodes, 4 * nodes, 8 * nodes]),
            "pod_uplinks": rng.randint(1, 8 * nodes * leaves),
            "routing": rng.choice(["adaptive", "hashed"]),
        },
    }


def dragonfly(rng):
    """Return a dragonfly of small groups, with few links between them."""
    return {
        "name": "frontier",
        "size": 12,
        "nodes": rng.choice([2, 3, 4]),
        "fabric": {
            "groups": rng.choice([12, 16]),
            "switches_per_group": rng.choice([4, 8]),
            "nodes_per_switch": rng.choice([1, 2, 4]),
            "links_per_group_pair": rng.choice([1, 2, 4]),
            "routing": rng.choice(["adaptive", "minimal"]),
        },
    }


def torus(rng):
    """Return a part of a torus, whose nodes are devices."""
    fabric = {"shape": [2, 2, 2, 2, 3, 2], "ring": [2, 2, 2, 0, 3, 0]}
    return {"name": "fugaku", "size": 96, "nodes": rng.choice([8, 12, 16]), "fabric": fabric}


def disturbance(rng, devices, nodes):
    """Return what makes some replicas differ from others: a device, a host or a NIC."""
    device, node = rng.randrange(devices), rng.randrange(nodes)
    return rng.choice(
        [
            {"type": "slow-device", "devices": [device], "factor": rng.choice([1.01, 1.5])},
            {"type": "late-host", "nodes": [node], "delay": "50 us"},
            {"type": "slow-nic", "node": node, "nic": 0, "bandwidth": rng.choice([0.3, 0.9])},
            {"type": "failed-nic", "node": node, "nic": 0},
            {"type": "jitter", "devices": [device], "distribution": "normal", "deviation": 0.05},
        ]
    )


def random_step(rng):
    """Return a step of few layers and microbatches; most are legal."""
    cluster = rng.choice([fat_tree, fat_tree, dragonfly, torus])(rng)
    devices = rest = cluster["nodes"] * devices_of_node(cluster["name"])
    tensor = rng.choice([each for each in divisors(rest) if each <= 8])
    rest //= tensor
    stages = rng.choice([each for each in divisors(rest) if each <= 4])
    data = rest // stages
    schedule = rng.choice(["1f1b", "gpipe", "interleaved-1f1b", "zb-h1"])
    chunks = max(1, SCHEDULES[schedule].chunks[0])
    step = {
        "title": "random",
        "cluster": cluster,
        "model": {"name": "gpt3-1.3b", "layers": stages * chunks, "heads": 16},
        "plan": {
            "tensor": tensor,
            "pipeline": stages,
            "data": data,
            "zero": rng.choice([0, 1]),
            "schedule": schedule,
            "chunks": chunks,
            "sequence_parallel": tensor > 1 and rng.random() < 0.5,
            "placement": {"order": rng.sample(["tensor", "data", "pipeline"], 3)},
        },
        "batch": {"global": data * stages, "micro": 1, "sequence": 512},
        "precision": "fp16" if cluster["name"] == "fugaku" else "bf16",
        "framework": {
            "name": "megatron-core",
            "schedules": {"value": sorted(SCHEDULES), "assumed": "any may be simulated"},
        },
        "fusion_bound": rng.choice([0.01, 0.01, 1e-9]),
    }
    if rng.random() < 0.4:
        step["disturbances"] = [disturbance(rng, devices, cluster["nodes"])]
    return step


def check_folding(count, seed):
    """Check a number of random steps; return how many had fewer classes than replicas."""
    rng, checked, folded = random.Random(seed), 0, 0
    while checked < count:
        step = random_step(rng)
        try:
            loaded = from_mapping("random", step)
            one = simulate(loaded)
        except (CatalogError, PlanError, ScenarioError):
            continue
        each = simulate(loaded.changed({"fold": False}))
        checked, folded = checked + 1, folded + (one.program.classes < each.program.classes)

        assert one.step_time == pytest.approx(each.step_time, rel=1e-9), step
        parts = pytest.approx(each.attribution, rel=1e-9, abs=1e-9 * each.step_time)
        assert one.attribution == parts, step
        assert math.fsum(one.attribution.values()) == pytest.approx(one.step_time, rel=1e-9), step
    return folded


def test_random_steps_are_the_same_folded_or_not():
    """A few steps of the quick suite."""
    assert check_folding(12, 5) > 2


@pytest.mark.large
@pytest.mark.parametrize("seed", range(8))
def test_many_random_steps_are_the_same_folded_or_not(seed):
    """Most of them have replicas that are folded."""
    assert check_folding(CASES, seed) > CASES / 4


def test_random_steps_are_the_same_by_links_or_by_bundles_of_them(monkeypatch):
    """Links of a node that carry the same are one; answers are equal to the bit."""
    rng, bundled = random.Random(3), list[bool]()
    while sum(bundled) < 2:
        step = random_step(rng)
        try:
            loaded = from_mapping("random", step)
            bundles = simulate(loaded)
        except (CatalogError, PlanError, ScenarioError):
            continue
        if not build_job(loaded).fills_nodes:
            continue
        with monkeypatch.context() as patch:
            patch.setattr(Job, "fills_nodes", False)
            links = simulate(loaded)
        one, each = bundles.program.carried, links.program.carried
        bundled.append(one.busiest_numbers < each.busiest_numbers)

        assert replace(bundles, wall=0.0).answer == replace(links, wall=0.0).answer, step
        assert [*one] == [*each], step
        assert [use.name for use in one.of_node(1)] == [use.name for use in each.of_node(1)], step
        assert bundles.program.crossings == links.program.crossings, step
    assert sum(bundled) < len(bundled)  # others are by links: what these carry differs


def test_sends_of_a_tensor_group_followed_each_other_only_if_it_was_folded():
    """With each tensor rank replayed, a second send shared the cable with the first: 0.8 % more."""
    step = {
        "title": "Two microbatches over a cable that one of them fills",
        "cluster": {
            "name": "frontier",
            "nodes": 4,
            "fabric": {
                "groups": 16, "switches_per_group": 8, "nodes_per_switch": 1,
                "links_per_group_pair": 1, "routing": "minimal",
            },
        },
        "model": {"name": "gpt3-1.3b", "layers": 2, "heads": 16},
        "plan": {"tensor": 8, "pipeline": 2, "data": 2, "zero": 0, "schedule": "1f1b"},
        "batch": {"global": 4, "micro": 1, "sequence": 512},
        "precision": "bf16",
        "framework": "megatron-core",
        "fusion_bound": 1e-9,
    }  # fmt: skip
    folded, each = (simulate({**step, "fold": fold}) for fold in (True, False))

    assert each.program.tensor_ranks == 8
    assert folded.step_time == pytest.approx(each.step_time, rel=1e-12)
    assert written_out(each.program) == pytest.approx(each.step_time, rel=1e-12)
