"""Laws of disturbances on random steps of all machines, models, layouts and frameworks.

A disturbance of next to nothing changes next to nothing, nothing slower makes a step faster, and
the components of each add up to it.

The second law is strict where transfers have their links to themselves, since each operation then
begins when others have ended, and takes no less time, but for what a library chooses on slower
links.  Where they share links it has a border: a delay moves transfers apart that would halve each
other's rate, so that a slower step is shorter by no more than what its transfers lose to each
other.
"""

import math
import random
from functools import partial

import numpy as np
import pytest

from clustersim.engine.clock import CONTINUOUS, Clock
from clustersim.engine.network.network import Network
from clustersim.engine.operation_replay import OperationReplay
from clustersim.engine.program_operations import operations_of
from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.program.compile import Compilation
from clustersim.program.operations import Operations
from clustersim.scenario.load import from_mapping
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate
from clustersim.traffic import Traffic
from tests.random_steps import random_cases, random_steps

CHANGE = 1e-6
"""Maximum change of a step by a disturbance of a billionth, share of the step."""

AMPLIFIED = 1.0
"""Maximum change where transfers share links, share of the time that the sharing takes.

Of a thousand random steps two change by 0.32 and 0.56, the others by less than 0.05: transfers that
begin in the same instant, and share their links in each block, move apart.

Each transfer that begins later slows another one down, which begins the next one later: in a step
of 320 s with 180 s of sharing, a difference of 1e-12 s doubles every 5 s, up to 1 s in the end.
"""

FASTER = 1e-3
"""Share by which a slower step may be shorter, other than by what its transfers lose to each other.

Collectives in blocks keep their closed form where sharing links lengthens a block by less than 1 %.
"""

ROUNDING = 1e-9
"""Share by which it may be shorter where transfers have their links to themselves."""

CHOSEN = 1e-4
"""The same of slower links, with which the library may choose another algorithm.

Its tuner ranks algorithms by its own constants: one that it ranks second may be the faster one.
"""


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
            disturbed = simulate({**step, "disturbances": [disturbance]})
        except (CatalogError, PlanError, ScenarioError):  # no such NIC, or no route without a cable
            continue
        total = math.fsum(disturbed.attribution.values())
        assert total == pytest.approx(disturbed.step_time, rel=1e-9), (step, disturbance)
        yield disturbance, disturbed.step_time


def check_laws(count, seed, most_nodes, some):
    """Check the laws on a number of random steps, with `some` of the disturbances of each kind."""
    rng = random.Random(seed)
    for _, (step, plain) in zip(range(count), random_steps(rng, most_nodes), strict=False):
        plan, before = step["plan"], plain.step_time
        device = rng.randrange(
            math.prod(plan.get(axis, 1) for axis in ("tensor", "pipeline", "data"))
        )
        links = [link.name for link in plain.links]
        for disturbance, after in steps_with(step, some(rng, next_to_nothing(rng, device))):
            if after != pytest.approx(before, rel=CHANGE):
                shared = before - without_contention(step)
                assert after == pytest.approx(before, abs=AMPLIFIED * shared), (step, disturbance)
        for disturbance, after in steps_with(step, some(rng, [*slower(rng, device, links)])):
            alone, slowed = map(without_contention, [step, {**step, "disturbances": [disturbance]}])
            exact = ROUNDING if "devices" in disturbance else CHOSEN
            assert slowed >= alone * (1 - exact), (step, disturbance)
            least = before if after > before * (1 - FASTER) else alone
            assert after > least * (1 - FASTER), (step, disturbance)


class OwnLinks:
    """A network in which each transfer has its links to itself, and so its highest rate."""

    def __init__(self, clock, _):
        self.clock = clock

    def start(self, traffic, done):
        """Deliver the bytes of a transfer after its latency."""
        seconds = traffic.latency + traffic.nbytes / traffic.cap
        self.clock.call_at(self.clock._now + seconds, partial(done, None))


