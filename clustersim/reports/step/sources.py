"""The source of every value of a run, and the scenario itself."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Final

from clustersim.catalog.tree import Tree
from clustersim.catalog.writing import to_yaml
from clustersim.render.charts.picture import Column, Table
from clustersim.render.page.page import Listing, Section
from clustersim.render.tables import percent
from clustersim.render.words import format_value
from clustersim.reports.show import FactRow, fact_rows
from clustersim.units import counted

RECORDS: Final = (
    ("cluster",),
    ("cluster", "node", "accelerator"),
    ("cluster", "node", "library"),
    ("model",),
    ("framework",),
    ("engine",),
)
"""Places of the catalogue records in a scenario in which all names are resolved."""

_UNUSED: Final = ("published", "scaling")
"""Keys of a scenario that no result of a run depends on."""


def sources_section(tree: Tree) -> Section:
    """Return all values of a scenario and of its records, each with its source."""
    rows = list(_rows(tree))
    records = {".".join(path) for path in RECORDS} | {"cluster.node"}
    assumed = sum(row.assumed is not None for row in rows)
    sourced = sum(row.source is not None and row.key not in records for row in rows)
    text = (
        f"Of {counted(len(rows), 'value')}, {sourced:,} have a source"
        f" ({percent(sourced / len(rows))}) and {assumed:,} are assumed, with the reason. The"
        " remaining values define the run or the structure of a component; the file that sets them"
        " is given."
    )
    columns = Column("key"), Column("value"), Column("confidence"), Column("source or reason")
    lines = tuple(
        (row.key, format_value(row.value), row.confidence or "", row.proof or _place(row.key, tree))
        for row in rows
    )
    table = Table("Values of the scenario, the machine, the model and the software", columns, lines,
                  filter="Filter rows by words")  # fmt: skip
    return Section("Sources and assumptions", "sources", (text,), (table,))


def scenario(tree: Tree, text: str) -> Section:
    """Return the scenario with all names resolved, and the text of its file if there is one."""
    prose = "With all names resolved and all settings applied, so this file alone can be run."
    resolved = Listing("Scenario with all names resolved", to_yaml(tree.data))
    original = [Listing("Scenario file", text)] if text else []
    return Section("Scenario", "scenario", (prose,), (*original, resolved))


def _rows(tree: Tree) -> Iterator[FactRow]:
    """Yield the scenario's own values, then those of each of its records.

    The reason that a scenario gives for a value does not apply to a value set in its place.
    """
    for row in fact_rows({key: tree.data[key] for key in tree.data if key not in _UNUSED}):
        is_set = _place(row.key, tree).startswith("--set")
        yield replace(row, assumed=None, note=None) if is_set else row
    for path in RECORDS:
        record: Any = tree.data
        for key in path:
            record = record.get(key) if isinstance(record, Mapping) else None
        if isinstance(record, Mapping):
            yield from fact_rows(record, ".".join(path))


def _place(key: str, tree: Tree) -> str:
    """Return the file and line that set a value, or the option."""
    path = tuple(
        int(part) if part.isdecimal() else part
        for part in key.replace("[", ".").replace("]", "").split(".")
    )
    place = tree.place(path)
    if place.file.startswith("--set"):
        return place.file
    name = PurePath(place.file).name  # without the folder, which is private
    return name if place.line is None else f"{name}:{place.line}"
