"""Schedules: every microbatch once each way, in an order that gets through, with few in flight."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bubbles import (
    bubble_overhead,
    controlled_bubble,
    controlled_memory,
    dualpipe_bubble,
    zero_bubble,
)
from clustersim.errors import ScenarioError
from clustersim.memory.levels import peak_activations
from clustersim.plan.parallelism import WIRINGS, Wiring
from clustersim.program.schedules import SCHEDULES, schedule_text
from clustersim.program.schedules.batch_order import new_batch_order
from clustersim.program.schedules.check import check_steps
from clustersim.program.schedules.classic import INTERLEAVED
from clustersim.program.schedules.steps import Step, receiver_of
from clustersim.program.schedules.written import read_schedule
from clustersim.reports.show.schedule import page, replay_schedule
from clustersim.timeline import BACKWARD, FORWARD, INPUT, KINDS, WEIGHT
from strategies import CLASSIC, durations, shapes

GOLDEN = Path(__file__).parents[1] / "golden"
MODEST = settings(max_examples=40, deadline=None)
TOLERANCE = 1e-9


def in_flight(steps):
    """Microbatches of a chunk that a stage holds between forward and its last backward, at most."""
    held = most = 0
    for step in steps:
        held += {FORWARD: 1, BACKWARD: -1, WEIGHT: -1, INPUT: 0}[step.kind]
        most = max(most, held)
    return most


def bare(steps):
    """The steps of a stage without their concurrent steps."""
    return [step.unpaired for step in steps]


@MODEST
@given(shapes(SCHEDULES))
def test_every_forward_precedes_its_backward(shape):
    """A chunk takes each of its microbatches forward, then backward, once, whole or split."""
    for steps in shape.rows:
        place = {step: i for i, step in enumerate(bare(steps))}

        assert len(place) == len(steps)
        for chunk in range(shape.chunks):
            for mb in shape.wiring.batch(chunk, shape.microbatches):
                whole = [Step(FORWARD, mb, chunk), Step(BACKWARD, mb, chunk)]
                split = [Step(kind, mb, chunk) for kind in (FORWARD, INPUT, WEIGHT)]
                taken = whole if whole[1] in place else split
                places = [place.pop(step) for step in taken]
                assert places == sorted(places)
        assert not place


@MODEST
@given(shapes(SCHEDULES))
def test_no_schedule_waits_in_a_circle(shape):
    """Run without a clock, every schedule gets through to its last step."""
    check_steps(shape.rows, shape.microbatches, shape.wiring)


@MODEST
@given(shapes(SCHEDULES))
def test_each_direction_goes_through_a_chunk_in_order(shape):
    """Steps of one kind through one chunk keep the order of the microbatches."""
    for steps in shape.rows:
        for way in ((FORWARD,), (BACKWARD, INPUT), (WEIGHT,)):
            for chunk in range(shape.chunks):
                order = [s.microbatch for s in steps if s.kind in way and s.chunk == chunk]
                assert order == sorted(order)


@MODEST
@given(shapes(CLASSIC))
def test_results_are_handed_on_in_the_order_in_which_they_are_taken(shape):
    """A stage takes its inputs in the order in which the stage before sends them."""
    sent = {}
    for stage, steps in enumerate(shape.rows):
        for step in steps:
            target = receiver_of(step, stage, shape.wiring)
            if target is not None:
                sent.setdefault((stage, step.kind, target[0]), []).append(target[1])
    for (_, kind, to), handed in sent.items():
        received = [step for step in shape.rows[to] if step.kind == kind]

        assert [step for step in received if step in set(handed)] == handed


@pytest.mark.parametrize("name", WIRINGS)
@given(stages=st.integers(1, 8), chunks=st.integers(1, 4))
def test_a_wiring_holds_every_part_and_hands_it_to_the_next(name, stages, chunks):
    """Every part is held by as many chunks as there are copies; onward leads to the next part."""
    wiring = Wiring(name, stages, chunks)
    places = [(stage, chunk) for stage in range(stages) for chunk in range(chunks)]
    held = [wiring.virtual_stage(*place) for place in places]

    assert sorted(held) == sorted(list(range(wiring.virtual_stages)) * wiring.copies)
    for place in places:
        onward = wiring.onward(*place, forward=True)
        if onward is None:
            assert wiring.virtual_stage(*place) == wiring.virtual_stages - 1
            continue
        assert wiring.virtual_stage(*onward) == wiring.virtual_stage(*place) + 1
        assert wiring.onward(*onward, forward=False) == place
        assert wiring.fed(*onward, forward=True)
        if stages > 2 and onward.stage != place[0]:
            up = wiring.upward(place[1], forward=True)
            assert (onward.stage - place[0]) % stages == (1 if up else stages - 1)


# --- what is in flight ----------------------------------------------------------------------------


@MODEST
@given(shapes(["1f1b"]))
def test_one_f_one_b_holds_no_more_microbatches_than_stages_are_left(shape):
    """Stage s of p holds min(p - s, m) microbatches at its peak; stage 0 holds min(p, m)."""
    for stage, steps in enumerate(shape.rows):
        assert in_flight(steps) == min(shape.stages - stage, shape.microbatches)


@MODEST
@given(shapes(["gpipe", "looped-bfs"]))
def test_gpipe_holds_the_whole_batch(shape):
    """Every stage holds all m microbatches at the turn, in each of its chunks."""
    assert {in_flight(steps) for steps in shape.rows} == {shape.microbatches * shape.chunks}


@MODEST
@given(shapes(["interleaved-1f1b"]))
def test_interleaving_holds_less_than_one_lap_more(shape):
    """Stage s holds at most (v - 1) p + 2 (p - s - 1) + 1 chunks of microbatches.

    That is the warm-up, which Megatron-LM counts so, and the one forward that follows it; with as
    many microbatches as stages all forwards come first.
    """
    p, m, v = shape.stages, shape.microbatches, shape.chunks
    for stage, steps in enumerate(shape.rows):
        most = m * v if m == p else min(m * v, (v - 1) * p + 2 * (p - stage - 1) + 1)

        assert in_flight(steps) == most


@MODEST
@given(shapes(["interleaved-1f1b"]))
def test_early_backwards_hold_one_microbatch_of_the_last_chunk(shape):
    """The last stage holds the logits of one microbatch, also of as many as there are stages."""
    p, m, v = shape.stages, shape.microbatches, shape.chunks
    rows = INTERLEAVED.as_run(forwards_first=False).rows(p, m, v)

    assert in_flight([step for step in rows[-1] if step.chunk == v - 1]) == 1
    assert in_flight(rows[0]) == min(m * v, (v - 1) * p + 2 * (p - 1) + 1)
    assert [sorted(row) for row in rows] == [sorted(row) for row in shape.rows]


@MODEST
@given(shapes(["zb-h1", "zb-h2"]))
def test_zero_bubble_holds_as_much_on_every_stage(shape):
    """Each stage holds min(p, m) microbatches in ZB-H1, min(2 p - 1, m) in ZB-H2."""
    most = shape.stages if shape.schedule == "zb-h1" else 2 * shape.stages - 1

    assert {in_flight(steps) for steps in shape.rows} == {min(most, shape.microbatches)}


@MODEST
@given(shapes(["zb-h1"]), st.floats(0.0, 1.0))
def test_the_first_stage_of_zb_h1_holds_what_1f1b_holds(shape, left):
    """Whatever waits between the parts of a backward, ZB-H1 never holds more than min(p, m)."""
    for steps in shape.rows:
        kind = np.array([KINDS.index(step.kind) for step in steps])
        peak = peak_activations(kind, np.zeros(len(kind), int), [1.0], left)

        assert peak.nbytes <= min(shape.stages, shape.microbatches) + TOLERANCE


@MODEST
@given(shapes(["zb-v", "dualpipe", "dualpipe-v"]))
def test_two_pipelines_hold_about_a_chunk_for_each_part(shape):
    """With P parts ZB-V holds at most P halves of a stage, DualPipe P + 1 chunks, less for few m.

    Qi et al. 2024, Table 1, arXiv:2405.15362; DeepSeek-AI 2024, Table 2, arXiv:2412.19437.
    """
    parts = shape.wiring.virtual_stages
    most = parts + (shape.schedule != "zb-v")
    held = [in_flight(steps) for steps in shape.rows]

    assert max(held) <= min(most, 2 * shape.microbatches)
    assert shape.microbatches < 2 * shape.stages or max(held) >= parts


@MODEST
@given(shapes(["v-min", "v-half"]))
def test_controlled_memory_holds_a_third_or_a_half(shape):
    """The fullest stage holds what the slots of one microbatch allow, however long the batch."""
    most = controlled_memory(shape.schedule, shape.stages)
    held = max(in_flight(steps) for steps in shape.rows)

    assert held <= most
    assert held == most or shape.microbatches < 2 * shape.stages - 1


@MODEST
@given(shapes(["gpipe", "1f1b", "interleaved-1f1b"]), st.integers(1, 12))
def test_deferred_weight_gradients_of_the_head_come_last(shape, most):
    """The last stage computes those of the first microbatches after its last backward.

    No other stage, and no other step, changes; each microbatch still runs once.
    """
    p, m, v = shape.stages, shape.microbatches, shape.chunks
    schedule = SCHEDULES[shape.schedule].as_run(forwards_first=True, deferred=most)
    rows, deferred = schedule.rows(p, m, v), [*range(min(most, m))] if p > 1 else []
    last, tail = rows[-1][: len(shape.rows[-1])], rows[-1][len(shape.rows[-1]) :]
    check_steps(rows, m, schedule.wired(p, v))

    assert rows[:-1] == shape.rows[:-1]
    assert [step.microbatch for step in tail] == deferred
    assert {(step.kind, step.chunk) for step in tail} <= {("W", v - 1)}
    assert [step.microbatch for step in last if step.kind == "I"] == deferred
    assert [step._replace(kind=step.kind.replace("I", "B")) for step in last] == [*shape.rows[-1]]


@pytest.mark.parametrize("most", [3, 10**6])
@pytest.mark.parametrize("name", ["1f1b", "interleaved-1f1b"])
def test_long_batches_defer_as_short_ones_do(name, most):
    """The order of a long batch is that which its schedule writes out step by step."""
    schedule = SCHEDULES[name].as_run(forwards_first=False, deferred=most)
    chunks = schedule.chunks[0]
    order = new_batch_order(schedule, 4, 128, chunks)

    assert [order.row(stage) for stage in range(4)] == schedule.rows(4, 128, chunks)


# --- the bubble -----------------------------------------------------------------------------------


def idle_inside(shown):
    """Return the idle time of each stage between its own first and last step."""
    tracks = shown.timeline.tracks
    return [float(t.end[-1] - t.start[0] - (t.end - t.start).sum()) for t in tracks]


def unrolled(shape, forward, inputs, weights):
    """The schedule replayed; times are those of a chunk's steps."""
    seconds = {FORWARD: forward, BACKWARD: inputs + weights, INPUT: inputs, WEIGHT: weights}
    return replay_schedule(SCHEDULES[shape.schedule], *shape[1:], seconds)


