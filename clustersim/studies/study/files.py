"""The runs of a stored study as CSV and Parquet files."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clustersim.errors import ScenarioError

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
