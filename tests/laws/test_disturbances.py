"""Ranks that differ, against theory: the slowest counts, and equal ranks stay folded."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from clustersim.disturbance import Draw
from clustersim.engine.direct_replay import DirectReplay
from clustersim.engine.event_replay import EventReplay
from clustersim.engine.replay import replay, run_to_end
from clustersim.metrics.attribution import PARTS, average
from clustersim.metrics.bounds import compute_bound
from clustersim.program.compile import compile_program
from clustersim.scenario.load import from_mapping
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate

SCENARIO = {
    "title": "A small model on A100",
    "cluster": {"name": "selene", "nodes": 1},
    "model": "gpt3-1.3b",
    "plan": {"data": 8},
    "batch": {"global": 32, "micro": 1, "sequence": 2048},
    "precision": "bf16",
    "framework": "megatron-lm-2022",
}

PIPELINE = {"tensor": 2, "pipeline": 2, "data": 2}


def scenario(*disturbances, data=8, plan=None, batch=4, micro=1, **keys):
    """Return the scenario with disturbances, on as many devices as its plan has."""
    plan = plan or {"data": data}
    devices = math.prod(plan.get(axis, 1) for axis in ("tensor", "pipeline", "data"))
    changed = {
        "cluster": {"name": "selene", "nodes": max(1, devices // 8)},
        "plan": plan,
        "batch": {"global": plan["data"] * batch, "micro": micro, "sequence": 2048},
        "disturbances": list(disturbances),
    }
    return from_mapping("law", {**SCENARIO, **changed, **keys})


def compiled(loaded, replication=0, without=()):
    job = build_job(loaded, Draw(replication, frozenset(without)))
    return compile_program(
        job, fold_replicas=loaded.scenario.fold, fusion_bound=loaded.scenario.fusion_bound
    )


def step(loaded, replication=0, without=()):
    return replay(compiled(loaded, replication, without)).timeline.duration


def work(loaded, stage=0):
    """Return the time of the kernels of an undisturbed rank of a stage, optimiser included."""
    actor = compiled(loaded).actors[stage]
    return compute_bound(actor) + actor.tail.optimiser


# --- one rank -------------------------------------------------------------------------------------


def test_no_disturbance_changes_no_bit():
    """Disturbances without effect, and none at all, give the same step to the last bit.

    The parts of it are sums, equal but for their rounding.
    """
    neutral = [
        {"type": "slow-device", "devices": [3], "factor": 1.0},
        {"type": "late-host", "delay": "0 s"},
        {"type": "pauses", "length": "0 s", "every": 1},
    ]
    plain, disturbed = (compiled(scenario(*given, plan=PIPELINE)) for given in ([], neutral))

    assert replay(plain).timeline.duration == replay(disturbed).timeline.duration
    assert average(replay(plain).timeline, plain.actors) == pytest.approx(
        average(replay(disturbed).timeline, disturbed.actors), rel=1e-12, abs=1e-15
    )


@pytest.mark.parametrize("factor", [0.5, 1.1, 3.0])
def test_a_slow_rank_slows_a_data_parallel_step_by_its_factor(factor):
    """All replicas wait for the slowest one at the reduction of gradients; none for a fast one."""
    slow = {"type": "slow-device", "devices": [3], "factor": factor}
    longer = step(scenario(slow)) - step(scenario())

    assert longer == pytest.approx(max(0.0, factor - 1) * work(scenario()), rel=1e-9)


@pytest.mark.parametrize("profile", ["megatron-lm-2022", "megatron-core"])
def test_waiting_for_a_slow_device_was_data_communication(profile):
    """Replicas that wait for the slowest exchange no gradients; the step has its own part for it.

    With eight replicas, of which one takes half as long again, the others wait for that time.
    """
    slow = {"type": "slow-device", "devices": [3], "factor": 1.5}
    before, after = (simulate(scenario(*given, framework=profile)) for given in ([], [slow]))
    parts = {name: after.attribution[name] - before.attribution[name] for name in PARTS}

    assert parts["data_communication"] < 0.01 * before.attribution["data_communication"]
    assert parts["waiting_for_slowest"] == pytest.approx(7 * parts["disturbance"])
    assert parts["waiting_for_slowest"] > 0.75 * (after.step_time - before.step_time)


def test_a_slow_stage_slows_the_steady_part_by_its_factor():
    """In a long pipeline every microbatch takes as long as on the slowest stage."""
    slow = {"type": "slow-device", "stages": [1], "factor": 1.5}
    plan = {"pipeline": 4, "data": 2, "layers": [6, 6, 6, 6]}

    def steady(*disturbances):
        short, long = (step(scenario(*disturbances, plan=plan, batch=batch)) for batch in (32, 64))
        return long - short

    block = compiled(scenario(plan=plan)).actors[3].blocks
    last = sum(work.seconds.total for work in block.values())
    block = compiled(scenario(slow, plan=plan)).actors[1].blocks
    slowest = sum(work.seconds.total + work.late for work in block.values())

    assert slowest > last
    assert steady(slow) / 32 == pytest.approx(slowest, rel=0.02)
    assert steady(slow) / steady() == pytest.approx(slowest / last, rel=0.02)


def test_only_the_replicas_concerned_unfold():
    """A slow device makes one more class of replicas; two alike at the same place share one."""
    slow = {"type": "slow-device", "devices": [3], "factor": 1.5}
    two = {"type": "slow-device", "devices": [3, 5], "factor": 1.5}

    assert compiled(scenario()).classes == 1
    assert [actor.replicas for actor in compiled(scenario(slow)).actors] == [
        (0, 1, 2, 4, 5, 6, 7),
        (3,),
    ]
    assert [actor.replicas for actor in compiled(scenario(two)).actors][1] == (3, 5)


@pytest.mark.parametrize(
    ("sequences", "classes"),
    [
        ({"histogram": [[2048, 1]]}, 1),
        ({"histogram": [[512, 1]]}, 1),
        ({"histogram": [[256, 3], [2048, 1]], "balanced": True}, 1),
        ({"histogram": [[1024, 1], [2048, 1]]}, 8),
    ],
)
def test_only_replicas_whose_microbatches_differ_unfold(sequences, classes):
    """Replicas with equal work in attention are one class; sequences of full length cost nothing.

    Eight replicas of sixteen microbatches that are drawn from two lengths all differ.
    """
    lengths = {"type": "sequence-lengths", **sequences}
    folded, unfolded = (scenario(lengths, batch=16, fold=fold) for fold in (True, False))

    assert compiled(folded).classes == classes
    assert step(folded) == pytest.approx(step(unfolded), rel=1e-12)
    assert (step(folded) == step(scenario(batch=16))) == (sequences["histogram"] == [[2048, 1]])


DISTURBED = [
    {"type": "slow-device", "devices": [3], "factor": 1.5},
    {"type": "jitter", "deviation": 0.1},
    {"type": "pauses", "length": "20 ms", "every": 3},
    {"type": "sequence-lengths", "histogram": [[256, 3], [2048, 1]]},
]


def folded_step(disturbance, **settings):
    """Return a step with its replicas folded, which is the same unfolded, in each component."""
    folded, unfolded = (
        simulate(scenario(disturbance, **settings, fold=fold)) for fold in (True, False)
    )
    assert folded.step_time == pytest.approx(unfolded.step_time, rel=1e-12)
    for part in PARTS:
        assert folded.attribution[part] == pytest.approx(unfolded.attribution[part], abs=1e-9)
    return folded


@pytest.mark.parametrize(
    "disturbance",
    [
        *DISTURBED,
        {"type": "jitter", "distribution": "log-normal", "deviation": 0.1, "each": "step"},
        {"type": "late-host", "delay": "1 ms", "devices": [6]},
    ],
    ids=lambda given: given["type"],
)
def test_a_disturbed_step_is_the_same_folded_and_not(disturbance):
    """Folding keeps every disturbed rank: the same step, and components that add up to it."""
    assert folded_step(disturbance, plan=PIPELINE).attribution["disturbance"] != 0


def test_transfers_of_disturbed_ranks_are_alike_alone_and_in_the_network():
    """Both methods of the replay delay the same steps by the same time."""
    jitter = {"type": "jitter", "deviation": 0.1}
    program = compiled(scenario(jitter, plan={"pipeline": 4, "data": 2}, batch=16))
    alone, network = (run_to_end(method(program)) for method in (DirectReplay, EventReplay))

    for one, other in zip(alone.ranks, network.ranks, strict=True):
        np.testing.assert_allclose(one.track().end, other.track().end, rtol=1e-12)


def test_a_lower_clock_stretches_kernels_limited_by_compute_only():
    """At half the clock products take up to twice as long, passes over memory as long as before."""
    capped = {"type": "slow-device", "clock": 0.5}
    plain, slow = (compiled(scenario(*given)).actors[0] for given in ([], [capped]))
    for code, block in plain.blocks.items():
        limited = block.seconds.gemm + block.seconds.attention

        assert 0.8 * limited < slow.blocks[code].late <= limited
    assert plain.tail.optimiser == slow.tail.optimiser


def test_a_late_host_delays_a_block_once_its_device_waits():
    """A delay of each dispatch is hidden until the host needs longer than the device."""
    blocks = compiled(scenario()).actors[0].blocks
    for delay in (1e-6, 1e-3):
        late = compiled(scenario({"type": "late-host", "delay": f"{delay} s"})).actors[0].blocks
        for code, block in blocks.items():
            issued = block.seconds.launches * delay
            expected = max(0.0, issued - block.seconds.total)

            assert late[code].late == pytest.approx(expected, rel=0.15, abs=1e-12)


def test_ranks_of_a_cell_wait_for_each_other_at_every_collective():
    """Independent jitter costs a tensor group the mean maximum in each segment of a block."""
    jitter = {"type": "jitter", "deviation": 0.05}
    plan = {"tensor": 8, "data": 1}
    [actor] = compiled(scenario(jitter, plan=plan, batch=256, micro=8)).actors
    device = compute_bound(replace(actor, extra=None))

    assert all(block.seconds.dispatch == 0 for block in actor.blocks.values())
    assert actor.extra.sum() / device == pytest.approx(0.05 * maximum_of_normal(8), rel=0.03)


# --- many ranks -----------------------------------------------------------------------------------


def maximum_of_normal(ranks):
    """Return the mean maximum of independent normal numbers of deviation 1."""
    density = lambda x: x * ranks * stats.norm.pdf(x) * stats.norm.cdf(x) ** (ranks - 1)  # noqa: E731
    return integrate.quad(density, -10, 10)[0]


@pytest.mark.parametrize(
    ("distribution", "ranks", "expected"),
    [
        ("normal", 8, 1.424),
        pytest.param("normal", 64, 2.344, marks=pytest.mark.large),
        pytest.param("normal", 1024, 3.248, marks=pytest.mark.large),
        ("exponential", 8, sum(1 / n for n in range(1, 9))),
        pytest.param("exponential", 64, sum(1 / n for n in range(1, 65)), marks=pytest.mark.large),
    ],
)
def test_a_synchronous_step_is_the_maximum_of_its_ranks(distribution, ranks, expected):
    """Mean and deviation of a rank give mean + deviation times m(n), or the harmonic number."""
    jitter = {"type": "jitter", "distribution": distribution, "deviation": 0.05, "each": "step"}
    loaded, plain = scenario(jitter, data=ranks), scenario(data=ranks)
    undisturbed, kernels = step(plain), work(plain)
    replications = 8 if ranks > 100 else 30
    steps = np.array([step(loaded, number) for number in range(replications)])
    in_deviations = (steps - undisturbed) / (0.05 * kernels)
    error = in_deviations.std(ddof=1) / math.sqrt(replications)

    assert in_deviations.mean() == pytest.approx(expected, abs=3 * error)


# --- replicas that meet inside blocks -------------------------------------------------------------

GATHERS = {"framework": "deepspeed-zero3", "plan": {"data": 8, "zero": 3}, "precision": "fp16"}
"""Weights of a layer are gathered where the layer before it ends."""


def experts(shared_by, **keys):
    """Return the settings of a model with experts, each shared by some of eight replicas."""
    plan = {"data": 8, "expert": shared_by}
    return {"model": "mixtral-8x7b", "framework": "megatron-core", "plan": plan, **keys}


MEETING = {
    "gathers": (GATHERS, 8),
    "8 ranks with experts": (experts(8), 8),
    "4 ranks with experts": (experts(4), 4),
    "2 ranks with experts": (experts(2), 2),
}


@pytest.mark.parametrize("case", MEETING)
def test_replicas_wait_for_each_other_at_every_collective_inside_blocks(case):
    """Independent jitter costs them the mean maximum between two meetings, and they stay folded."""
    settings, meeting = MEETING[case]
    jitter = {"type": "jitter", "deviation": 0.05}
    program = compiled(scenario(jitter, batch=128, micro=4, **settings))
    costs = []
    for actor in program.actors:
        device = compute_bound(replace(actor, extra=None))
        costs.append(actor.extra.sum() / device / 0.05)

    assert program.classes == 8 // meeting
    assert all(len(actor.replicas) == meeting for actor in program.actors)
    assert np.mean(costs) == pytest.approx(maximum_of_normal(meeting), rel=0.03)


def test_a_gather_ahead_of_its_layer_makes_no_replica_wait():
    """With one layer of prefetch the replicas differ, and only the slowest counts."""
    framework = {"name": "deepspeed-zero3", "sharding": {"prefetch": 1}}
    jitter = {"type": "jitter", "deviation": 0.05}
    ahead, meeting = (
        compiled(scenario(jitter, batch=64, micro=4, **{**GATHERS, **keys}))
        for keys in ({"framework": framework}, {})
    )

    assert ahead.classes == 8
    longest = max(actor.extra.sum() for actor in ahead.actors)
    assert longest < 0.5 * meeting.actors[0].extra.sum()


def test_a_slow_device_delays_all_replicas_that_meet_it_as_much_as_its_own():
    """They stay folded, and the others have no delay."""
    slow = {"type": "slow-device", "devices": [3], "factor": 1.5}
    for settings, meeting in MEETING.values():
        plain, disturbed = (
            compiled(scenario(*given, batch=16, micro=4, **settings)) for given in ([], [slow])
        )

        assert disturbed.classes == (1 if meeting == 8 else 2)
        late = {actor.replicas: actor.blocks for actor in disturbed.actors}
        for replicas, blocks in late.items():
            expected = [
                0.5 * block.seconds.compute if 3 in replicas else 0.0
                for block in plain.actors[0].blocks.values()
            ]
            assert [block.late for block in blocks.values()] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("disturbance", DISTURBED, ids=lambda given: given["type"])
@pytest.mark.parametrize(
    "settings",
    [
        GATHERS,
        experts(4),
        experts(2, plan={**PIPELINE, "data": 4, "expert": 2, "sequence_parallel": True}),
        # The first of these stages has no experts, so that no replicas meet there.
        experts(
            4, model={"name": "mixtral-8x7b", "experts": {"first_dense": 4}},
            plan={"data": 4, "pipeline": 2, "expert": 4, "layers": [4, 28]},
        ),
    ],
    ids=["gathers", "experts", "experts in stages", "a stage without experts"],
)  # fmt: skip
def test_replicas_that_meet_are_the_same_folded_and_not(settings, disturbance):
    """The step and its components."""
    folded_step(disturbance, **settings)


# --- random numbers -------------------------------------------------------------------------------


def test_a_seed_gives_the_same_step_and_another_seed_another_one():
    """The same seed gives the same bytes; a replication has numbers of its own."""
    steps = {
        seed: step(scenario({"type": "jitter", "deviation": 0.1, "seed": seed})) for seed in (1, 2)
    }

    assert steps[1] == step(scenario({"type": "jitter", "deviation": 0.1, "seed": 1}))
    assert steps[1] != steps[2]
    assert steps[1] != step(scenario({"type": "jitter", "deviation": 0.1, "seed": 1}), 1)


def test_the_random_numbers_of_a_cause_do_not_depend_on_others():
    """Removing one cause leaves the other as if it were alone."""
    jitter = {"type": "jitter", "deviation": 0.1}
    pauses = {"type": "pauses", "length": "50 ms", "every": 4}
    both = scenario(pauses, jitter)

    assert step(both, 3, ["pauses"]) == step(scenario(jitter), 3)
    assert step(both, 3, ["jitter"]) == step(scenario(pauses), 3)


def test_planned_pauses_cost_their_share_and_others_nearly_every_step():
    """Pauses in the same step cost length / interval; at random, one of many ranks pauses."""
    pauses = {"type": "pauses", "length": "100 ms", "every": 8}
    plain = step(scenario(data=64))
    planned = step(scenario({**pauses, "planned": True}, data=64)) - plain
    random = np.mean([step(scenario(pauses, data=64), n) - plain for n in range(10)])

    assert planned == pytest.approx(0.1 / 8, rel=1e-9)
    assert 0.099 < random < 0.3


def test_balanced_sequences_take_the_mean_work():
    """Balancing keeps the work of all replicas together, and so never slows the step."""
    lengths = {"type": "sequence-lengths", "histogram": [[128, 10], [2048, 1]]}
    uneven, balanced = scenario(lengths), scenario({**lengths, "balanced": True})
    mean, equal = (
        average(replay(program).timeline, program.actors)["disturbance"]
        for program in (compiled(uneven), compiled(balanced))
    )

    assert step(balanced) < step(uneven)
    assert equal == pytest.approx(mean, rel=1e-9)
    assert step(uneven, 0, ["sequence-lengths"]) == step(balanced)


@pytest.mark.parametrize(
    "fault",
    [
        {"type": "slow-link", "link": "n0.dev3>n0.switch", "bandwidth": 0.2},
        {"type": "slow-nic", "node": 1, "nic": 3, "bandwidth": 0.1},
        {"type": "failed-nic", "node": 1, "nic": 3},
    ],
    ids=lambda given: given["type"],
)
def test_a_step_with_a_fault_of_the_network_is_the_same_folded_and_not(fault):
    """Replicas that cross a fault are of their own class, and their collectives take their time."""
    plan = {"tensor": 2, "pipeline": 2, "data": 4}
    plain, folded, unfolded = (
        simulate(scenario(*given, plan=plan, fold=fold)).step_time
        for given, fold in (((), True), ((fault,), True), ((fault,), False))
    )

    assert folded == pytest.approx(unfolded, rel=1e-12)
    assert folded > plain
