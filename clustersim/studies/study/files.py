"""The runs of a stored study as CSV and Parquet files."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clustersim.errors import ScenarioError
from clustersim.render.words import format_setting, short_keys
from clustersim.reports.measures import cells, headlines
from clustersim.runs.store import StoredStudy
from clustersim.runs.table import Row, axis_columns
from clustersim.simulation.measures import BRIEF, Kind

if TYPE_CHECKING:
    import pandas as pd


def check_file(path: Path, *, other: Sequence[Path] = (), force: bool = False) -> None:
    """Check that a file can be written without replacing anything.

    Parameters
    ----------
    other : files that it must differ from
    force : whether an existing file may be replaced

    Raises
    ------
    ScenarioError
        in one line.
    """
    if path.is_dir():
        raise ScenarioError(f"{path}: is a folder; give the name of a file")
    if path.resolve() in [file.resolve() for file in other]:
        raise ScenarioError(f"{path}: given twice (different files, and not the run cache)")
    if path.exists() and not force:
        raise ScenarioError(f"{path}: already exists (use --force)")


def export(table: "pd.DataFrame", csv: Path | None, parquet: Path | None) -> None:
    """Write the runs of a study, each file completely or not at all.

    Raises
    ------
    ScenarioError
        when a file cannot be written.
    """
    if csv is not None:
        _write(csv, lambda path: table.to_csv(path, index=False, lineterminator="\n"))
    if parquet is not None:
        _write(parquet, lambda path: table.to_parquet(path, index=False))


def _write(target: Path, write: Callable[[Path], None]) -> None:
    new = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(new)
            new.replace(target)
        finally:
            new.unlink(missing_ok=True)
    except OSError as problem:
        raise ScenarioError(f"{target}: cannot be written ({problem.strerror})") from problem


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