@MODEST
@given(shapes(["zb-h1", "zb-h2"]), durations(), durations(), st.floats(0.0, 1.0))
def test_zero_bubble_waits_as_its_paper_says(shape, forward, inputs, share):
    """A stage of ZB-H1 waits (p - 1)(f + i - w); one of ZB-H2, while it runs, a w less each."""
    p, m = shape.stages, shape.microbatches
    weights = share * min(forward, inputs)
    shown = unrolled(shape, forward, inputs, weights)
    if shape.schedule == "zb-h1" and m >= p:
        assert shown.idle == pytest.approx([zero_bubble(p, forward, inputs, weights)] * p)
    if shape.schedule == "zb-h2" and m >= 2 * p - 1:
        expected = zero_bubble(p, forward, inputs, weights, delay=2)
        assert max(idle_inside(shown)) == pytest.approx(expected, abs=1e-9 * shown.duration)


@MODEST
@given(shapes(["zb-h2", "zb-v"]), durations())
def test_nobody_waits_between_its_first_and_its_last_step(shape, unit):
    """With f = i = w and 2 p - 1 microbatches ZB-H2 and ZB-V leave no bubble inside a stage."""
    shown = unrolled(shape, unit, unit, unit)
    if shape.microbatches >= 2 * shape.stages - 1:
        assert idle_inside(shown) == pytest.approx([0.0] * shape.stages, abs=1e-9 * shown.duration)


