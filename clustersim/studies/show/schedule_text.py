"""A schedule as text that can be read back as one, and as a picture."""

from pathlib import Path
from typing import Final

import numpy as np

from clustersim import __version__
from clustersim.metrics.unrolled import Unrolled
from clustersim.program.schedules import text
from clustersim.render.folder import SUMMARY, check_free, replacing, write_summary
from clustersim.studies.run.pictures import TimelinePicture
from clustersim.studies.run.timeline_figure import draw_timeline
from clustersim.timeline import Track

WIDEST: Final = 240
"""Letters of a grid in time that is still printed."""

FILES: Final = ("schedule.txt", "schedule.png", "schedule.svg", "schedule.pdf")


def page(shown: Unrolled) -> str:
    """Return the steps of every stage, then as comments the grid in time and what it shows."""
    schedule = shown.schedule
    head = [f"# {schedule.name}: {schedule.title}"]
    head += [f"wiring: {schedule.wiring}"] if schedule.wiring != "loop" else []
    rows = text(shown.rows)
    return "\n".join([*head, rows, "#", *(f"# {line}".rstrip() for line in _in_time(shown))])


def _in_time(shown: Unrolled) -> list[str]:
    """Return the grid in time where it is not too wide, and the finding."""
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
    """Return what a stage does in every slot; a point where it waits."""
    words = ["."] * slots
    for step, start, end in zip(row, track.start, track.end, strict=True):
        for slot in range(round(start), round(end)):
            words[slot] = str(step).rstrip("&")
    return words


def picture(shown: Unrolled) -> TimelinePicture:
    """Return the grid in time as a picture."""
    tracks, name = shown.timeline.tracks, shown.schedule.name
    joined = {
        key: np.concatenate([getattr(track, key) for track in tracks])
        for key in ("kind", "microbatch", "chunk", "start", "end")
    }
    stage = np.concatenate([np.full(len(track.start), track.stage, np.int32) for track in tracks])
    shape = f"{shown.stages} stages, {shown.microbatches} microbatches"
    return TimelinePicture(
        name=name,
        title=f"{name}: {shown.finding}",
        caption=f"{shape}, equal stages, free transfers; clustersim {__version__}",
        stages=shown.stages,
        chunks=shown.chunks,
        duration=shown.duration,
        stage=stage,
        kind=joined["kind"],
        microbatch=joined["microbatch"],
        chunk=joined["chunk"],
        start=joined["start"],
        end=joined["end"],
    )


def write(shown: Unrolled, folder: Path, *, force: bool = False) -> None:
    """Write the steps as text and the picture as PNG, SVG and PDF.

    Raises
    ------
    ScenarioError
        when the folder is taken, or cannot be written.
    """
    check_free(folder, force=force)
    with replacing(folder) as new:
        about = {"name": shown.schedule.name, "kind": "schedule", **shown.to_json()}
        write_summary(about, [SUMMARY, *FILES], new)
        (new / "schedule.txt").write_text(page(shown) + "\n", encoding="utf-8")
        draw_timeline(picture(shown), new / "schedule", ("png", "svg", "pdf"), unit="slots")


__all__ = ["check_free", "page", "picture", "write"]
