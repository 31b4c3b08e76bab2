"""The catalogue entries most similar to a file, which supply its missing values."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from math import log
from pathlib import Path
from typing import Any

from clustersim import units
from clustersim.catalog import finding
from clustersim.errors import CatalogError
from clustersim.importers.machines import hardware
from clustersim.importers.machines.sketch import End, Sketch
from clustersim.records import dataclass

Facts = dict[str, Any]
"""Plain values of a catalogue file, in which a fact is ``{value: ..., source: ...}``."""


def _name(part: str | Facts) -> str:
    """Return the name of a part that a file names or contains."""
    return part if isinstance(part, str) else str(part["name"])


@dataclass(frozen=True)
class NodeEntry:
    """A node of the catalogue."""

    name: str
    data: Facts

    @property
    def accelerator(self) -> str:
        """The name of its chip."""
        return _name(self.data["accelerator"])

    @property
    def library(self) -> str:
        """The name of its collective library."""
        return _name(self.data["library"])

    @property
    def devices(self) -> int:
        """Number of devices."""
        return int(self.data["devices"]["value"])

    @property
    def form(self) -> str:
        """Type of the interconnect: switch, links or none."""
        return str(self.data["interconnect"]["type"])

    @property
    def kinds(self) -> dict[str, Facts]:
        """Links by kind, empty without links."""
        return dict(self.data["interconnect"].get("kinds", {}))

    @property
    def direct(self) -> dict[str, Facts]:
        """Links from device to device, by kind."""
        return {
            kind: facts
            for kind, facts in self.kinds.items()
            if all(isinstance(end, int) for a, b, *_ in facts["between"]["value"] for end in (a, b))
        }

    @property
    def pairs(self) -> dict[frozenset[End], int]:
        """Number of links between each two linked devices."""
        counts: dict[frozenset[End], int] = {}
        for facts in self.kinds.values():
            for a, b, *count in facts["between"]["value"]:
                if isinstance(a, int) and isinstance(b, int):
                    counts[frozenset((a, b))] = count[0] if count else 1
        return counts

    @property
    def network(self) -> str:
        """The kind of its NICs."""
        return str(self.data["nics"].get("network", hardware.ETHERNET))

    @property
    def nics(self) -> list[End]:
        """The end of each NIC."""
        return list(self.data["nics"]["devices"]["value"])


@dataclass(frozen=True)
class ClusterEntry:
    """A cluster of the catalogue with its node."""

    name: str
    data: Facts
    node: NodeEntry

    @property
    def fabric(self) -> str:
        """The type of its fabric."""
        return str(self.data["fabric"]["type"])

    @property
    def nic_rate(self) -> float:
        """Raw bandwidth of a NIC [B/s]."""
        return units.parse(self.data["nic"]["bandwidth"]["value"], "bandwidth")


def node_named(name: str, folder: Path | None = None) -> NodeEntry:
    """Return a node by its name; a file in `folder` overrides a shipped one."""
    document = finding.find("node", name, folder, "--node: ")
    return NodeEntry(name, document.mapping())


@cache
def nodes() -> tuple[NodeEntry, ...]:
    """Return all shipped nodes, by name."""
    return tuple(
        NodeEntry(n, finding.find("node", n).mapping()) for n in finding.entry_names("node")
    )


@cache
def clusters() -> tuple[ClusterEntry, ...]:
    """Return all shipped clusters that name a shipped node, by name."""
    by_name = {entry.name: entry for entry in nodes()}
    entries = []
    for name in finding.entry_names("cluster"):
        data = finding.find("cluster", name).mapping()
        if (node := by_name.get(_name(data["node"]))) is not None:
            entries.append(ClusterEntry(name, data, node))
    return tuple(entries)


def nearest_nodes(accelerators: Sequence[str], form: str, sketch: Sketch) -> list[NodeEntry]:
    """Return all nodes, the most similar first.

    Ordered by chip, then interconnect and kinds of links, then kind of NICs, then number of
    devices, then the order of `accelerators`. Links between host bridges are ignored.
    """
    kinds = frozenset(wire.kind for wire in sketch.wires)
    nics = hardware.adapter_kinds(nic.name for nic in sketch.nics)

    def distance(entry: NodeEntry) -> tuple[int, bool, int, int, int, int, str]:
        known = entry.accelerator in accelerators
        position = accelerators.index(entry.accelerator) if known else len(accelerators)
        host = host_kind(entry)
        other = len(kinds ^ (entry.kinds.keys() - ({host["kind"]} if host else set())))
        return (
            hardware.chip_distance(entry.accelerator, accelerators, sketch.clues.maker),
            entry.form != form,
            other,
            hardware.adapter_distance(entry.network, nics),
            abs(entry.devices - sketch.devices),
            position,
            entry.name,
        )

    return sorted(nodes(), key=distance)


def nearest_clusters(nics: int, rate: float) -> list[ClusterEntry]:
    """Return clusters with a common kind of NICs, the most similar first.

    Ordered by NICs per node, then by their rate [B/s].
    """

    def distance(entry: ClusterEntry) -> tuple[int, float, str]:
        return (abs(len(entry.node.nics) - nics), apart(entry.nic_rate, rate), entry.name)

    common = [entry for entry in clusters() if entry.node.network in hardware.NEUTRAL]
    return sorted(common or clusters(), key=distance)


def nearest_infiniband(nics: int, rate: float) -> NodeEntry | None:
    """Return the InfiniBand node that a file about cables does not describe, None without any.

    The rate of NICs [B/s] states the generation, so it comes before their number per node; of equal
    nodes the one that most clusters of the catalogue have.
    """
    having = [entry for entry in clusters() if entry.node.network == hardware.INFINIBAND]
    uses = Counter(entry.node.name for entry in having)

    def distance(entry: ClusterEntry) -> tuple[float, int, int, str]:
        name = entry.node.name
        return (apart(entry.nic_rate, rate), abs(len(entry.node.nics) - nics), -uses[name], name)

    return min(having, key=distance).node if having else None


def nearest_tree(rate: float) -> ClusterEntry:
    """Return the fat tree with the nearest NIC rate [B/s].

    Raises
    ------
    CatalogError
        when the catalogue has none.
    """
    trees = [entry for entry in clusters() if entry.fabric == "fat-tree"]
    if not trees:
        raise CatalogError(
            "the catalogue has no fat tree to take values from (topologies/clusters)"
        )
    return min(trees, key=lambda entry: (apart(entry.nic_rate, rate), entry.name))


def apart(a: float, b: float) -> float:
    """Return the distance of two rates: the logarithm of their ratio [unitless]."""
    return round(abs(log(a / b)), 3)


def first_with(
    entries: Sequence[NodeEntry], what: Callable[[NodeEntry], Facts | None], missing: str
) -> tuple[NodeEntry, Facts]:
    """Return the first entry with some facts, and these facts.

    Raises
    ------
    CatalogError
        when no entry has them.
    """
    for entry in entries:
        if (facts := what(entry)) is not None:
            return entry, facts
    raise CatalogError(f"the catalogue has no {missing} to take values from (topologies/nodes)")


def host_kind(entry: NodeEntry) -> Facts | None:
    """Return the links between the host bridges of a node with their kind, or None."""
    for kind, facts in entry.kinds.items():
        ends = [end for a, b, *_ in facts["between"]["value"] for end in (a, b)]
        if kind != "pcie" and all(isinstance(end, str) for end in ends):
            return {"kind": kind, **facts}
    return None
