"""Schedules: every microbatch once each way, in an order that gets through, with few in flight."""

from pathlib import Path

import pytest
from hypothesis import given, settings

from clustersim.program.check import check_steps
from clustersim.program.ops import BACKWARD, FORWARD, Step, hand_over
from clustersim.program.schedules import SCHEDULES, text
from strategies import Shape, shapes

GOLDEN = Path(__file__).parents[1] / "golden"
MODEST = settings(max_examples=60, deadline=None)


def in_flight(steps):
    """Microbatches of a chunk that a stage holds between forward and backward, at most."""
    held = most = 0
    for step in steps:
        held += 1 if step.kind == FORWARD else -1
        most = max(most, held)
    return most


@MODEST
@given(shapes())
def test_every_forward_precedes_its_backward(shape):
    """On each stage a microbatch runs forward once through each chunk, then backward once."""
    for steps in shape.rows:
        position = {step: i for i, step in enumerate(steps)}

        assert len(position) == len(steps) == 2 * shape.microbatches * shape.chunks
        for microbatch in range(shape.microbatches):
            for chunk in range(shape.chunks):
                before = position[Step(FORWARD, microbatch, chunk)]
                assert before < position[Step(BACKWARD, microbatch, chunk)]


@MODEST
@given(shapes())
def test_no_schedule_waits_in_a_circle(shape):
    """Run without a clock, every schedule gets through to its last step."""
    check_steps(shape.rows, shape.microbatches, shape.chunks)


@MODEST
@given(shapes())
def test_each_direction_goes_through_a_chunk_in_order(shape):
    """Forwards of one chunk, and backwards of one chunk, keep the order of the microbatches."""
    for steps in shape.rows:
        for kind in (FORWARD, BACKWARD):
            for chunk in range(shape.chunks):
                order = [s.microbatch for s in steps if (s.kind, s.chunk) == (kind, chunk)]
                assert order == sorted(order)


@MODEST
@given(shapes())
def test_results_are_handed_on_in_the_order_in_which_they_are_taken(shape):
    """A stage takes its inputs in the order in which the stage before sends them."""
    sent = {}
    for stage, steps in enumerate(shape.rows):
        for step in steps:
            target = hand_over(step, stage, shape.stages, shape.chunks)
            if target is not None:
                sent.setdefault((stage, step.kind, target[0]), []).append(target[1])
    for (_, kind, to), handed in sent.items():
        wanted = [step for step in shape.rows[to] if step.kind == kind]

        assert [step for step in wanted if step in set(handed)] == handed


@MODEST
@given(shapes(["1f1b"]))
def test_one_f_one_b_holds_no_more_microbatches_than_stages_are_left(shape):
    """Stage s of p holds min(p - s, m) microbatches at its peak; stage 0 holds min(p, m)."""
    for stage, steps in enumerate(shape.rows):
        assert in_flight(steps) == min(shape.stages - stage, shape.microbatches)


@MODEST
@given(shapes(["gpipe"]))
def test_gpipe_holds_the_whole_batch(shape):
    """Every stage holds all m microbatches at the turn."""
    assert {in_flight(steps) for steps in shape.rows} == {shape.microbatches}


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


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_a_schedule_reads_like_its_drawing(name):
    """The letters of 4 stages and 8 microbatches (2 chunks where interleaved) have not changed."""
    chunks = 2 if name == "interleaved-1f1b" else 1
    drawn = text(Shape(name, 4, 8, chunks).rows) + "\n"

    assert drawn == (GOLDEN / f"schedule-{name}.txt").read_text(encoding="utf-8")
