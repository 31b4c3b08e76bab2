"""The files of a run: its answer, tables and figures, the page and the trace."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clustersim.answers import to_json
from clustersim.memory.curves import columns as memory_columns
from clustersim.render import folder
from clustersim.render.frames import Columns, write_frames
from clustersim.studies.run import page as of_run
from clustersim.studies.run.breakdown_figure import draw_breakdown
from clustersim.studies.run.memory_figure import draw_memory, memory_picture
from clustersim.studies.run.pictures import BreakdownPicture, breakdown_picture, timeline_picture
from clustersim.studies.run.render_process import Artist, Drawing
from clustersim.studies.run.timeline_figure import draw_timeline
from clustersim.studies.run.trace import write_trace

if TYPE_CHECKING:
    from clustersim.scenario.load import Loaded
    from clustersim.simulation.simulate import Result

FILES: Final = (
    folder.SUMMARY,
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


def write(
    result: "Result",
    loaded: "Loaded",
    place: Path,
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
    folder.check_free(place, force=force)
    with folder.replacing(place) as new:
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
        scenario = result.scenario.model_dump(mode="json", by_alias=True)
        answer = {**to_json(result.answer), "scenario": scenario}
        folder.write_summary(answer, [*FILES, *(FOR_PAPERS if paper else [])], new)
        artist.finish()


def _frames(result: "Result", breakdown: BreakdownPicture) -> dict[str, Columns]:
    """Return the tables behind the figures, by the name of their file."""
    return {
        "timeline.parquet": result.timeline.columns(),
        "breakdown.csv": breakdown.columns(),
        "memory.csv": _memory(result),
        "memory.parquet": memory_columns(result.memory_curves),
    }


def _memory(result: "Result") -> dict[str, list[Any]]:
    """Return the peak of every stage by part [B]."""
    stages = result.memory.stages
    parts = {part: [stage.parts[part] for stage in stages] for part in stages[0].parts}
    return {"stage": [stage.stage for stage in stages], **parts}


__all__ = ["FILES", "FOR_PAPERS", "write"]
