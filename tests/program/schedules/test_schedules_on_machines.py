"""Schedules on real machines: the same work under each, whoever is folded and whatever is fused."""

from functools import cache

import numpy as np
import pytest

from clustersim.errors import PlanError, ScenarioError
from clustersim.program.blocks.work import block_work
from clustersim.program.schedules import SCHEDULES
from clustersim.program.schedules.steps import Code, completing
from clustersim.scenario.load import load
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate
from clustersim.timeline import BACKWARD, FORWARD, INPUT, WEIGHT

SMALL = ("frontier-22b", "batch.global=32", "recompute=none")
TENSOR = (
    "frontier-175b", "cluster.nodes=4", "plan.pipeline=4", "plan.data=2", "batch.global=16"
)  # fmt: skip
WORK = ("matmul", "attention", "memory_bound")
NAMES = tuple(SCHEDULES)


@cache
def stepped(name, given, *more):
    """A step of a scenario under a schedule, whether its framework offers it or not."""
    scenario, *settings = given
    chunks = SCHEDULES[name].chunks[0]
    several = [f"plan.chunks={chunks}"] if chunks > 1 else []
    offered = f"framework.schedules=[{name}]"
    return simulate(scenario, [*settings, offered, f"plan.schedule={name}", *several, *more])


@pytest.mark.parametrize("name", NAMES)
def test_every_schedule_does_the_same_work(name):
    """The mean rank computes as long under each schedule; only waiting and hiding differ."""
    usual, other = stepped("1f1b", SMALL), stepped(name, SMALL)

    for part in WORK:
        assert other.attribution[part] == pytest.approx(usual.attribution[part], rel=1e-9)
    assert other.hardware_flops == usual.hardware_flops


@pytest.mark.parametrize("bound", [0.5, pytest.param(1e-9, marks=pytest.mark.large)])
@pytest.mark.parametrize("name", NAMES)
def test_folding_changes_nothing_of_any_schedule(name, bound):
    """Ranks that behave alike are one under every schedule, with collectives fused or not."""
    folded = stepped(name, TENSOR, f"fusion_bound={bound}", "fold=true")
    whole = stepped(name, TENSOR, f"fusion_bound={bound}", "fold=false")

    assert folded.step_time == pytest.approx(whole.step_time, rel=1e-12)
    assert folded.attribution == pytest.approx(
        whole.attribution, rel=1e-9, abs=1e-9 * whole.step_time
    )
    assert folded.memory == whole.memory


def test_a_split_backward_takes_as_long_as_the_whole():
    """The two parts of a backward have the kernels of the whole, with what was hidden exposed."""
    split = stepped("zb-h1", SMALL).program.actors[3].blocks
    whole = stepped("1f1b", SMALL).program.actors[3].blocks
    both = split[Code(INPUT, 0)].seconds + split[Code(WEIGHT, 0)].seconds
    once = whole[Code(BACKWARD, 0)].seconds

    assert both.compute == pytest.approx(once.compute, rel=1e-12)
    assert both.launches == once.launches
    assert split[Code(FORWARD, 0)].seconds == whole[Code(FORWARD, 0)].seconds


def test_chunks_in_a_v_meet_on_the_last_stage():
    """Down and up again: 2 p - 2 transfers of a microbatch each way, none at the turn."""
    v, loop = stepped("zb-v", SMALL), stepped("interleaved-1f1b", SMALL)
    p, m = v.program.stages, v.program.microbatches
    sent = [
        sum(actor.send[code] is not None for code in actor.blocks if code.kind in (FORWARD, INPUT))
        for actor in v.program.actors[:p]
    ]

    assert sent == [2, *[4] * (p - 2), 2]
    assert v.program.wiring.ends_meet
    assert not loop.program.wiring.ends_meet
    assert v.program.actors[0].tail.embedding is None
    assert loop.program.actors[0].tail.embedding is not None
    assert len(v.program.order.of[0]) == 2 * m * 3


def test_dualpipe_holds_the_model_twice_and_sums_its_gradients():
    """Weights and gradients are twice those of 1F1B, and both holders of a part reduce them."""
    once, twice = stepped("1f1b", SMALL), stepped("dualpipe", SMALL)

    def held(step):
        return sum(stage.parts["parameters"] for stage in step.memory.stages)

    # Embedding and logits are one matrix where they meet, and two where they do not.
    assert held(twice) == pytest.approx(2 * held(once), rel=0.02)
    twin = twice.program.actors[0].tail.mirrored
    assert twin is not None
    assert twin == twice.program.actors[-1].tail.mirrored
    assert once.program.actors[0].tail.mirrored is None
    assert twice.attribution["data_communication"] > once.attribution["data_communication"]


