"""The studies of a store as tables, and the runs of one as a table or a file."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clustersim.errors import ScenarioError
from clustersim.render.tables import percent
from clustersim.studies.sweep.text import short, str_of
from clustersim.units import GIB, format_seconds

if TYPE_CHECKING:
    import pandas as pd

SHOWN: Final = 40
"""Runs that are printed; a file has them all."""


def studies_table(found: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the studies of a store, a line each below the heading."""
    columns = ("runs", "fits", "does_not_fit", "refused", "failed", "left")
    table = [["", "study", *(column.replace("_", " ") for column in columns), "begun (UTC)"]]
    for each in found:
        numbers = [f"{each[column]:,}" for column in columns]
        begun = each["begun"][:16].replace("T", " ")
        table.append([str(each["position"]), each["name"], *numbers, begun])
    return table


def runs_table(axes: Sequence[str], found: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the runs of a study, a line each below the heading.

    Parameters
    ----------
    axes : keys that set the runs apart
    found : a row for each run
    """
    table = [[*short(axes), "verdict", "step", "tokens/s", "MFU", "GiB"]]
    for each in found[:SHOWN]:
        point = [str_of(each.get(key)) for key in axes]
        table.append([*point, each["verdict"] or "left", *_numbers(each)])
    return table


def _numbers(each: Mapping[str, Any]) -> list[str]:
    """Return the numbers of a run, dashes where it has none."""
    ways: dict[str, Callable[[float], str]] = {
        "step_time_s": format_seconds,
        "tokens_per_s": "{:,.0f}".format,
        "mfu": percent,
        "memory_peak_bytes": lambda nbytes: f"{nbytes / GIB:.1f}",
    }
    return [way(each[key]) if key in each else "-" for key, way in ways.items()]


def check_file(path: Path, *, apart: Sequence[Path] = (), force: bool = False) -> None:
    """Refuse to write where something stands, and over files it must stay `apart` from.

    Raises
    ------
    ScenarioError
        in one line.
    """
    if path.is_dir():
        raise ScenarioError(f"{path}: is a folder; name a file")
    if path.resolve() in [other.resolve() for other in apart]:
        raise ScenarioError(f"{path}: is named twice (each file once, and not the store)")
    if path.exists() and not force:
        raise ScenarioError(f"{path}: is in the way (--force replaces it)")


def export(table: "pd.DataFrame", csv: Path | None, parquet: Path | None) -> None:
    """Write the runs of a study into files, each whole or not at all.

    Raises
    ------
    ScenarioError
        when one cannot be written.
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


__all__ = ["SHOWN", "check_file", "export", "runs_table", "studies_table"]
