"""Is a program sane?  Every microbatch once forward and once backward, and no waiting in a circle.

A program that is not is drawn, with the culprit marked:

    stage 0   F0 F1 B1 B0
    stage 1   F0 [B1] F1 B0      B1 comes before F1
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clustersim.errors import ProgramError
from clustersim.program.ops import BACKWARD, FORWARD, Actor, Program, Step, hand_over

Rows = Sequence[Sequence[Step]]

MOST_DRAWN = 24
"""Steps that are drawn around the culprit."""


def check_program(program: Program) -> None:
    """Refuse a program whose stages do not run each microbatch once forward, then backward.

    Waiting in a circle is left to the replay, which finds it for nothing, and to `check_steps`.
    """
    for actor in _one_of_each_stage(program):
        if not _runs_each_once(np.array(actor.keys), program.microbatches * program.chunks):
            stage = actor.position.stage
            _check_once(steps_of(program), stage, actor.steps, program.microbatches, program.chunks)


def _runs_each_once(keys: NDArray[np.int64], count: int) -> bool:
    """Whether keys are those of `count` forwards and backwards, each forward the earlier."""
    if len(keys) != 2 * count or keys.min() < 0 or keys.max() >= 2 * count:
        return False
    place = np.full(2 * count, -1)
    place[keys] = np.arange(2 * count)
    forward, backward = place[0::2], place[1::2]
    return bool((forward >= 0).all() and (backward > forward).all())


def _one_of_each_stage(program: Program) -> tuple[Actor, ...]:
    """Return the actors of the first replica class, one a stage; the others have the same steps."""
    return program.actors[: program.stages * program.parts : program.parts]


def steps_of(program: Program) -> list[tuple[Step, ...]]:
    """Return the steps of each stage, which are the same for all replicas."""
    return [actor.steps for actor in _one_of_each_stage(program)]


def check_steps(rows: Rows, microbatches: int, chunks: int) -> None:
    """Refuse steps that are not a schedule.

    Raises
    ------
    ProgramError
        when a stage does not take each microbatch forward, then backward, exactly once through
        each chunk, or when stages wait for each other in a circle. The message draws the steps
        and marks the first one at fault.
    """
    for stage, steps in enumerate(rows):
        _check_once(rows, stage, steps, microbatches, chunks)
    _check_order(rows, chunks)


def _check_once(
    rows: Rows, stage: int, steps: Sequence[Step], microbatches: int, chunks: int
) -> None:
    seen: dict[Step, int] = {}
    for at, step in enumerate(steps):
        if step in seen:
            _refuse(rows, {stage: at}, f"stage {stage} runs {step} twice")
        if not (0 <= step.microbatch < microbatches and 0 <= step.chunk < chunks):
            _refuse(rows, {stage: at}, f"stage {stage} runs {step}, which is not in the batch")
        if step.kind == BACKWARD and step._replace(kind=FORWARD) not in seen:
            forward = step._replace(kind=FORWARD)
            _refuse(rows, {stage: at}, f"stage {stage} runs {step} before {forward}")
        seen[step] = at
    for microbatch in range(microbatches):
        for chunk in range(chunks):
            for kind in (FORWARD, BACKWARD):
                if Step(kind, microbatch, chunk) not in seen:
                    missing = Step(kind, microbatch, chunk)
                    _refuse(rows, {}, f"stage {stage} never runs {missing}")


def _check_order(rows: Rows, chunks: int) -> None:
    """Run the steps without a clock: each as soon as its input is there; all must get through."""
    stages = len(rows)
    place = [0] * stages
    arrived: set[tuple[int, Step]] = set()
    moved = True
    while moved:
        moved = False
        for stage, steps in enumerate(rows):
            while place[stage] < len(steps):
                step = steps[place[stage]]
                if not _is_source(step, stage, stages, chunks) and (stage, step) not in arrived:
                    break
                target = hand_over(step, stage, stages, chunks)
                if target is not None:
                    arrived.add(target)
                place[stage] += 1
                moved = True
    stuck = {stage: at for stage, at in enumerate(place) if at < len(rows[stage])}
    if stuck:
        waits = "; ".join(
            f"stage {stage} waits for the input of {rows[stage][at]}"
            for stage, at in list(stuck.items())[:4]
        )
        _refuse(rows, stuck, f"stages wait for each other: {waits}")


def _is_source(step: Step, stage: int, stages: int, chunks: int) -> bool:
    """Whether a step needs nothing from another stage."""
    if step.kind == FORWARD:
        return stage == 0 and step.chunk == 0
    return stage == stages - 1 and step.chunk == chunks - 1


def _refuse(rows: Rows, marks: dict[int, int], reason: str) -> None:
    raise ProgramError(f"{reason}\n{draw(rows, marks)}")


def draw(rows: Rows, marks: dict[int, int]) -> str:
    """Return the steps of each stage as letters, the step at each mark in brackets."""
    centre = min(marks.values(), default=0)
    start = max(0, centre - MOST_DRAWN // 2)
    width = len(str(len(rows) - 1))
    lines = []
    for stage, steps in enumerate(rows):
        words = [
            f"[{step}]" if marks.get(stage) == at else str(step)
            for at, step in enumerate(steps[start : start + MOST_DRAWN], start)
        ]
        before = "... " if start else ""
        after = " ..." if len(steps) > start + MOST_DRAWN else ""
        lines.append(f"stage {stage:<{width}}   {before}{' '.join(words)}{after}")
    return "\n".join(lines)
