"""The folder of a run, written whole or not at all.

Everything goes into a new folder beside the final one, which then takes its place.  An earlier
output is replaced; a folder that holds anything else is left alone unless the caller insists.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clustersim import __version__
from clustersim.errors import ScenarioError
from clustersim.metrics.memory import columns as memory_columns
from clustersim.report.artist import Artist, Drawing
from clustersim.report.figures import draw_breakdown, draw_timeline
from clustersim.report.frames import Columns, write_frames
from clustersim.report.memory import draw_memory, memory_picture
from clustersim.report.page import of_run
from clustersim.report.pictures import BreakdownPicture, breakdown_picture, timeline_picture
from clustersim.report.trace import write_trace

if TYPE_CHECKING:
    from clustersim.scenario.load import Loaded
    from clustersim.simulate import Result

SUMMARY: Final = "summary.json"
FILES: Final = (
    SUMMARY,
    "timeline.parquet",
    "timeline.png",
    "timeline.svg",
    "breakdown.csv",
    "breakdown.png",
    "breakdown.svg",
    "memory.csv",
    "memory.parquet",
    "memory.png",
    "memory.svg",
    "report.html",
    "trace.json",
)
"""What a run leaves."""

FOR_PAPERS: Final = (
    "timeline.pdf",
    "timeline.csv",
    "breakdown.pdf",
    "memory.pdf",
    "memory_fullest.csv",
)
"""What it leaves beside that where it is asked to."""


def check_free(folder: Path, *, force: bool = False) -> None:
    """Refuse to write where something else stands, or where no folder can be made.

    What stands there may only be the output of an earlier run.

    Raises
    ------
    ScenarioError
        one line that says what is in the way.
    """
    target = folder.resolve()
    if Path.cwd().is_relative_to(target) or Path.home().is_relative_to(target):
        raise ScenarioError(
            f"{folder}: is around the working or home folder, and a run replaces its folder whole;"
            " choose another --out"
        )
    if target.exists() and not force and not is_ours(target):
        raise ScenarioError(
            f"{folder}: is in the way and is not the output of an earlier run; choose another --out"
        )
    above = next(parent for parent in target.parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        why = "cannot be written in" if above.is_dir() else "is no folder"
        raise ScenarioError(f"{folder}: cannot be made, since {above} {why}; choose another --out")


def is_ours(folder: Path) -> bool:
    """Whether a folder is empty, or holds a summary and no file that the summary does not list."""
    if not folder.is_dir():
        return False
    found = {path.name for path in folder.iterdir()}
    return found <= set(_listed(folder / SUMMARY))


def _listed(summary: Path) -> list[str]:
    """Return the files that a summary says were written with it; none if it is no summary."""
    try:
        return [str(name) for name in json.loads(summary.read_bytes())["files"]]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def write(
    result: "Result",
    loaded: "Loaded",
    folder: Path,
    artist: Artist,
    *,
    command: str = "",
    paper: bool = False,
    force: bool = False,
) -> None:
    """Write all files of a run of a loaded scenario, and those for papers if these are wanted.

    `command` is what the page says made it.

    Raises
    ------
    ScenarioError
        when the folder is taken, or cannot be written.
    """
    check_free(folder, force=force)
    with replacing(folder) as new:
        timeline, breakdown = timeline_picture(result), breakdown_picture(result)
        memory = memory_picture(result)
        page = of_run.gather(result, loaded, of_run.Pictures(timeline, breakdown, memory), command)
        figures = [
            Drawing(draw_timeline, timeline, new / "timeline"),
            Drawing(draw_breakdown, breakdown, new / "breakdown"),
            Drawing(draw_memory, memory, new / "memory"),
        ]
        frames = _frames(result, breakdown)
        if paper:
            figures += [each._replace(stem=each.stem.with_suffix(".pdf")) for each in figures]
            frames |= {"timeline.csv": timeline.columns(), "memory_fullest.csv": memory.columns()}
        tables = Drawing(write_frames, frames, new)
        artist.begin([*figures, Drawing(of_run.write, page, new / "report"), tables])
        write_trace(result, new / "trace.json")
        _write_summary(result, [*FILES, *(FOR_PAPERS if paper else [])], new / SUMMARY)
        artist.finish()


def _frames(result: "Result", breakdown: BreakdownPicture) -> dict[str, Columns]:
    """Return the tables behind the figures, by the name of their file."""
    return {
        "timeline.parquet": result.timeline.columns(),
        "breakdown.csv": breakdown.columns(),
        "memory.csv": _memory(result),
        "memory.parquet": memory_columns(result.memory_curves),
    }


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Give a new folder that takes the place of `folder` at the end, unless something fails."""
    target = folder.resolve()
    new, old = (target.with_name(f".{target.name}.{os.getpid()}.{end}") for end in ("new", "old"))
    with _blaming(folder):
        target.parent.mkdir(parents=True, exist_ok=True)
        new.mkdir()
    try:
        yield new
        with _blaming(folder):
            if target.exists():
                target.rename(old)
            new.rename(target)
    except BaseException:
        shutil.rmtree(new)
        if old.exists():
            old.rename(target)
        raise
    if old.is_dir():
        shutil.rmtree(old)
    else:
        old.unlink(missing_ok=True)


@contextmanager
def _blaming(folder: Path) -> Iterator[None]:
    """Turn what the file system objects to into one line about `folder`."""
    try:
        yield
    except OSError as problem:
        raise ScenarioError(
            f"{folder}: cannot be written ({problem.strerror}); choose another --out"
        ) from problem


def _write_summary(result: "Result", files: list[str], path: Path) -> None:
    """Write what ``--json`` prints, and beside it the scenario with all names looked up."""
    summary = {
        **result.to_json(),
        "scenario": result.scenario.model_dump(mode="json", by_alias=True),
        "version": __version__,
        "files": files,
    }
    path.write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _memory(result: "Result") -> dict[str, list[Any]]:
    """Return the peak of every stage by part [B]."""
    stages = result.memory.stages
    parts = {part: [stage.parts[part] for stage in stages] for part in stages[0].parts}
    return {"stage": [stage.stage for stage in stages], **parts}


__all__ = ["FILES", "SUMMARY", "check_free", "is_ours", "replacing", "write"]
