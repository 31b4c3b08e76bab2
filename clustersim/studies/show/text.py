"""A catalogue entry as a page: its facts with their proof, and what follows from them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from clustersim.catalog.records import ClusterRecord, NodeRecord
from clustersim.errors import ScenarioError
from clustersim.studies.show.derived import Derived, derived_of, derived_of_cluster
from clustersim.studies.show.facts import FactRow, fact_rows, written
from clustersim.studies.show.profile import Told, told

if TYPE_CHECKING:
    from rich.table import Table

    from clustersim.render.diagram import Diagram
    from clustersim.scenario.entries import Entry
    from clustersim.topology.measures import Measures


@dataclass(frozen=True)
class Page:
    """All that `clustersim show` tells of one entry; `words` of a framework only."""

    name: str
    kind: str
    title: str
    facts: tuple[FactRow, ...]
    derived: tuple[Derived, ...]
    words: tuple[Told, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the page as plain values for scripts."""
        return {
            "name": self.name,
            "kind": self.kind,
            "title": self.title,
            "facts": [row._asdict() for row in self.facts],
            "derived": {row.key: row.value for row in self.derived},
            **({"words": [each._asdict() for each in self.words]} if self.words else {}),
        }


def page(entry: "Entry", measures: "Measures | None" = None) -> Page:
    """Return the page of an entry; `measures` are those of a cluster."""
    derived = derived_of(entry.record) if measures is None else derived_of_cluster(measures)
    rows = tuple(fact_rows(entry.data))
    words = told(entry.data) if entry.kind == "framework" else ()
    return Page(entry.name, entry.kind, entry.title, rows, tuple(derived), words)


def look(entry: "Entry", nodes: int | None = None) -> tuple[Page, dict[str, "Diagram"]]:
    """Return the page of a cluster or a node, and its pictures by the stem of their files.

    Raises
    ------
    ScenarioError
        when a cluster has fewer than `nodes` nodes.
    """
    from clustersim.render import layouts
    from clustersim.topology.measures import measure

    record = entry.record
    if not isinstance(record, ClusterRecord):
        assert isinstance(record, NodeRecord)
        return page(entry), {"node": layouts.node(record)}
    size = record.size.value
    if nodes is not None and nodes > size:
        raise ScenarioError(f"--nodes {nodes}: {entry.name} has {size:,} nodes")
    cluster, measures = measure(record, nodes or size)
    pictures = {
        "node": layouts.node(record.node, record.nic),
        "fabric": layouts.fabric(record, cluster, measures),
    }
    return page(entry, measures), pictures


_BANDWIDTHS = "bandwidths are of payload, per direction"
_REMARKS: Final = {"cluster": _BANDWIDTHS, "node": _BANDWIDTHS, "model": "by its shape"}
"""What is said above what follows from the facts, by kind of entry."""


def tables(shown: Page) -> "list[Table]":
    """Return facts, and what follows from them, for a terminal or a pipe."""
    from rich.table import Table

    made = []
    if shown.facts:
        facts = Table(box=None, padding=(0, 2, 0, 0), title_justify="left", header_style="bold")
        facts.add_column("fact", overflow="fold", min_width=18)
        facts.add_column("value", overflow="fold", min_width=10, max_width=34)
        facts.add_column("confidence", no_wrap=True)
        facts.add_column("source", overflow="fold", ratio=1)
        for row in shown.facts:
            facts.add_row(row.key, written(row.value), row.confidence or "", row.proof)
        made.append(facts)
    follows = [row for row in shown.derived if row.label]
    if follows:
        derived = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        derived.add_column("derived", no_wrap=True)
        derived.add_column(_REMARKS.get(shown.kind, ""), overflow="fold")
        for each in follows:
            derived.add_row(each.label, each.text)
        made.append(derived)
    return made


__all__ = ["Page", "look", "page", "tables"]
