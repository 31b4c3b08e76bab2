"""Several schedules of one model on one time axis: their bubbles, compared.

A slot is the forward of one microbatch through one stage, that is through its share of all layers,
however many chunks of it a stage runs.  All schedules have the same stages and microbatches, so
each stage computes equally long under each of them, and the rest is its bubble.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from clustersim.answers import record, to_json
from clustersim.errors import ScenarioError
from clustersim.program.schedules import Schedule
from clustersim.records import dataclass
from clustersim.render.charts.picture import Stacked
from clustersim.render.charts.timeline import Timeline, on_one_axis
from clustersim.render.matplotlib import write_figure
from clustersim.render.tables import aligned, percent
from clustersim.reports.show.files import write_files
from clustersim.reports.show.schedule import SLOTS, ReplayedSchedule, picture, replay_schedule
from clustersim.units import counted, format_number

STEM: Final = "schedules"
"""Name of the figure, without its ending."""

MOST: Final = 12
"""Schedules of one figure."""


@record
class ComparedSchedule:
    """A schedule next to others of the same shape.

    Attributes
    ----------
    name : name of the schedule
    title : its title
    chunks : model chunks of a stage
    duration : from the start of the first step to the end of the last [slots]
    bubble : share of the duration that the stage with the longest wait is idle
    in_flight : most microbatches that a stage holds, parts of a stage counted as such
    weights : weights that a stage holds, as a multiple of its share of the model
    """

    name: str
    title: str
    chunks: int
    duration: float
    bubble: float
    in_flight: float
    weights: float


@record
class ComparedSchedules:
    """Schedules of one model: what ``clustersim show SCHEDULE SCHEDULE ... --json`` prints.

    Attributes
    ----------
    stages : pipeline stages
    microbatches : microbatches of a step
    schedules : in the order in which they are given
    """

    stages: int
    microbatches: int
    schedules: tuple[ComparedSchedule, ...]


@dataclass(frozen=True)
class Replayed:
    """A schedule on the common time axis.

    Attributes
    ----------
    parts : chunks that a microbatch passes on each stage
    """

    shown: ReplayedSchedule
    parts: int

    @property
    def answer(self) -> ComparedSchedule:
        """The values for scripts."""
        shown, schedule = self.shown, self.shown.schedule
        return ComparedSchedule(
            schedule.name, schedule.title, shown.chunks, shown.duration,
            max(shown.idle) / shown.duration, max(shown.in_flight) / self.parts,
            shown.chunks / self.parts,
        )  # fmt: skip


def replay_schedules(
    schedules: Sequence[Schedule], stages: int, microbatches: int, chunks: int | None
) -> list[Replayed]:
    """Replay schedules of the same shape, on equal stages and free links.

    Parameters
    ----------
    chunks : of the schedules that can have this number; of others, and if None, the fewest

    Raises
    ------
    ScenarioError
        when a schedule does not have this shape, or none has this number of chunks.
    """
    if len(schedules) > MOST:
        raise ScenarioError(f"show: {len(schedules)} schedules (at most {MOST} in a figure)")
    most = max(schedule.chunks[1] or chunks or 1 for schedule in schedules)
    if chunks is not None and chunks > most:
        raise ScenarioError(
            f"--chunks {chunks}: no schedule has more than {counted(most, 'chunk')} a stage"
        )
    return [_replayed(each, stages, microbatches, _chunks(each, chunks)) for each in schedules]


def _chunks(schedule: Schedule, chunks: int | None) -> int:
    least, most = schedule.chunks
    return least if chunks is None else min(max(chunks, least), most or chunks)


def _replayed(schedule: Schedule, stages: int, microbatches: int, chunks: int) -> Replayed:
    if problem := schedule.misfit(stages, microbatches, chunks):
        raise ScenarioError(f"{schedule.name}: {problem}")
    first, *_ = schedule.rows(stages, microbatches, chunks)
    parts = sum(step.kind == "F" for step in first) // microbatches
    seconds = {kind: slots / parts for kind, slots in SLOTS.items()}
    return Replayed(replay_schedule(schedule, stages, microbatches, chunks, seconds), parts)


def answer_of(replayed: Sequence[Replayed]) -> ComparedSchedules:
    """Return the values for scripts."""
    shown = replayed[0].shown
    schedules = tuple(each.answer for each in replayed)
    return ComparedSchedules(shown.stages, shown.microbatches, schedules)


def text(answer: ComparedSchedules) -> str:
    """Return the shape, then a line for each schedule."""
    shape = f"{counted(answer.stages, 'stage')}, {counted(answer.microbatches, 'microbatch')}"
    head = f"{shape}; a slot is the forward of a microbatch through a stage"
    lines = aligned([*_table(answer)], words=("schedule",))
    return "\n".join([head, "", *lines, "", f"{finding(answer)}."])


def _table(answer: ComparedSchedules) -> Iterator[tuple[str, ...]]:
    yield "schedule", "chunks", "slots", "bubble", "in flight", "weights"
    for each in answer.schedules:
        numbers = (each.duration, each.in_flight, each.weights)
        slots, held, weights = (format_number(number) for number in numbers)
        yield each.name, str(each.chunks), slots, percent(each.bubble), held, f"{weights} x"


def finding(answer: ComparedSchedules) -> str:
    """Return which schedule has the smallest bubble, and which the largest."""
    order = sorted(answer.schedules, key=lambda each: each.bubble)
    least, most = order[0], order[-1]
    if least.bubble == most.bubble:
        return f"all have a bubble of {percent(least.bubble)}"
    return (
        f"{least.name} has the smallest bubble, {percent(least.bubble)},"
        f" and {most.name} the largest, {percent(most.bubble)}"
    )


def pictures(replayed: Sequence[Replayed]) -> list[Timeline]:
    """Return the schedules as timelines on one axis, with one legend."""
    return on_one_axis(
        [replace(picture(each.shown), title=_title(each.answer)) for each in replayed]
    )


def _title(answer: ComparedSchedule) -> str:
    held = format_number(answer.in_flight)
    weights = f", {format_number(answer.weights)} times the weights" if answer.weights != 1 else ""
    return (
        f"{answer.name}: bubble {percent(answer.bubble)} of {format_number(answer.duration)} slots,"
        f" at most {held} microbatches in flight{weights}"
    )


def write(
    replayed: Sequence[Replayed], folder: Path, *, formats: Sequence[str] = (), force: bool = False
) -> list[str]:
    """Write the answer and the figure, as `write_files`."""
    answer = answer_of(replayed)
    drawn = Stacked(_headline(answer), (*pictures(replayed),))
    about = {"kind": "schedules", **to_json(answer)}
    drawings = {STEM: partial(write_figure, drawn)}
    return write_files(folder, about, drawings, formats=formats, force=force)


def _headline(answer: ComparedSchedules) -> str:
    words = finding(answer)
    return words[0].upper() + words[1:] if words.startswith("all") else words
