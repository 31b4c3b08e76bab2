"""Every number that went into a run with its proof, and the scenario itself."""

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final

from clustersim.catalog.tree import Tree
from clustersim.catalog.writing import to_yaml
from clustersim.render.page.page import Column, Listing, Section, Table
from clustersim.render.tables import counted, percent
from clustersim.studies.show.answer import FactRow, fact_rows
from clustersim.studies.show.text import format_value

RECORDS: Final = (
    ("cluster",),
    ("cluster", "node", "accelerator"),
    ("cluster", "node", "library"),
    ("model",),
    ("framework",),
)
"""Where the records of the catalogue stand in a scenario whose names are looked up."""


_NOT_USED: Final = ("published", "scaling")
"""Keys of a scenario that no number of a run rests on."""


def sources(tree: Tree) -> Section:
    """Return all values of a scenario and of what it names, with where they are from."""
    rows = list(_rows(tree))
    files = {".".join(path) for path in RECORDS} | {"cluster.node"}
    assumed = sum(row.assumed is not None for row in rows)
    read = sum(row.source is not None and row.key not in files for row in rows)
    said = (
        f"Of {counted(len(rows), 'value')}, {read:,} are read in a source"
        f" ({percent(read / len(rows))}) and {assumed:,} assumed for the reason that is given; the"
        " others are stated by the file that is named, because they say what is run or how a thing"
        " is built."
    )
    columns = Column("what"), Column("value"), Column("confidence"), Column("from")
    lines = tuple(
        (
            row.key,
            format_value(row.value),
            row.confidence or "",
            row.proof or _stated(row.key, tree),
        )
        for row in rows
    )
    table = Table("Values of the scenario, the machine, the model and the software", columns, lines,
                  filter="Show rows with")  # fmt: skip
    return Section("Sources and assumptions", "sources", (said,), (table,))


def scenario(tree: Tree, text: str) -> Section:
    """Return the scenario with all names looked up, and as it is written if that is at hand."""
    said = "Names are looked up and settings laid on top, so this file alone runs anywhere."
    full = Listing("The scenario with all names looked up", to_yaml(tree.data))
    given = [Listing("The scenario as it is written", text)] if text else []
    return Section("The scenario", "scenario", (said,), (*given, full))


def _rows(tree: Tree) -> Iterator[FactRow]:
    """Yield the scenario's own values, then those of each record it names.

    The reason that a scenario gives for a value is no reason for another that is set over it.
    """
    for row in fact_rows({key: tree.data[key] for key in tree.data if key not in _NOT_USED}):
        is_set = _stated(row.key, tree).startswith("--set")
        yield row._replace(assumed=None, note=None) if is_set else row
    for path in RECORDS:
        record: Any = tree.data
        for key in path:
            record = record.get(key) if isinstance(record, Mapping) else None
        if isinstance(record, Mapping):
            yield from fact_rows(record, ".".join(path))


def _stated(key: str, tree: Tree) -> str:
    """Return the file and line that state a value, or the option that does."""
    path = tuple(
        int(part) if part.isdecimal() else part
        for part in key.replace("[", ".").replace("]", "").split(".")
    )
    place = tree.place(path)
    if place.file.startswith("--set"):
        return place.file
    name = PurePath(place.file).name  # of where it lies on this machine, no more
    return name if place.line is None else f"{name}:{place.line}"


__all__ = ["scenario", "sources"]
