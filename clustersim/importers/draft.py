"""A catalogue file under construction: stated values, assumed values, and the final check."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from clustersim import units
from clustersim.catalog.checking import checked
from clustersim.catalog.finding import find, look_up
from clustersim.catalog.reading import Document, Place, plain_copy
from clustersim.catalog.records.machines import ClusterRecord, NodeRecord
from clustersim.catalog.tree import Tree, is_fact
from clustersim.errors import CatalogError
from clustersim.records import dataclass

SOURCE: Final = "import"
"""The key of the imported file in the table of sources."""


@dataclass(frozen=True)
class Choices:
    """Choices of the user that override the nearest match.

    Attributes
    ----------
    name : name of the machine or model, None for that of the file
    accelerator, library, node : names of catalogue entries, None for the nearest match
    folder : a folder whose files override the shipped ones
    cluster, nodes, model : machine and model of a launch file, which does not state them
    devices : of each node of the machine that a job uses, None for those of a launch file
    """

    name: str | None = None
    accelerator: str | None = None
    library: str | None = None
    node: str | None = None
    folder: Path | None = None
    cluster: str | None = None
    nodes: int | None = None
    model: str | None = None
    devices: int | None = None


@dataclass(frozen=True)
class Draft:
    """The plain values of a catalogue file, with remarks for the user.

    Attributes
    ----------
    data : the values as written
    taken : records that are not named in the imported file, with the reason for their choice
    notes : omissions, repairs and anomalies
    """

    data: dict[str, Any]
    taken: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The kind of file: node, cluster or model."""
        return str(self.data["kind"])

    @property
    def assumed(self) -> tuple[str, ...]:
        """Every value that the imported file does not state, with its reason."""
        return (*self.taken, *_assumptions(self.data, ""))


def stated(value: Any, note: str | None = None) -> dict[str, Any]:
    """Return a fact that the imported file states."""
    fact = {"value": value, "source": SOURCE}
    return fact if note is None else {**fact, "note": note}


def as_in(fact: dict[str, Any], entry: str) -> dict[str, Any]:
    """Return a fact of a catalogue entry as an assumption."""
    return assumed(fact["value"], f"not in the file; as in {entry}")


def assumed(value: Any, reason: str) -> dict[str, Any]:
    """Return a fact that the imported file does not state."""
    return {"value": value, "assumed": reason}


def source_table(title: str, file: str) -> dict[str, Any]:
    """Return the table of sources of an imported file."""
    return {SOURCE: {"title": title, "where": Path(file).name}}


def bandwidth(value: float) -> str:
    """Return a rate as written in catalogue files, with seven digits.

    >>> bandwidth(56.25e9)
    '56.25 GB/s'
    """
    return f"{value / 1e9:.7g} GB/s"


def as_bandwidth(fact: dict[str, Any]) -> float:
    """Return the rate of a fact of a catalogue file [B/s]."""
    return units.parse(fact["value"], "bandwidth")


def seconds(value: float) -> str:
    """Return a time as written in catalogue files."""
    return f"{value * 1e6:.7g} us"


def _assumptions(value: Any, where: str) -> Iterator[str]:
    if is_fact(value):
        if "assumed" in value:
            yield f"{where}{_short(value['value'])}: {value['assumed']}"
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _assumptions(item, f"{where}.{key}" if where else key)


def _short(value: Any) -> str:
    """Return a value after its key, with thousands separated; nothing for a list."""
    if isinstance(value, list):
        return ""
    return f" {value:,}" if isinstance(value, int) and value >= 10_000 else f" {value}"


def check(draft: Draft, file: str, folder: Path | None) -> None:
    """Check a draft, with its names resolved as in a scenario.

    Raises
    ------
    CatalogError
        when a name is unknown, or the file describes an invalid machine.
    """
    tree = Tree(plain_copy(draft.data), {(): Place(file)})
    inside = ("node",) if draft.kind == "cluster" else ()
    for path in (inside, (*inside, "accelerator"), (*inside, "library")):
        if path:
            look_up(tree, path, path[-1], folder, _find)
    record = NodeRecord if draft.kind == "node" else ClusterRecord
    checked(record, Tree(tree.data, {(): Place(file)}), CatalogError)


def _find(kind: str, name: str, folder: Path | None, where: str) -> Document:
    """Return the file of a name, which the user chooses by an option."""
    return find(kind, name, folder, f"--{kind}: ")
