"""Checks of a program: every microbatch once forward and once backward, and no cyclic waits.

A program that fails is drawn, with the first wrong step marked:

    stage 0   F0 F1 B1 B0
    stage 1   F0 [B1] F1 B0      B1 comes before F1
"""

from collections.abc import Sequence

from clustersim.errors import ProgramError
from clustersim.plan.parallelism import Wiring
from clustersim.program.program import Program
from clustersim.program.schedules.steps import Row, Step, receiver_of
from clustersim.timeline import BACKWARD, FORWARD, INPUT, WEIGHT

Rows = Sequence[Row]

MOST_DRAWN = 24
"""Steps that are drawn around the marked one."""

_BEFORE = {BACKWARD: FORWARD, INPUT: FORWARD, WEIGHT: INPUT}
"""The step that must precede a step of the same chunk and microbatch."""


def check_program(program: Program) -> None:
    """Check that the stages of a program run each microbatch once forward, then backward.

    Cyclic waits are detected by the replay, at no cost, and by `check_steps`.
    """
    order, wiring, microbatches = program.order, program.wiring, program.microbatches
    if wiring.copies > 1 or {*order.microbatches} != {microbatches}:
        rows = rows_of(program)
        for stage in range(program.stages):
            _check_once(rows, stage, microbatches, wiring)


def rows_of(program: Program) -> list[Row]:
    """Return the steps of each stage, which are the same for all replicas."""
    every, ranks = program.tensor_ranks, program.stages * program.tensor_ranks
    return [actor.steps for actor in program.actors[:ranks:every]]


def check_steps(rows: Rows, microbatches: int, wiring: Wiring) -> None:
    """Check that steps are a schedule.

    Raises
    ------
    ProgramError
        when a stage does not run each microbatch forward, then backward, exactly once through
        each chunk, or when stages wait for each other in a cycle. The message draws the steps
        and marks the first wrong one.
    """
    for stage in range(len(rows)):
        _check_once(rows, stage, microbatches, wiring)
    _check_order(rows, wiring)


def _check_once(rows: Rows, stage: int, microbatches: int, wiring: Wiring) -> None:
    seen: set[Step] = set()
    for at, written in enumerate(rows[stage]):
        step = written.unpaired
        if problem := _problem(step, seen, microbatches, wiring):
            _fail(rows, {stage: at}, f"stage {stage} runs {step} {problem}")
        if written.joined and (at + 1 == len(rows[stage]) or rows[stage][at + 1].joined):
            _fail(rows, {stage: at}, f"stage {stage} runs {step} without its concurrent step")
        seen.add(step)
    for chunk in range(wiring.chunks):
        for microbatch in wiring.batch(chunk, microbatches):
            for missing in _missing(microbatch, chunk, seen):
                _fail(rows, {}, f"stage {stage} never runs {missing}")


def _problem(step: Step, seen: set[Step], microbatches: int, wiring: Wiring) -> str | None:
    """Return what is wrong with a step after the previous ones, in words that follow its name."""
    if step in seen:
        return "twice"
    chunks = range(wiring.chunks)
    if step.chunk not in chunks or step.microbatch not in wiring.batch(step.chunk, microbatches):
        return ", which is not in the batch"
    before = _BEFORE.get(step.kind)
    if before is not None and step._replace(kind=before) not in seen:
        return f"before {step._replace(kind=before)}"
    other = {BACKWARD: INPUT, INPUT: BACKWARD}.get(step.kind)
    if other is not None and step._replace(kind=other) in seen:
        return f"after {step._replace(kind=other)}, which is a backward as well"
    return None


def _missing(microbatch: int, chunk: int, seen: set[Step]) -> list[Step]:
    """Return the steps of a chunk and a microbatch that are missing."""
    kinds = [FORWARD, BACKWARD]
    if Step(INPUT, microbatch, chunk) in seen:
        kinds = [FORWARD, INPUT, WEIGHT]
    steps = [Step(kind, microbatch, chunk) for kind in kinds]
    return [step for step in steps if step not in seen]


def _check_order(rows: Rows, wiring: Wiring) -> None:
    """Run the steps without a clock, each as soon as its input has arrived; all must finish."""
    position = [0] * len(rows)
    arrived: set[tuple[int, bool, int, int]] = set()
    moved = True
    while moved:
        moved = False
        for stage, steps in enumerate(rows):
            while position[stage] < len(steps):
                at = position[stage]
                at_once = steps[at : at + 1 + steps[at].joined]
                if not all(_ready(step, stage, wiring, arrived) for step in at_once):
                    break
                arrived |= {made for step in at_once for made in _results(step, stage, wiring)}
                position[stage] += len(at_once)
                moved = True
    stuck = {stage: at for stage, at in enumerate(position) if at < len(rows[stage])}
    if stuck:
        waits = "; ".join(
            f"stage {stage} waits for the input of {rows[stage][at].unpaired}"
            for stage, at in list(stuck.items())[:4]
        )
        _fail(rows, stuck, f"stages wait for each other: {waits}")


def _ready(
    step: Step, stage: int, wiring: Wiring, arrived: set[tuple[int, bool, int, int]]
) -> bool:
    """Return whether the input of a step has arrived, or is not needed."""
    forward = step.kind == FORWARD
    if step.kind == WEIGHT or not wiring.fed(stage, step.chunk, forward=forward):
        return True
    return (stage, forward, step.microbatch, step.chunk) in arrived


def _results(step: Step, stage: int, wiring: Wiring) -> list[tuple[int, bool, int, int]]:
    """Return the input that a step computes: receiving stage, direction, microbatch, chunk."""
    target = receiver_of(step, stage, wiring)
    if target is None:
        return []
    return [(target[0], step.kind == FORWARD, step.microbatch, target[1].chunk)]


def _fail(rows: Rows, marks: dict[int, int], reason: str) -> None:
    raise ProgramError(f"{reason.replace(' , ', ', ')}\n{draw(rows, marks)}")


def draw(rows: Rows, marks: dict[int, int]) -> str:
    """Return the steps of each stage as letters, marked steps in brackets."""
    centre = min(marks.values(), default=0)
    start = max(0, centre - MOST_DRAWN // 2)
    width = len(str(len(rows) - 1))
    lines = []
    for stage, steps in enumerate(rows):
        letters = [
            f"[{step}]" if marks.get(stage) == at else str(step)
            for at, step in enumerate(steps[start : start + MOST_DRAWN], start)
        ]
        before = "... " if start else ""
        after = " ..." if len(steps) > start + MOST_DRAWN else ""
        joined = " ".join(letters).replace("& ", "&")
        lines.append(f"stage {stage:<{width}}   {before}{joined}{after}")
    return "\n".join(lines)
