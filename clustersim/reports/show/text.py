"""The page of a catalogue entry as text for the terminal, and as files with pictures."""

import difflib
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clustersim.answers import to_json
from clustersim.catalog.files import file_hint
from clustersim.catalog.finding import entry_names
from clustersim.errors import ScenarioError
from clustersim.escaping import escaped
from clustersim.program.schedules import SCHEDULES, Schedule
from clustersim.program.schedules.written import read_schedule
from clustersim.render.tables import format_value, percent
from clustersim.reports.evidence import errors_text
from clustersim.reports.show.answer import FactRow, KernelRow, Page
from clustersim.reports.show.files import write_files
from clustersim.scenario.entries import KINDS, Entry, entry, entry_of_file, kinds_of
from clustersim.suggestions import nearest

if TYPE_CHECKING:
    from rich.table import Table

    from clustersim.metrics.prediction_interval import NearRun
    from clustersim.render.diagram import Diagram


MOST_RUNS: Final = 10
"""Measured runs that are listed on a terminal."""

_BANDWIDTHS = "bandwidths are of payload, per direction"
_REMARKS: Final = {"cluster": _BANDWIDTHS, "node": _BANDWIDTHS, "model": "computed from the shape"}
"""Heading of the derived quantities, by kind of entry."""


def tables(page: Page) -> "list[Table]":
    """Return facts, derived quantities and fits of kernels as tables for the terminal."""
    from rich.table import Table

    made = []
    if page.answer.facts:
        facts = Table(box=None, padding=(0, 2, 0, 0), title_justify="left", header_style="bold")
        facts.add_column("fact", overflow="fold", min_width=18)
        facts.add_column("value", overflow="fold", min_width=10, max_width=34)
        facts.add_column("confidence", no_wrap=True)
        facts.add_column("source", overflow="fold", ratio=1)
        for row in page.answer.facts:
            cells = (row.key, _value(row), row.confidence or "", row.proof)
            facts.add_row(*map(escaped, cells))
        made.append(facts)
    labelled = [row for row in page.derived if row.label]
    if labelled:
        derived = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        derived.add_column("derived", no_wrap=True)
        derived.add_column(_REMARKS.get(page.answer.kind, ""), overflow="fold")
        for quantity in labelled:
            derived.add_row(escaped(quantity.label), escaped(quantity.text))
        made.append(derived)
    if page.answer.kernels:
        made.append(_kernel_table(page.answer.kernels))
    return [*made, _measured_table(page.answer.measured)] if page.answer.measured else made


def _measured_table(runs: "Sequence[NearRun]") -> "Table":
    """Return the first of the measured runs, with the errors of their predictions."""
    from rich.table import Table

    more = f"{len(runs) - MOST_RUNS:,} more in --json" if len(runs) > MOST_RUNS else None
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", caption=more)
    for name in ("measured runs", "predicted over measured", "on"):
        table.add_column(name, overflow="fold")
    for run in runs[:MOST_RUNS]:
        setting = f"{run.devices:,} x {run.accelerator}, {run.software}, {run.layout}"
        table.add_row(*map(escaped, (run.run, errors_text(run), setting)))
    return table


def _value(row: FactRow) -> str:
    """Return a value with its unit; a dash where a file leaves it out."""
    if row.value is None:
        return "-"
    return format_value(row.value) + (f" {row.unit}" if row.unit else "")


def _kernel_table(kernels: Sequence[KernelRow]) -> "Table":
    """Return the fits of measured kernels; errors are of held-out shapes."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("kernels", "format"):
        table.add_column(name, no_wrap=True)
    for name in ("rows", "median error", "90th percentile"):
        table.add_column(name, no_wrap=True, justify="right")
    table.add_column("source", overflow="fold")
    for row in kernels:
        errors = percent(row.median), percent(row.p90)
        source = escaped(", ".join(_repositories(row.source)))
        table.add_row(row.kernel, row.format, str(row.rows), *errors, source)
    return table


def _repositories(source: str) -> list[str]:
    """Return sources without their files.

    >>> _repositories("a/x@1:gemm.parquet, b/y@2 (6 files)")
    ['a/x@1', 'b/y@2']
    """
    return [re.split(r":| \(", one)[0] for one in source.split(", ")]


def write(
    page: Page, pictures: "Mapping[str, Diagram]", folder: Path, *, formats: Sequence[str] = (),
    force: bool = False,
) -> list[str]:  # fmt: skip
    """Write the page and its pictures, as `write_files`."""
    from clustersim.render.matplotlib.diagram import write_diagram

    drawings = {stem: partial(write_diagram, diagram) for stem, diagram in pictures.items()}
    return write_files(folder, to_json(page.answer), drawings, formats=formats, force=force)


def find_entry(name: str) -> Entry | None:
    """Return an entry by its name, ``KIND/NAME`` or file; None for a schedule.

    Raises
    ------
    ScenarioError
        when the name is unknown, with the nearest name of any kind.
    """
    kind, slash, rest = name.partition("/")
    if slash and kind in (*KINDS, "schedule"):
        if kind != "schedule":
            return entry(kind, rest)
        if rest in SCHEDULES:
            return None
    elif Path(name).suffix == ".txt":
        return None
    elif Path(name).suffix in {".yaml", ".yml"} or (slash and Path(name).exists()):
        return entry_of_file(Path(name))
    elif kinds := kinds_of(name):
        return entry(kinds[0], name)
    elif name in SCHEDULES:
        return None
    raise _unknown(rest if kind == "schedule" else name)


def find_schedule(name: str) -> Schedule:
    """Return a schedule by its name, or from a file."""
    shipped = SCHEDULES.get(name.rpartition("/")[2])
    return read_schedule(Path(name)) if shipped is None else shipped


def find_schedules(names: Sequence[str]) -> list[Schedule]:
    """Return schedules by their names, or from files.

    Raises
    ------
    ScenarioError
        when one of the names is not that of a schedule.
    """
    for name in names:
        other = find_entry(name)
        if other is not None:
            raise ScenarioError(
                f"{name}: is a {other.kind}, and only schedules are shown together"
                " (show the others one by one)"
            )
    return [find_schedule(name) for name in names]


def _unknown(name: str) -> ScenarioError:
    """Return the error for an unknown name, with the nearest name of any kind."""
    known = {other: kind for kind in reversed(KINDS) for other in entry_names(kind)}
    known |= dict.fromkeys(SCHEDULES, "schedule")
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close and known[close[0]] == "schedule":
        hint = f"{nearest(name, SCHEDULES)} (known: {', '.join(SCHEDULES)})"
        return ScenarioError(f"{name}: unknown schedule{hint}")
    hint = file_hint(name) or nearest(name, known) or " (see `clustersim list`)"
    return ScenarioError(f"{name}: unknown name{hint}")
