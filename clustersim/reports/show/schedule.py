"""A pipeline schedule replayed without a machine: equal stages, free transfers, time in slots.

The answer has the bubble and the microbatches in flight; the text can be read back as a schedule.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from clustersim.answers import to_json
from clustersim.engine.replay import replay
from clustersim.errors import ScenarioError
from clustersim.memory.levels import peak_activations
from clustersim.program.schedules import Schedule, schedule_text
from clustersim.program.schedules.batch_order import batch_order
from clustersim.program.schedules.steps import Row
from clustersim.program.uniform import uniform_program
from clustersim.records import dataclass
from clustersim.render.charts.picture import Axis
from clustersim.render.charts.timeline import STEP_KINDS
from clustersim.render.charts.timeline import Timeline as TimelineChart
from clustersim.render.matplotlib import write_figure
from clustersim.reports.show.files import write_files
from clustersim.timeline import BACKWARD, FORWARD, INPUT, WEIGHT, Timeline, Track
from clustersim.units import counted

SLOTS: Final = {FORWARD: 1.0, BACKWARD: 2.0, INPUT: 1.0, WEIGHT: 1.0}
"""Durations of the steps of a chunk: a backward takes two forwards, half of it for the weights."""

MAX_STEPS: Final = 1_000_000
"""Maximum number of forward and backward steps of all stages."""

WIDEST: Final = 240
"""Characters of a grid in time that is still printed."""

COLUMNS: Final = {
    "kind": "kind", "number": "microbatch", "shade": "chunk", "start": "start", "end": "end",
}  # fmt: skip
"""Columns of a chart, and of the tracks of a replay."""

STEPS: Final = "schedule.txt"


@dataclass(frozen=True)
class ScheduleAnswer:
    """A replayed schedule for scripts: `derived` of `clustersim show SCHEDULE --json`.

    Attributes
    ----------
    stages, microbatches, chunks : shape of the schedule
    wiring : loop, v or mirrored
    steps : steps of each stage, as printed
    duration : from the start of the first step to the end of the last [slots]
    idle : idle time of each stage [slots]
    in_flight : most microbatches that each stage holds
    """

    stages: int
    microbatches: int
    chunks: int
    wiring: str
    steps: list[list[str]]
    duration: float
    idle: list[float]
    in_flight: list[int]


@dataclass(frozen=True)
class ReplayedSchedule:
    """A schedule of some shape, replayed.

    Attributes
    ----------
    rows : steps of each stage
    seconds : duration of each kind of step, in any unit
    """

    schedule: Schedule
    stages: int
    microbatches: int
    chunks: int
    rows: list[Row]
    seconds: Mapping[str, float]
    timeline: Timeline

    @property
    def duration(self) -> float:
        """From the start of the first step to the end of the last."""
        return self.timeline.duration

    @property
    def idle(self) -> list[float]:
        """Idle time of each stage within the whole duration."""
        return [self.duration - float((t.end - t.start).sum()) for t in self.timeline.tracks]

    @property
    def in_flight(self) -> list[int]:
        """The most microbatches that each stage holds, counted once for each chunk held."""
        none = [0.0] * self.chunks
        return [
            peak_activations(t.kind.astype(np.int64), t.chunk.astype(np.int64), none).microbatches
            for t in self.timeline.tracks
        ]

    @property
    def finding(self) -> str:
        """Bubble and microbatches in flight, in a phrase."""
        share, slots = max(self.idle) / self.duration, round(self.duration)
        held = max(self.in_flight)
        of = f" of a {self.chunks}th of a stage" if self.chunks > 2 else ""
        of = " of half a stage" if self.chunks == 2 else of
        bubble = f"bubble {100 * share:.0f} % of {slots} slots"
        return f"{bubble}, at most {held} microbatches{of} in flight"

    @property
    def answer(self) -> ScheduleAnswer:
        """The values for scripts."""
        steps = [[str(step) for step in row] for row in self.rows]
        return ScheduleAnswer(
            self.stages, self.microbatches, self.chunks, self.schedule.wiring,
            steps, self.duration, self.idle, self.in_flight,
        )  # fmt: skip


def replay_schedule(
    schedule: Schedule, stages: int, microbatches: int, chunks: int,
    seconds: Mapping[str, float] = SLOTS,
) -> ReplayedSchedule:  # fmt: skip
    """Replay a schedule on equal stages and free links.

    Parameters
    ----------
    seconds : duration of a chunk's step, by kind

    Raises
    ------
    ScenarioError
        when it has more than `MAX_STEPS` steps.
    """
    steps = 2 * stages * microbatches * chunks
    if steps > MAX_STEPS:
        raise ScenarioError(
            f"{schedule.name}: {stages:,} stages x {microbatches:,} microbatches x"
            f" {chunks:,} chunks have {steps:,} steps (at most {MAX_STEPS:,})"
        )
    rows = schedule.rows(stages, microbatches, chunks)
    order = batch_order(schedule, stages, microbatches, chunks)
    program = uniform_program(order, schedule.wired(stages, chunks), microbatches, seconds)
    timeline = replay(program).timeline
    return ReplayedSchedule(schedule, stages, microbatches, chunks, rows, seconds, timeline)


def page(shown: ReplayedSchedule) -> str:
    """Return the steps of every stage, then as comments the grid in time and the finding."""
    schedule = shown.schedule
    head = [f"# {schedule.name}: {schedule.title}"]
    head += [f"wiring: {schedule.wiring}"] if schedule.wiring != "loop" else []
    rows = schedule_text(shown.rows)
    return "\n".join([*head, rows, "#", *(f"# {line}".rstrip() for line in _in_time(shown))])


def _in_time(shown: ReplayedSchedule) -> list[str]:
    """Return the grid in time unless it is too wide, and the finding."""
    slots = round(shown.duration)
    cell = 1 + max(len(str(step.unpaired)) for row in shown.rows for step in row)
    if cell * slots > WIDEST:
        return [shown.finding]
    label = len(str(shown.stages - 1))
    lines = [
        f"{track.stage:<{label}} "
        + "".join(f"{word:<{cell}}" for word in _slots(track, row, slots))
        for track, row in zip(shown.timeline.tracks, shown.rows, strict=True)
    ]
    head = "a slot for a forward and for each half of a backward:"
    return [head, *(line.rstrip() for line in lines), "", shown.finding]


def _slots(track: Track, row: tuple[object, ...], slots: int) -> list[str]:
    """Return the step of a stage in every slot; a dot where it is idle."""
    words = ["."] * slots
    for step, start, end in zip(row, track.start, track.end, strict=True):
        for slot in range(round(start), round(end)):
            words[slot] = str(step).rstrip("&")
    return words


def picture(shown: ReplayedSchedule) -> TimelineChart:
    """Return the grid in time as a picture."""
    tracks, name = shown.timeline.tracks, shown.schedule.name
    joined: dict[str, Any] = {
        key: np.concatenate([getattr(track, name) for track in tracks])
        for key, name in COLUMNS.items()
    }
    stage = np.concatenate([np.full(len(track.start), track.stage, np.int32) for track in tracks])
    shape = f"{counted(shown.stages, 'stage')}, {counted(shown.microbatches, 'microbatch')}"
    return TimelineChart(
        title=f"{name}: {shown.finding}",
        caption=f"{shape}, equal stages, free transfers",
        time=Axis("time", "slots", limits=(0.0, shown.duration)),
        lanes="stage",
        count=shown.stages,
        kinds=STEP_KINDS,
        shades=shown.chunks,
        lane=stage,
        **joined,
    )


def write(
    shown: ReplayedSchedule, folder: Path, *, formats: Sequence[str] = (), force: bool = False
) -> list[str]:
    """Write the steps as text, and the picture, as `write_files`."""
    about = {"name": shown.schedule.name, "kind": "schedule", **to_json(shown.answer)}
    drawings = {"schedule": partial(write_figure, picture(shown))}
    texts = {STEPS: page(shown) + "\n"}
    return write_files(folder, about, drawings, texts=texts, formats=formats, force=force)