def test_what_dualpipe_pairs_hides_the_exchange_of_experts():
    """Exposed exchange decreases, and it slows concurrent kernels by the units it occupies."""
    given = (
        "mixtral-ep-imbalance", "experts={load: balanced}", "batch.global=256", "plan.zero=0",
        "plan.data=8", "plan.pipeline=4", "plan.expert=8", "cluster.nodes=4"
    )  # fmt: skip
    shown, hidden = stepped("zb-h1", given), stepped("dualpipe", given)

    assert hidden.attribution["overlap_slowdown"] > 0
    assert shown.attribution["overlap_slowdown"] == 0
    assert (
        hidden.attribution["expert_communication"]
        < 0.6 * (shown.attribution["expert_communication"])
    )


def test_gradients_begin_with_the_first_chunk_that_is_complete():
    """Reductions that overlap with backwards of all chunks hide more than with the last only."""
    given = ("megatron21-t1-145b", "cluster.nodes=32", "plan.data=4", "batch.global=64")
    step = simulate(given[0], [*given[1:], "framework.gradients.overlap=always"])
    tail = step.program.actors[0].tail
    groups = [sum(piece.nbytes for piece in pieces) for pieces in tail.gradients]
    apart = simulate(given[0], [*given[1:], "framework.gradients.overlap=never"])
    once = [piece.nbytes for pieces in apart.program.actors[0].tail.gradients for piece in pieces]
    places = completing(step.program.order, 0)

    assert [step.program.actors[0].steps[at].chunk for at in places] == [1, 0]
    assert len(groups) == 2
    assert sum(groups) == pytest.approx(sum(once), rel=1e-12)
    assert step.attribution["data_communication"] < apart.attribution["data_communication"]


def test_zero_bubble_keeps_factors_of_weights_where_layers_are_run_again():
    """What waits from I to W is more than what a recomputed layer keeps from F to I."""
    small = [*SMALL[1:2], "recompute=full"]
    once = stepped("1f1b", (SMALL[0], *small)).memory.fullest
    split = stepped("zb-h1", (SMALL[0], *small)).memory.stages[-1]

    assert split.chunks[0].weights["activations"] > 4 * split.chunks[0].kept["activations"]
    assert split.parts["activations"] > once.parts["activations"]


def test_gradients_are_pushed_with_the_weights_part():
    """Where weights are sharded, the inputs' part gathers them, the weights' part reduces."""
    settings = [
        "plan.pipeline=4",
        "plan.data=96",
        "batch.global=384",
        "framework.schedules=[zb-h1]",
        "framework.axes=[tensor, pipeline]",
    ]
    job = build_job(load("zero3-175b", [*settings, "plan.schedule=zb-h1"]))
    whole, inputs, weights = (
        block_work(job, 1, 0, kind).units for kind in (BACKWARD, INPUT, WEIGHT)
    )

    assert [list(unit.fetch) for unit in inputs] == [list(unit.fetch) for unit in whole]
    assert [list(unit.push) for unit in weights] == [list(unit.push) for unit in whole]
    assert not any(unit.push for unit in inputs)
    assert not any(unit.fetch for unit in weights)


def test_a_schedule_file_beside_the_scenario_is_found(here):
    """`plan.schedule` names a file, as `--schedule` does; its shape must be that of the job."""
    rows = SCHEDULES["zb-h1"].rows(8, 16, 1)
    text = "\n".join(
        f"stage {n}   " + " ".join(str(step) for step in row) for n, row in enumerate(rows)
    )
    (here / "own.txt").write_text(text, encoding="utf-8")
    named = stepped("zb-h1", SMALL)
    written = simulate(SMALL[0], [*SMALL[1:], "plan.schedule=own.txt"])

    assert written.step_time == named.step_time
    assert np.array_equal(written.timeline.tracks[3].start, named.timeline.tracks[3].start)
    with pytest.raises(PlanError, match="written for 8 stages and 16 microbatches, and the job"):
        simulate(SMALL[0], [*SMALL[1:], "plan.schedule=own.txt", "batch.global=64"])
    with pytest.raises(ScenarioError, match=r"plan\.schedule: other\.txt: no such file"):
        simulate(SMALL[0], [*SMALL[1:], "plan.schedule=other.txt"])
