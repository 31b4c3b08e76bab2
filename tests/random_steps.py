"""Seeds, and random training steps of all shipped machines, models, layouts and frameworks."""

from functools import cache

import pytest

from clustersim.catalog.finding import entry_names, find
from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.program.schedules import SCHEDULES
from clustersim.simulation.step.simulate import simulate


def random_cases(large, count):
    """Return seeds from 0; those after some of the large tests are exhaustive."""
    exhaustive = pytest.mark.exhaustive
    return [
        *range(large),
        *(pytest.param(seed, marks=exhaustive) for seed in range(large, count)),
    ]


@cache
def record(kind, name):
    """Return the values of a catalogue file."""
    return find(kind, name).data


@cache
def devices_of_node(cluster):
    """Return the devices of a node of a cluster."""
    node = record("cluster", cluster)["node"]
    devices = (record("node", node) if isinstance(node, str) else node).get("devices", 8)
    return devices["value"] if isinstance(devices, dict) else devices


@cache
def models(experts):
    """Return the models with experts, or those without."""
    names = entry_names("model")
    return [name for name in names if ("experts" in record("model", name)) == experts]


@cache
def frameworks(experts):
    """Return the frameworks, or those that run models with experts."""
    names = entry_names("framework")
    return [name for name in names if not experts or "experts" in record("framework", name)]


def divisors(number):
    """Return what divides a number."""
    return [factor for factor in range(1, number + 1) if number % factor == 0]


def random_layout(rng, free, experts):
    """Return a layout on a number of devices."""
    plan = {}
    for axis in ("tensor", "pipeline"):
        plan[axis] = rng.choice(divisors(free))
        free //= plan[axis]
    if free > 1 and rng.random() < 0.2:
        plan["context"] = divisors(free)[1]
        free //= plan["context"]
    plan["data"] = free
    plan["zero"] = rng.choice([0, 1, 2, 3]) if free > 1 else 0
    plan["sequence_parallel"] = plan["tensor"] > 1 and (experts or rng.random() < 0.3)
    if plan["pipeline"] > 1:
        plan["schedule"] = rng.choice(sorted(SCHEDULES))
        least, most = SCHEDULES[plan["schedule"]].chunks
        plan["chunks"] = rng.randint(least, most or 4)
        plan["layers"] = rng.choice(["even", "by-work"])
    if experts:
        plan["expert"] = rng.choice(divisors(free * plan["tensor"]))
    if plan["zero"] == 3:
        plan["reshard"] = rng.random() < 0.7
    if rng.random() < 0.2:
        axes = ["tensor", "context", "data", "pipeline"]
        plan["placement"] = {"order": rng.sample(axes, len(axes))}
    return plan


def random_step(rng, most_nodes, names=None):
    """Return a scenario, half of them with experts; most are legal.

    Parameters
    ----------
    names : frameworks, all if None
    """
    names = frameworks(False) if names is None else names
    experts = rng.random() < 0.5 and not {*names}.isdisjoint(frameworks(True))
    offered = [name for name in frameworks(experts) if name in names]
    cluster, nodes = rng.choice(entry_names("cluster")), rng.choice(divisors(most_nodes))
    framework, model = rng.choice(offered), rng.choice(models(experts))
    plan = random_layout(rng, devices_of_node(cluster) * nodes, experts)
    micro, count = rng.choice([1, 2]), rng.choice([1, 4, 2 * plan["pipeline"]])
    schedules, zero, axes = (
        {"value": offered, "assumed": "any may be simulated"}
        for offered in (sorted(SCHEDULES), [0, 1, 2, 3], ["tensor", "pipeline"])
    )
    step = {
        "title": "random",
        "cluster": {"name": cluster, "nodes": nodes},
        "model": model,
        "plan": plan,
        "batch": {
            "global": plan["data"] * micro * count,
            "micro": micro,
            "sequence": rng.choice([128, 1000, 2048]),
        },
        "precision": rng.choice(sorted(record("framework", framework)["state"])),
        "framework": {"name": framework, "schedules": schedules, "zero": zero, "axes": axes},
        "fold": rng.random() < 0.9,
    }
    if rng.random() < 0.6:
        step["recompute"] = rng.choice(["none", "selective", "full", {"mode": "full", "every": 2}])
    if rng.random() < 0.2:
        moved = rng.sample(["parameters", "optimiser", "activations"], rng.choice([1, 2]))
        step["offload"] = dict.fromkeys(moved, True)
    if experts and rng.random() < 0.5:
        step["experts"] = {"load": "zipf", "exponent": rng.choice([0.5, 3])}
    if not experts and rng.random() < 0.2:
        step["finetune"] = {"method": rng.choice(["lora", "qlora"])}
    return step


def random_steps(rng, most_nodes=4):
    """Yield scenarios that are legal, each with its result."""
    while True:
        step = random_step(rng, most_nodes)
        try:
            yield step, simulate(step)
        except (PlanError, ScenarioError, CatalogError):
            continue
