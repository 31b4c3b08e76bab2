"""Stored studies as tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from clustersim.render.tables import percent
from clustersim.render.words import format_setting, short_keys
from clustersim.runs.store import StoredStudy
from clustersim.runs.table import Row, axis_columns
from clustersim.units import GIB, format_seconds

SHOWN: Final = 40
"""Maximum number of runs that are printed."""

HEADINGS: Final = ("runs", "fit", "do not fit", "invalid", "failed", "remaining", "begun (UTC)")


Columns = Mapping[str, tuple[str, Callable[[float], str]]]
"""Heading and format of each number that is printed."""

STEPS: Final[Columns] = {
    "step_time_s": ("step", format_seconds),
    "tokens_per_s": ("tokens/s", "{:,.0f}".format),
    "mfu": ("MFU", percent),
    "memory_peak_bytes": ("GiB", lambda nbytes: f"{nbytes / GIB:.1f}"),
}

SERVICES: Final[Columns] = {
    "ttft": ("first token", format_seconds),
    "tpot": ("each token", format_seconds),
    "tokens_per_s": ("tokens/s", "{:,.0f}".format),
    "tokens_per_s_per_device": ("per device", "{:,.0f}".format),
}


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
    columns = SERVICES if any("ttft" in row for row in rows) else STEPS
    table = [[*short_keys(axes), "verdict", *(heading for heading, _ in columns.values())]]
    for row in rows[:SHOWN]:
        point = [format_setting(row.get(key)) for key in axes]
        table.append([*point, row["verdict"] or "remaining", *_numbers(row, columns)])
    return table


def _numbers(row: Row, columns: Columns) -> list[str]:
    """Return the numbers of a run, a dash for each that it lacks."""
    return [write(row[key]) if key in row else "-" for key, (_, write) in columns.items()]