@MODEST
@given(shapes(["dualpipe", "dualpipe-v"]), durations(), st.floats(0.0, 1.0))
def test_dualpipe_waits_as_its_paper_says(shape, forward, share):
    """A stage waits (P / 2 - 1)(fb + b - 3 w) with P parts, fb = f + b and b = f + w."""
    weights = share * forward
    backward = forward + weights
    shown = unrolled(shape, forward, forward, weights)

    expected = dualpipe_bubble(shape.wiring.virtual_stages, forward + backward, backward, weights)
    assert shown.idle == pytest.approx([expected] * shape.stages, abs=1e-9 * shown.duration)


@MODEST
@given(shapes(["v-min", "v-half"]), durations())
def test_controlled_memory_waits_as_its_slots_say(shape, unit):
    """With f = i = w every stage waits as long, less than in 1F1B; other times are not so even."""
    shown = unrolled(shape, unit, unit, unit)
    expected = controlled_bubble(shape.schedule, shape.stages, unit)
    if shape.microbatches >= 2 * shape.stages - 1:
        assert shown.idle == pytest.approx([expected] * shape.stages)
        assert expected < 6 * (shape.stages - 1) * unit


@MODEST
@given(shapes(["looped-bfs"]), durations(), durations())
def test_breadth_first_waits_as_long_as_interleaving(shape, forward, backward):
    """Idle time over ideal time is (p - 1) / v m, as that of interleaved 1F1B."""
    shown = unrolled(shape, forward, backward / 2, backward / 2)
    ideal = shape.microbatches * shape.chunks * (forward + backward)

    expected = bubble_overhead(shape.stages, shape.microbatches, shape.chunks)
    assert max(shown.idle) / ideal == pytest.approx(expected)


