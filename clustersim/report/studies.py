"""The studies of a store as tables, and the runs of one as a table or a file."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clustersim.errors import ScenarioError
from clustersim.report.sweep import GIB, short, str_of
from clustersim.report.tables import percent
from clustersim.study.table import frame, row
from clustersim.units import format_seconds

if TYPE_CHECKING:
    from clustersim.study.store import Progress
    from clustersim.study.variants import Run, Variant

SHOWN: Final = 40
"""Runs that are printed; a file has them all."""

VERDICTS: Final = ("fits", "does not fit", "refused", "failed")


def studies_table(found: "Sequence[Progress]") -> list[list[str]]:
    """Return the studies of a store, a line each below the heading."""
    table = [["", "study", "runs", *VERDICTS, "left", "begun (UTC)"]]
    for position, each in enumerate(found, 1):
        counts = [each.verdicts.get(verdict, 0) for verdict in VERDICTS]
        numbers = [f"{number:,}" for number in (each.points, *counts, each.left)]
        begun = each.begun[:16].replace("T", " ")
        table.append([str(position), each.study.name, *numbers, begun])
    return table


def study_json(position: int, found: "Progress") -> dict[str, Any]:
    """Return how far a study is as plain values."""
    return {
        "position": position,
        "name": found.study.name,
        "verb": found.study.verb,
        "title": found.study.title,
        "begun": found.begun,
        "runs": found.points,
        **{verdict.replace(" ", "_"): found.verdicts.get(verdict, 0) for verdict in VERDICTS},
        "left": found.left,
    }


def runs_table(found: "Sequence[tuple[Variant, Run | None]]") -> list[list[str]]:
    """Return the runs of a study, a line each below the heading."""
    keys = [*dict.fromkeys(key for variant, _ in found for key in variant.point)]
    table = [[*short(keys), "verdict", "step", "tokens/s", "MFU", "GiB"]]
    for each in (row(*both) for both in found[:SHOWN]):
        point = [str_of(each.get(key)) for key in keys]
        table.append([*point, each["verdict"] or "left", *_numbers(each)])
    return table


def _numbers(each: dict[str, Any]) -> list[str]:
    """Return the numbers of a run, dashes where it has none."""
    ways: dict[str, Callable[[float], str]] = {
        "step_time_s": format_seconds,
        "tokens_per_s": "{:,.0f}".format,
        "mfu": percent,
        "memory_peak_bytes": lambda nbytes: f"{nbytes / GIB:.1f}",
    }
    return [way(each[key]) if key in each else "-" for key, way in ways.items()]


def check_file(path: Path, *, force: bool = False) -> None:
    """Refuse to write where something stands.

    Raises
    ------
    ScenarioError
        in one line.
    """
    if path.is_dir():
        raise ScenarioError(f"{path}: is a folder; name a file")
    if path.exists() and not force:
        raise ScenarioError(f"{path}: is in the way (--force replaces it)")


def export(
    found: "Sequence[tuple[Variant, Run | None]]", csv: Path | None, parquet: Path | None
) -> None:
    """Write the runs of a study into files, each whole or not at all.

    Raises
    ------
    ScenarioError
        when one cannot be written.
    """
    table = frame(found)
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


__all__ = ["SHOWN", "check_file", "export", "runs_table", "studies_table", "study_json"]
