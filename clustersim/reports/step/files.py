"""The files of a run: its answer, tables and figures, the page and the trace."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from clustersim.memory.levels import batches as memory_batches
from clustersim.render import folder
from clustersim.render.charts.picture import Picture
from clustersim.render.frames import Columns
from clustersim.render.study_folder import StudyFiles
from clustersim.reports.step.charts import breakdown, components, memory_by_stage, memory_over_time
from clustersim.reports.step.page import page
from clustersim.reports.step.pipeline import pipeline, views
from clustersim.reports.step.trace import write_trace

if TYPE_CHECKING:
    from clustersim.simulation.step.result import Result

FILES: Final = (
    folder.SUMMARY,
    "report.html",
    "breakdown.csv",
    "timeline.parquet",
    "memory.csv",
    "memory.parquet",
    "trace.json",
)
"""What every run writes."""

FIGURES: Final = ("timeline", "breakdown", "memory")
"""Figures that are written in the formats that ``--figures`` names."""

FIGURE_TABLES: Final = ("timeline.csv", "memory_fullest.csv")
"""Tables of what these figures show, if it is in no other table; written with them."""


def files_of(result: "Result", command: str = "") -> StudyFiles:
    """Return the files of a run; `command` is what made it, for the page."""
    timeline, memory = pipeline(result), memory_over_time(result)
    figures: dict[str, Sequence[Picture]] = {
        "timeline": views(timeline),
        "breakdown": [breakdown(result)],
        "memory": [memory, memory_by_stage(result)],
    }
    return StudyFiles(
        result.answer,
        partial(page, result, timeline, command),
        {},
        figures,
        _frames(result),
        {"trace.json": lambda path: write_trace(result, path)},
        {"timeline.csv": timeline.columns(), "memory_fullest.csv": memory.rows()},
        {"scenario": result.scenario.model_dump(mode="json", by_alias=True)},
    )


def _frames(result: "Result") -> dict[str, Columns | Iterator[Columns]]:
    """Return the tables by the name of their file, long ones in parts."""
    return {
        "breakdown.csv": components(result),
        "timeline.parquet": result.timeline.batches(),
        "memory.csv": _memory(result),
        "memory.parquet": memory_batches(result.memory_curves),
    }


def _memory(result: "Result") -> dict[str, list[Any]]:
    """Return the peak of every stage by component [B]."""
    stages = result.memory.stages
    parts = {part: [stage.parts[part] for stage in stages] for part in stages[0].parts}
    return {"stage": [stage.stage for stage in stages], **parts}
