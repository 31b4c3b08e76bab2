"""The files of a run: its answer, tables and figures, the page and the trace."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clustersim.answers import to_json
from clustersim.memory.levels import batches as memory_batches
from clustersim.render import folder
from clustersim.render.charts.picture import Picture
from clustersim.render.frames import Columns, write_frames, write_lines
from clustersim.render.matplotlib import write_figure
from clustersim.render.page.page import write_page
from clustersim.render.render_process import Drawing, RenderProcess
from clustersim.reports.step.charts import breakdown, components, memory_by_stage, memory_over_time
from clustersim.reports.step.page import page
from clustersim.reports.step.pipeline import pipeline, views
from clustersim.reports.step.trace import write_trace

if TYPE_CHECKING:
    from clustersim.scenario.load import Loaded
    from clustersim.simulation.step.result import Result

FILES: Final = (
    folder.SUMMARY,
    "report.html",
    "timeline.parquet",
    "breakdown.csv",
    "memory.csv",
    "memory.parquet",
    "trace.json",
)
"""What every run writes."""

FIGURES: Final = ("timeline", "breakdown", "memory")
"""Figures that are written in the formats that ``--figures`` names."""

FIGURE_TABLES: Final = ("timeline.csv", "memory_fullest.csv")
"""Tables of what these figures show, if it is in no other table; written with them."""


def file_names(formats: Sequence[str] = ()) -> list[str]:
    """Return the files that a run writes with the figures in some formats."""
    figures = [f"{stem}.{format}" for stem in FIGURES for format in formats]
    return [*dict.fromkeys([*FILES, *figures, *(FIGURE_TABLES if formats else ())])]


def write(
    result: "Result",
    loaded: "Loaded",
    place: Path,
    process: RenderProcess | None,
    *,
    command: str = "",
    formats: Sequence[str] = (),
    force: bool = False,
) -> None:
    """Write all files of a run of a loaded scenario.

    Parameters
    ----------
    process : draws the figures, while everything else is written here; none without formats
    command : the command line, for the page
    formats : of the figures

    Raises
    ------
    ScenarioError
        when the folder exists and may not be replaced, or cannot be written.
    """
    folder.check_free(place, force=force)
    with folder.replacing(place) as new:
        timeline, memory = pipeline(result), memory_over_time(result)
        frames = _frames(result)
        if process is not None and formats:
            figures: dict[str, Sequence[Picture]] = {
                "timeline": views(timeline),
                "breakdown": [breakdown(result)],
                "memory": [memory, memory_by_stage(result)],
            }
            draw = partial(write_figure, formats=formats)
            process.begin([Drawing(draw, figures[stem], new / stem) for stem in FIGURES])
            frames["timeline.csv"] = timeline.columns()
            write_lines(memory.rows(), new / "memory_fullest.csv")
        write_frames(frames, new)
        write_trace(result, new / "trace.json")
        write_page(page(result, loaded, timeline, command), new / "report")
        scenario = result.scenario.model_dump(mode="json", by_alias=True)
        answer = {**to_json(result.answer), "scenario": scenario}
        folder.write_summary(answer, file_names(formats), new)
        if process is not None and formats:
            process.finish()


def _frames(result: "Result") -> dict[str, Columns | Iterator[Columns]]:
    """Return the tables by the name of their file, long ones in parts."""
    return {
        "timeline.parquet": result.timeline.batches(),
        "breakdown.csv": components(result),
        "memory.csv": _memory(result),
        "memory.parquet": memory_batches(result.memory_curves),
    }


def _memory(result: "Result") -> dict[str, list[Any]]:
    """Return the peak of every stage by component [B]."""
    stages = result.memory.stages
    parts = {part: [stage.parts[part] for stage in stages] for part in stages[0].parts}
    return {"stage": [stage.stage for stage in stages], **parts}
