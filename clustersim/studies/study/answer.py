"""Stored studies: the studies of a run cache, and the runs of one of them.

>>> stored_studies("missing.db")
Traceback (most recent call last):
    ...
clustersim.errors.ScenarioError: missing.db: no such file (clustersim sweep writes one)
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clustersim.errors import ScenarioError
from clustersim.records import dataclass
from clustersim.render.tables import format_setting, short_keys
from clustersim.reports.measures import cells, headlines
from clustersim.runs.store import Store, StoredStudy
from clustersim.runs.store_file import check_store
from clustersim.runs.table import Row, axis_columns, row
from clustersim.simulation.measures import BRIEF, Kind
from clustersim.suggestions import nearest

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class StoredStudies:
    """The studies of a run cache, the oldest first.

    Attributes
    ----------
    store : file of the run cache
    studies : its studies
    """

    store: str
    studies: list[StoredStudy]


@dataclass(frozen=True)
class StoredRuns:
    """The runs of a study.

    Attributes
    ----------
    study : the study, with the keys of `studies[]`
    points : its runs, with the keys of `points[]` of `sweep --json`; `verdict` is null until a run
        is completed
    """

    study: StoredStudy
    points: list[Row]


def stored_studies(store: str | Path) -> StoredStudies:
    """Return the studies of a run cache.

    Raises
    ------
    ScenarioError
        when there is no such file, or it is not a run cache.
    """
    path = Path(store)
    check_store(path, must_exist=True)
    with Store(path) as cache:
        return StoredStudies(str(store), cache.studies())


def stored_runs(store: str | Path, name: str | None = None) -> StoredRuns:
    """Return the runs of a study.

    Parameters
    ----------
    name : of the study, or its position; None for the only one

    Raises
    ------
    ScenarioError
        as `stored_studies`, and when there is no such study.
    """
    studies = stored_studies(store).studies
    study = studies[_index(store, [one.name for one in studies], name)]
    with Store(Path(store)) as cache:
        return StoredRuns(study, [row(*point) for point in cache.points(study.name)])


def _index(store: str | Path, names: list[str], name: str | None) -> int:
    if name is None:
        if len(names) == 1:
            return 0
        raise ScenarioError(f"--name: required, {store} has {len(names)} studies")
    if name in names:
        return names.index(name)
    if name.isdecimal() and 1 <= int(name) <= len(names):
        return int(name) - 1
    raise ScenarioError(
        f"--name {name}: no such study in {store}{nearest(name, names)}"
        f" (clustersim study {store} lists them)"
    )


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

COUNTS: Final = ("runs", "fits", "does_not_fit", "invalid", "failed", "remaining")
HEADINGS: Final = ("runs", "fit", "do not fit", "invalid", "failed", "remaining", "begun (UTC)")


def studies_table(studies: Sequence[StoredStudy]) -> list[list[str]]:
    """Return a table of studies, its headings first."""
    return [["", "study", *HEADINGS], *map(_study, studies)]


def _study(study: StoredStudy) -> list[str]:
    counts = (getattr(study, name) for name in COUNTS)
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
    for each in rows[:SHOWN]:
        point = [format_setting(each.get(key)) for key in axes]
        table.append([*point, each["verdict"] or "remaining", *cells(measures, each)])
    return table
