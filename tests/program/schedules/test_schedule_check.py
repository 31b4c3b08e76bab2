"""A wrong program is drawn, with the step at fault in brackets."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.engine.replay import replay
from clustersim.errors import ProgramError
from clustersim.plan.parallelism import Wiring
from clustersim.program.compile import compile_program
from clustersim.program.schedules import SCHEDULES
from clustersim.program.schedules.check import check_program, check_steps, draw, rows_of
from clustersim.program.schedules.steps import Step, order_of
from clustersim.scenario.load import load
from clustersim.simulation.step.build import build_job
from strategies import Shape, shapes, uniform_program
from wrong_values import wrong_values


def steps(line):
    """Return the steps of a line of letters: ``F0 F1.1 B0``."""
    found = []
    for word in line.split():
        microbatch, _, chunk = word[1:].partition(".")
        found.append(Step(word[0], int(microbatch), int(chunk or 0)))
    return tuple(found)


def rows(*lines):
    return [steps(line) for line in lines]


def refusal(lines, microbatches=2, chunks=1):
    with pytest.raises(ProgramError) as caught:
        check_steps(rows(*lines), microbatches, Wiring("loop", len(lines), chunks))
    return str(caught.value)


@pytest.mark.parametrize(("lines", "message"), wrong_values("steps of a schedule"))
def test_a_wrong_schedule_is_drawn(lines, message):
    """The step at fault is in brackets, and the sentence names step and stage."""
    assert refusal(lines.split("\n")) == message


@pytest.mark.parametrize(("alien", "shown"), [("F2", "F2"), ("F0.1", "F0.1"), ("B7.3", "B7.3")])
def test_a_step_of_another_batch_is_drawn(alien, shown):
    """A microbatch or chunk that does not exist is in brackets."""
    message = refusal([f"F0 {alien} F1 B0 B1"])

    assert message.startswith(f"stage 0 runs {shown}, which is not in the batch\n")
    assert f"F0 [{shown}] F1 B0 B1" in message


def test_a_circle_through_chunks_is_found():
    """The second chunk of the first stage needs the last stage, which waits for the first."""
    message = refusal(["F0 F0.1 F1 F1.1 B0.1 B1.1 B0 B1", "F1 F0 F0.1 F1.1 B0.1 B1.1 B0 B1"], 2, 2)

    assert "stage 0 waits for the input of F0.1; stage 1 waits for the input of F1" in message
    assert "stage 0   F0 [F0.1] F1 F1.1" in message
    assert "stage 1   [F1] F0 F0.1" in message


def test_a_long_schedule_is_cut_around_the_culprit():
    """Of a hundred microbatches some twenty steps are drawn, with dots for the rest."""
    lines = SCHEDULES["1f1b"].rows(2, 100, 1)
    lines[1] = (*lines[1][:100], lines[1][0], *lines[1][100:])

    with pytest.raises(ProgramError) as caught:
        check_steps(lines, 100, Wiring("loop", 2, 1))
    first, *drawn = str(caught.value).splitlines()
    assert first == "stage 1 runs F0 twice"
    assert all(line.partition("   ")[2].startswith("... ") for line in drawn)
    assert all(line.endswith(" ...") for line in drawn)
    assert "B49 [F0] F50" in drawn[1]
    assert max(len(line.split()) for line in drawn) < 30


def test_stage_names_keep_one_width():
    """From ten stages on, the letters still stand below each other."""
    lines = draw(SCHEDULES["1f1b"].rows(11, 2, 1), {}).splitlines()

    assert lines[9].startswith("stage 9    F0")
    assert lines[10].startswith("stage 10   F0")


@settings(max_examples=60, deadline=None)
@given(shapes(), st.data())
def test_any_single_fault_is_refused(shape, data):
    """A schedule with one step dropped or doubled anywhere is never let pass."""
    lines = shape.rows
    stage = data.draw(st.integers(0, shape.stages - 1))
    at = data.draw(st.integers(0, len(lines[stage]) - 1))
    repeats = data.draw(st.integers(0, 2))
    faulty = list(lines)
    faulty[stage] = (
        *lines[stage][:at],
        *lines[stage][at : at + 1] * repeats,
        *lines[stage][at + 1 :],
    )
    program = with_rows(uniform_program(shape), {stage: faulty[stage]})
    if repeats == 1:
        check_steps(faulty, shape.microbatches, shape.wiring)
        check_program(program)
        return

    with pytest.raises(ProgramError, match=rf"stage {stage} (never runs|runs)"):
        check_steps(faulty, shape.microbatches, shape.wiring)
    with pytest.raises(ProgramError, match=rf"stage {stage} (never runs|runs)"):
        check_program(program)


def with_rows(program, lines):
    """Return the program with other steps on its stages, the same for all replica classes."""
    rows = [lines.get(stage, steps) for stage, steps in enumerate(rows_of(program))]
    order = order_of(rows, program.chunks)
    actors = [replace(a, order=order) for a in program.actors]
    return replace(program, actors=tuple(actors))


def test_a_stuck_replay_draws_the_circle():
    """A program whose stages wait for each other ends with the drawing, not without an answer."""
    program = uniform_program(Shape("1f1b", 2, 2, 1))
    stuck = with_rows(program, {0: steps("F0 B0 F1 B1"), 1: steps("F0 F1 B0 B1")})
    check_program(stuck)

    with pytest.raises(ProgramError) as caught:
        replay(stuck)
    assert str(caught.value).splitlines()[1:] == [
        "stage 0   F0 [B0] F1 B1",
        "stage 1   F0 [F1] B0 B1",
    ]


@pytest.mark.parametrize("fold", [True, False])
def test_a_compiled_program_that_gets_stuck_is_drawn(fold):
    """Swapping steps of a shipped scenario's program is found in the replay and drawn."""
    job = build_job(load("frontier-175b", ["batch.global=8"]))
    program = compile_program(job, fold_replicas=fold, fusion_bound=0.01)
    first, *_, last = rows_of(program)
    stuck = with_rows(program, {0: last, len(rows_of(program)) - 1: first})
    check_program(stuck)

    with pytest.raises(ProgramError, match="stages wait for each other") as caught:
        replay(stuck)
    lines = str(caught.value).splitlines()
    assert lines[1] == "stage 0    F0 [B0] F1 B1 F2 B2 F3 B3"
    assert lines[16] == "stage 15   F0 [F1] F2 F3 B0 B1 B2 B3"
    assert len(lines) == 17
