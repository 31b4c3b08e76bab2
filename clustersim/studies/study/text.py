"""Stored studies as tables."""

from collections.abc import Sequence
from typing import Final

from clustersim.render.words import format_setting, short_keys
from clustersim.reports.measures import cells, headlines
from clustersim.runs.store import StoredStudy
from clustersim.runs.table import Row, axis_columns
from clustersim.simulation.measures import BRIEF, Kind

SHOWN: Final = 40
"""Maximum number of runs that are printed."""

HEADINGS: Final = ("runs", "fit", "do not fit", "invalid", "failed", "remaining", "begun (UTC)")


def studies_table(studies: Sequence[StoredStudy]) -> list[list[str]]:
    """Return a table of studies, its headings first."""
    return [["", "study", *HEADINGS], *map(_study, studies)]


def _study(study: StoredStudy) -> list[str]:
    counts = (
        study.runs,
        study.fits,
        study.does_not_fit,
        study.invalid,
        study.failed,
        study.remaining,
    )
    begun = study.begun[:16].replace("T", " ")
    return [str(study.position), study.name, *(f"{count:,}" for count in counts), begun]


def runs_table(rows: Sequence[Row]) -> list[list[str]]:
    """Return a table of the first runs of a study, its headings first."""
    axes = axis_columns(rows)
    kinds: tuple[Kind, ...] = ("training run", "step")
    measures = headlines(
        ("service",) if any("ttft" in row for row in rows) else kinds, rows, of=BRIEF
    )
    table = [[*short_keys(axes), "verdict", *(measure.heading for measure in measures)]]
    for row in rows[:SHOWN]:
        point = [format_setting(row.get(key)) for key in axes]
        table.append([*point, row["verdict"] or "remaining", *cells(measures, row)])
    return table
