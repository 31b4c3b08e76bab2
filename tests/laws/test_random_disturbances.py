"""Laws of disturbances on random steps of all machines, models, layouts and frameworks.

A disturbance of next to nothing changes next to nothing, nothing slower makes a step faster, and
the components of each add up to it.
"""

import math
import random

import pytest

from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.simulation.step.simulate import simulate
from tests.random_steps import random_steps

CHANGE = 1e-6
"""Maximum change of a step by a disturbance of a billionth, share of the step."""

FASTER = 1e-3
"""Share by which choices of algorithms may make a step with a slower link faster."""


def next_to_nothing(rng, device):
    """Return disturbances of a billionth of the kernels, and of a host by a femtosecond."""
    chosen = {"devices": [device]}
    spread = rng.choice(["normal", "log-normal", "exponential"])
    return [
        {"type": "slow-device", **chosen, "factor": 1 + 1e-9},
        {"type": "slow-device", **chosen, "clock": 1 - 1e-9},
        {"type": "late-host", **chosen, "delay": "1e-15 s"},
        {"type": "jitter", "distribution": spread, "deviation": 1e-9},
        {"type": "jitter", "distribution": spread, "deviation": 1e-9, "each": "step"},
    ]


def slower(rng, device, links):
    """Return disturbances that make a device, a host, a link or a NIC slower."""
    chosen = {"devices": [device]}
    yield {"type": "slow-device", **chosen, "factor": rng.choice([1.05, 2, 10])}
    yield {"type": "slow-device", **chosen, "clock": rng.choice([0.5, 0.9])}
    yield {"type": "late-host", **chosen, "delay": rng.choice(["1 us", "100 us", "10 ms"])}
    yield {"type": "slow-nic", "node": 0, "nic": 0, "bandwidth": rng.choice([0.3, 0.9])}
    yield {"type": "failed-nic", "node": 0, "nic": 0}
    for link in rng.sample(links, min(1, len(links))):
        yield {"type": "slow-link", "link": link, "bandwidth": rng.choice([0.5, 0.9])}
        yield {"type": "failed-cable", "link": link}


def steps_with(step, disturbances):
    """Yield each disturbance with the step that it gives; those that do not apply are left out."""
    for disturbance in disturbances:
        try:
            result = simulate({**step, "disturbances": [disturbance]})
        except (CatalogError, PlanError, ScenarioError):  # no such NIC, or no route without a cable
            continue
        total = math.fsum(result.attribution.values())
        assert total == pytest.approx(result.step_time, rel=1e-9), (step, disturbance)
        yield disturbance, result.step_time


def check_laws(count, seed, most_nodes, some):
    """Check the laws on a number of random steps, with `some` of the disturbances of each kind."""
    rng = random.Random(seed)
    for _, (step, result) in zip(range(count), random_steps(rng, most_nodes), strict=False):
        plan, before = step["plan"], result.step_time
        device = rng.randrange(
            math.prod(plan.get(axis, 1) for axis in ("tensor", "pipeline", "data"))
        )
        links = [link.name for link in result.links]
        for disturbance, after in steps_with(step, some(rng, next_to_nothing(rng, device))):
            assert after == pytest.approx(before, rel=CHANGE), (step, disturbance)
        for disturbance, after in steps_with(step, some(rng, [*slower(rng, device, links)])):
            assert after > before * (1 - FASTER), (step, disturbance)


def test_laws_of_disturbances_hold_for_random_steps():
    """Of next to nothing next to nothing remains, and what is slower makes no step faster."""
    check_laws(60, 31, 2, lambda rng, kinds: rng.sample(kinds, rng.random() < 0.5))


@pytest.mark.large
@pytest.mark.parametrize("seed", range(20))
def test_laws_of_disturbances_hold_for_a_thousand_random_steps(seed):
    """All disturbances, on up to four nodes."""
    check_laws(50, seed, 4, lambda _, kinds: kinds)


# --- symptoms -------------------------------------------------------------------------------------

ROUTED = {
    "title": "Experts whose host waits for the routing of tokens",
    "cluster": {"name": "mi300x-roce", "nodes": 2},
    "model": "gpt-oss-120b",
    "plan": {"tensor": 8, "pipeline": 2, "data": 1, "sequence_parallel": True},
    "batch": {"global": 2, "micro": 1, "sequence": 4096},
    "precision": "bf16",
    "framework": "megatron-core",
}

GATHERED = {
    "title": "Weights gathered a layer ahead, on links that they share",
    "cluster": {"name": "meta-24k", "nodes": 1},
    "model": "gpt3-6.7b",
    "plan": {"tensor": 2, "pipeline": 1, "data": 4, "zero": 3},
    "batch": {"global": 12, "micro": 1, "sequence": 128},
    "precision": "bf16",
    "framework": "llm-foundry",
}


@pytest.mark.parametrize("kind", range(5))
def test_a_billionth_of_a_disturbance_does_not_hide_the_wait_for_routing(kind):
    """The device follows its host after each routing in disturbed steps as well."""
    plain = simulate(ROUTED)
    assert plain.attribution["dispatch"] > 0.01 * plain.step_time

    disturbance = next_to_nothing(random.Random(0), 6)[kind]
    disturbed = simulate({**ROUTED, "disturbances": [disturbance]})
    assert disturbed.step_time == pytest.approx(plain.step_time, rel=CHANGE)


def test_a_late_host_prolongs_the_wait_for_routing():
    """Each kernel after the routing of a layer is issued later, and the device waits for it."""
    late = {"type": "late-host", "delay": "20 us"}
    plain, disturbed = (simulate({**ROUTED, "disturbances": each}) for each in ([], [late]))
    layers = 36 / 2

    assert disturbed.step_time - plain.step_time > 2 * layers * 20e-6


@pytest.mark.parametrize("slower", [{"factor": 2}, {"clock": 0.5}])
def test_a_straggler_that_hides_more_of_the_gathers_adds_up(slower):
    """Longer kernels hide more of the gathers of a block unit by unit, so that it is shorter."""
    straggler = {"type": "slow-device", "devices": [0], **slower}
    result = simulate({**GATHERED, "disturbances": [straggler]})

    assert any(block.units for actor in result.program.actors for block in actor.blocks.values())
    assert math.fsum(result.attribution.values()) == pytest.approx(result.step_time, rel=1e-9)