def without_contention(step):
    """Return the time of a step of which no transfers share links, nor those of a class [s]."""
    compilation = Compilation(build_job(from_mapping("step", step)), fusion_bound=math.inf)
    (folded,) = compilation.replicas.folded(np.zeros(0, dtype=np.int64))
    program = compilation.program(folded)
    return duration(operations_of(program), program.capacities, OwnLinks)


def duration(graph, capacities, network):
    """Return the end of the last operation of a graph on a network [s]."""
    clock = Clock(CONTINUOUS)
    replayed = OperationReplay(graph, clock, network(clock, capacities))
    replayed.start()
    clock.run_all()
    assert replayed.finished
    return float(replayed.end.max())


def test_laws_of_disturbances_hold_for_random_steps():
    """Of next to nothing next to nothing remains, and what is slower makes no step faster."""
    check_laws(12, 31, 2, lambda rng, kinds: rng.sample(kinds, rng.random() < 0.5))


@pytest.mark.large
@pytest.mark.parametrize("seed", random_cases(1, 40))
def test_laws_of_disturbances_hold_for_a_thousand_random_steps(seed):
    """Two disturbances of each kind, on up to four nodes: of a thousand each type 300 times."""
    check_laws(25, seed, 4, lambda rng, kinds: rng.sample(kinds, 2))


# --- symptoms -------------------------------------------------------------------------------------

ROUTED = {
    "title": "Experts whose host waits for the routing of tokens",
    "cluster": {"name": "mi300x-roce", "nodes": 2},
    "model": "gpt-oss-120b",
    "plan": {"tensor": 8, "pipeline": 2, "data": 1, "sequence_parallel": True},
    "batch": {"global": 2, "micro": 1, "sequence": 4096},
    "precision": "bf16",
    "framework": "megatron-core-graphs",
}

