"""A catalogue file being filled: what the file says, what is assumed, and a check of the whole."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clustersim import units
from clustersim.catalog import finding
from clustersim.catalog.checking import checked
from clustersim.catalog.reading import Place
from clustersim.catalog.records import ClusterRecord, NodeRecord
from clustersim.catalog.tree import Tree, is_fact
from clustersim.errors import CatalogError

SOURCE: Final = "import"
"""The key of the imported file in the table of sources."""


@dataclass(frozen=True)
class Choices:
    """What the user decides instead of the catalogue.

    Attributes
    ----------
    name : of the machine
    accelerator, library, node : names of the catalogue, None to take the nearest
    beside : a folder whose files win over shipped ones
    """

    name: str
    accelerator: str | None = None
    library: str | None = None
    node: str | None = None
    beside: Path | None = None


@dataclass(frozen=True)
class Draft:
    """The plain values of a catalogue file, with what the user should know about them.

    Attributes
    ----------
    data : as they are written
    taken : the records that are named in it but not in the imported file, and why these
    notes : what the reader left out, repaired or found odd
    """

    data: dict[str, Any]
    taken: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The kind of file: node or cluster."""
        return str(self.data["kind"])

    @property
    def assumed(self) -> list[str]:
        """Every value that the imported file does not state, with the reason for it."""
        return [*self.taken, *_assumptions(self.data, "")]


def stated(value: Any, note: str | None = None) -> dict[str, Any]:
    """Return a fact that the imported file states."""
    fact = {"value": value, "source": SOURCE}
    return fact if note is None else {**fact, "note": note}


def as_in(fact: dict[str, Any], entry: str) -> dict[str, Any]:
    """Return a fact of the catalogue for a value that the imported file does not state."""
    return assumed(fact["value"], f"not in the file; as in {entry}")


def assumed(value: Any, reason: str) -> dict[str, Any]:
    """Return a fact that the imported file does not state."""
    return {"value": value, "assumed": reason}


def sources(title: str, file: str) -> dict[str, Any]:
    """Return the table of sources of an imported file."""
    return {SOURCE: {"title": title, "where": Path(file).name}}


def bandwidth(value: float) -> str:
    """Return a rate as a catalogue file writes it, to a millionth.

    >>> bandwidth(56.25e9)
    '56.25 GB/s'
    """
    return f"{value / 1e9:.7g} GB/s"


def as_bandwidth(fact: dict[str, Any]) -> float:
    """Return the rate that a fact of a catalogue file states [B/s]."""
    return units.parse(fact["value"], "bandwidth")


def seconds(value: float) -> str:
    """Return a time as a catalogue file writes it."""
    return f"{value * 1e6:.7g} us"


def _assumptions(value: Any, where: str) -> Iterator[str]:
    if is_fact(value):
        if "assumed" in value:
            short = "" if isinstance(value["value"], list) else f" {value['value']}"
            yield f"{where}{short}: {value['assumed']}"
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _assumptions(item, f"{where}.{key}" if where else key)


def complete(draft: Draft, file: str, beside: Path | None) -> NodeRecord | ClusterRecord:
    """Return the checked record of a draft, its names looked up as a scenario does.

    Raises
    ------
    CatalogError
        when a name is in no catalogue, or the file describes a machine that cannot be.
    """
    tree = Tree({draft.kind: dict(draft.data)}, {(): Place(file)})
    if draft.kind == "node":
        _look_up(tree, ("node",), beside)
    else:
        _look_up(tree, ("cluster", "node"), beside, outer=True)
    record: type[NodeRecord | ClusterRecord]
    record = NodeRecord if draft.kind == "node" else ClusterRecord
    return checked(record, Tree(tree.data[draft.kind], {(): Place(file)}), CatalogError)


def _look_up(
    tree: Tree, path: tuple[str, ...], beside: Path | None, *, outer: bool = False
) -> None:
    """Put the records of the catalogue in the place of their names, below and at `path`."""
    owner = tree.data
    for part in path[:-1]:
        owner = owner[part]
    if outer:
        _graft(tree, owner, path, "node", beside)
    node = owner[path[-1]]
    for kind in ("accelerator", "library"):
        _graft(tree, node, (*path, kind), kind, beside)


def _graft(
    tree: Tree, owner: dict[str, Any], path: tuple[str, ...], kind: str, beside: Path | None
) -> None:
    given = owner[path[-1]]
    given = {"name": given} if isinstance(given, str) else dict(given)
    owner[path[-1]] = given
    if "kind" not in given:
        tree.graft(path, finding.find(kind, given["name"], beside, f"--{kind}: "))