# --- drawings -------------------------------------------------------------------------------------

DRAWN = [(name, 8 if name != "dualpipe" else 10, 4) for name in sorted(SCHEDULES)]


@pytest.mark.parametrize(("name", "microbatches", "stages"), DRAWN)
def test_a_schedule_reads_like_its_drawing(name, microbatches, stages):
    """The page of 4 stages with the fewest chunks has not changed."""
    schedule = SCHEDULES[name]
    drawn = page(replay_schedule(schedule, stages, microbatches, schedule.chunks[0])) + "\n"

    assert drawn == (GOLDEN / f"schedule-{name}.txt").read_text(encoding="utf-8")


@MODEST
@given(shapes(SCHEDULES))
def test_a_printed_schedule_is_a_file_of_the_same_steps(tmp_path_factory, shape):
    """What `show` prints can be read back: the same steps, wiring and shape."""
    schedule = SCHEDULES[shape.schedule]
    file = tmp_path_factory.mktemp("written") / "my.txt"
    file.write_text(page(replay_schedule(schedule, *shape[1:])), encoding="utf-8")
    found = read_schedule(file)

    assert found.rows(*shape[1:]) == shape.rows
    assert (found.wiring, found.split) == (
        schedule.wiring,
        any(step.kind == INPUT for row in shape.rows for step in row),
    )
    assert found.misfit(*shape[1:]) is None


WRONG = {
    "F0 B0": "my.txt:1: 'F0 B0' is not the line of stage 0 (write: stage 0   F0 F1 B0 B1)",
    "stage 1 F0 B0": "my.txt:1: 'stage 1 F0 B0' is not the line of stage 0"
    " (write: stage 0   F0 F1 B0 B1)",
    "stage 0 F0 X1": "my.txt:1: 'X1' is not a step (F forward, B backward, I of the inputs, W of"
    " the weights, then a microbatch, and a chunk after a dot: F0, B12.1)",
    "\nwiring: w": "my.txt:2: wiring: unknown wiring 'w' (allowed: loop, v, mirrored)",
    "# nothing": "my.txt: has no steps (write: stage 0   F0 F1 B0 B1)",
    "stage 0 F0 B0 B0": "my.txt: stage 0 runs B0 twice\nstage 0   F0 B0 [B0]",
    "stage 0 F0 W0 I0": "my.txt: stage 0 runs W0 before I0\nstage 0   F0 [W0] I0",
    "stage 0 F0 I0": "my.txt: stage 0 never runs W0\nstage 0   F0 I0",
    "stage 0 F0 I0 W0 B0": "my.txt: stage 0 runs B0 after I0, which is a backward as well\n"
    "stage 0   F0 I0 W0 [B0]",
    "stage 0 F0 B0&": "my.txt: stage 0 runs B0 without its concurrent step\nstage 0   F0 [B0&]",
    "stage 0 F0 B0&F1&B1": "my.txt: stage 0 runs B0 without its concurrent step\n"
    "stage 0   F0 [B0&] F1&B1",
}


@pytest.mark.parametrize("lines", WRONG)
def test_a_file_that_is_no_schedule_is_told_where(here, lines):
    """A wrong line is named with its number; steps that are no schedule are drawn."""
    Path("my.txt").write_text(lines + "\n", encoding="utf-8")

    with pytest.raises(ScenarioError) as caught:
        read_schedule(Path("my.txt"))
    assert str(caught.value) == WRONG[lines]


def test_a_file_serves_one_shape_only(tmp_path):
    """Stages and microbatches of a file are those that it is written for."""
    file = tmp_path / "my.txt"
    file.write_text("stage 0 F0 B0\nstage 1 F0 B0\n", encoding="utf-8")

    reason = (
        "is written for 2 stages and 1 microbatches, and the job has 2 stages and 4 microbatches"
    )
    assert read_schedule(file).misfit(2, 4, 1) == reason


def test_steps_are_written_as_they_are_read():
    """``&`` joins two steps, a point leads to the chunk."""
    rows = [(Step(FORWARD, 3, 0, True), Step(BACKWARD, 1, 1), Step(WEIGHT, 12))]

    assert schedule_text(rows) == "stage 0   F3&B1.1 W12"