GATHERED = {
    "title": "Weights gathered a layer ahead, on links that they share",
    "cluster": {"name": "meta-24k", "nodes": 1},
    "model": "gpt3-6.7b",
    "plan": {"tensor": 2, "pipeline": 1, "data": 4, "zero": 3},
    "batch": {"global": 12, "micro": 1, "sequence": 512},
    "precision": "bf16",
    "framework": {"name": "llm-foundry", "axes": {"value": ["tensor"], "assumed": "added"}},
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
    slowed = simulate({**GATHERED, "disturbances": [straggler]})

    assert any(block.units for actor in slowed.program.actors for block in actor.blocks.values())
    assert math.fsum(slowed.attribution.values()) == pytest.approx(slowed.step_time, rel=1e-9)


LOCKSTEP = {
    "title": "Replicas whose tensor groups share links",
    "cluster": {"name": "server-8xl40s", "nodes": 2},
    "model": "gpt-1.3b",
    "plan": {
        "tensor": 2, "pipeline": 4, "data": 2, "sequence_parallel": True,
        "placement": {"order": ["data", "pipeline", "context", "tensor"]},
    },
    "batch": {"global": 4, "micro": 2, "sequence": 1000},
    "precision": "bf16",
    "framework": "megatron-core",
}  # fmt: skip


def test_a_slow_replica_moves_transfers_apart_that_share_links():
    """It makes the step shorter, but no shorter than one without contention."""
    straggler = {"type": "slow-device", "devices": [5], "factor": 1.05}
    slow = {**LOCKSTEP, "disturbances": [straggler]}

    assert without_contention(LOCKSTEP) < without_contention(slow)
    assert without_contention(LOCKSTEP) < simulate(slow).step_time < simulate(LOCKSTEP).step_time


def two_replicas(first, own):
    """Return two replicas that compute for 1 s and send 1 B over a link of 1 B/s, three times.

    Parameters
    ----------
    first, own : of the first replica, the time of its first kernel [s], and the bytes that it
        sends over a link of its own before that
    """
    graph = Operations()
    for kernels, nbytes in (((first, 1.0, 1.0), own), ((1.0, 1.0, 1.0), 0.0)):
        last = graph.add("own", traffic=Traffic("own", (1,), (1.0,), nbytes, 0.0, 1.0))
        for seconds in kernels:
            computed = graph.add("compute", [last], seconds=seconds)
            last = graph.add(
                "send", [computed], traffic=Traffic("send", (0,), (1.0,), 1.0, 0.0, 1.0)
            )
    return graph


@pytest.mark.parametrize("slow", [{"first": 2.0, "own": 0.0}, {"first": 1.0, "own": 1.0}])
def test_a_kernel_or_link_that_is_slower_by_a_second_saves_two(slow):
    """Exactly, by hand: in lockstep each round takes 1 + 2 s, apart 1 + 1 s.

    ::

        lockstep    c s s c s s c s s       9 s        c: compute, s: send at half the rate,
        apart       d c S c S c S           7 s        S: send at the whole rate,
                    c S c S c S                        d: the delay of 1 s
    """
    lockstep, apart = two_replicas(first=1.0, own=0.0), two_replicas(**slow)

    assert duration(lockstep, [1.0, 1.0], Network) == 9.0
    assert duration(apart, [1.0, 1.0], Network) == 7.0
    assert duration(lockstep, [1.0, 1.0], OwnLinks) == 6.0
    assert duration(apart, [1.0, 1.0], OwnLinks) == 7.0


# --- devices that are faster, or much slower ------------------------------------------------------

FAST = {"type": "slow-device", "factor": 0.001}


@pytest.mark.parametrize("cluster", ["dgx-a100", "server-8xl40s"])
@pytest.mark.parametrize("micro", [1, 4])
def test_a_faster_device_exceeds_neither_its_peak_nor_its_links(cluster, micro):
    """Products stay below the peak rate, and gathers take their time."""
    step = {
        "title": "ZeRO-3 on a node",
        "cluster": {"name": cluster, "nodes": 1},
        "model": "llama2-7b",
        "plan": {"data": 8, "zero": 3},
        "batch": {"global": 32 * micro, "micro": micro, "sequence": 2048},
        "precision": "bf16",
        "framework": "torchtitan",
    }
    plain, fast = (simulate({**step, "disturbances": each}) for each in ([], [FAST]))

    assert fast.step_time < plain.step_time
    assert plain.hfu < fast.hfu < 1


def test_a_faster_device_draws_power():
    """Kernels that are shorter take no more than their own energy from the step."""
    assert simulate("frontier-22b", {"disturbances": [FAST]}).power.watts.min() > 0


@pytest.mark.parametrize("slower", [{"clock": 0.1}, {"factor": 1000}])
def test_devices_that_are_much_slower_run_one_block_at_a_time(slower):
    """Instants of a step that is a thousand times longer are on a grid for such a step."""
    settings = {"plan.tensor": 1, "plan.pipeline": 8, "plan.data": 2, "batch.global": 640}
    slow = {"type": "slow-device", **slower}
    track, *_ = simulate("frontier-22b", {**settings, "disturbances": [slow]}).timeline.tracks

    assert (track.start[1:] >= track.end[:-1]).all()


@pytest.mark.parametrize(
    ("disturbance", "message"),
    [
        ({"type": "slow-device", "factor": 1e6}, "factor: must be at most 1000, not"),
        ({"type": "slow-device", "factor": 1e-6}, "factor: must be at least 0.001, not 1e-06"),
        ({"type": "jitter", "deviation": 100}, "deviation: must be at most 10, not 100"),
        (
            {"type": "slow-nic", "node": 0, "nic": 0, "bandwidth": 1e-9},
            "bandwidth: must be at least 0.001, not 1e-09",
        ),
    ],
)
def test_a_disturbance_outside_its_bounds_is_an_error_of_the_input(disturbance, message):
    """The message has the key, the value and the bound."""
    with pytest.raises(ScenarioError, match=message):
        simulate("frontier-22b", {"disturbances": [disturbance]})
