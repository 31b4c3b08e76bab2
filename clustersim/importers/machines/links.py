"""Links and NICs of a node file: between devices, up the PCIe tree, between host bridges.

A library gives each device the NICs that are fewest PCIe links away, so a NIC that is nearest to no
device (for management or storage) carries no traffic between devices and is omitted.  Behind a
crossbar there is no PCIe tree to attach to: a NIC goes to its nearest device, and devices at equal
distance take turns.
"""

from collections.abc import Sequence
from itertools import combinations
from operator import eq
from typing import Any, Final

import networkx as nx

from clustersim import units
from clustersim.importers import draft
from clustersim.importers.draft import as_in, assumed, stated
from clustersim.importers.machines.nearest import Facts, NodeEntry, apart, first_with, host_kind
from clustersim.importers.machines.sketch import End, Nic, Sketch, Wire
from clustersim.records import dataclass

SWITCH: Final = "nvswitch"
"""The end of devices with unequal numbers of links to switches."""

_STAND_IN: Final = {"c2c": "pcie", "nvlink": "xgmi", "xgmi": "nvlink"}
"""The kind that supplies latency and efficiency if the catalogue has none of a kind."""


@dataclass(frozen=True)
class Links:
    """The links of a node file.

    Attributes
    ----------
    sketch : the node as the file states it
    entries : catalogue nodes, the most similar first
    accelerator : the chip
    rate : raw rate of one link of the chip per direction [B/s]
    """

    sketch: Sketch
    entries: Sequence[NodeEntry]
    accelerator: str
    rate: float

    def kinds(self) -> dict[str, Any]:
        """Return the ``kinds`` of a node file."""
        kinds: dict[str, Any] = {}
        if self.sketch.crossbar is not None:
            kinds["nvlink"] = self._to_switch(self.sketch.crossbar)
        for kind in ("nvlink", "xgmi"):
            if wires := [wire for wire in self.sketch.wires if wire.kind == kind]:
                kinds[kind] = self._of_chip(kind, wires)
        for name, kind, wires in _by_rate(self.sketch):
            kinds[name] = self._of_bus(kind, wires)
        if len(self.sketch.hosts) > 1:
            kinds |= self._between_hosts()
        return kinds

    def _to_switch(self, counts: tuple[int, ...]) -> dict[str, Any]:
        """Return links to the switches, which are merged into one end, if their numbers differ."""
        entry, like = switch_like(self.entries)
        half = units.parse(like["latency"]["value"], "seconds") / 2
        between = [[device, SWITCH, count] for device, count in enumerate(counts) if count]
        return {
            "bandwidth": self._raw(),
            "latency": assumed(
                draft.seconds(half), f"not in the file; half of the value of {entry.name}"
            ),
            "efficiency": as_in(like["efficiency"], entry.name),
            "between": stated(between, "to the merged switches"),
        }

    def _of_chip(self, kind: str, wires: Sequence[Wire]) -> dict[str, Any]:
        """Return the links between devices: counts of the file, raw rate of the chip."""
        entry, like = _like(kind, self.entries)
        between = stated([_shown(wire) for wire in wires])
        if any(wire.count == 0 for wire in wires):
            counts, name = self._counts()
            listed = [[w.a, w.b, counts.get(frozenset((w.a, w.b)), 1)] for w in wires]
            between = assumed(listed, f"pairs are from the file; number of links {name}")
        return _facts(self._raw(), like, entry, between)

    def _raw(self) -> Facts:
        if self.sketch.link is not None:
            return stated(draft.bandwidth(self.rate), "of one link")
        reason = f"of one link; not in the file: the raw rate of {self.accelerator}"
        return assumed(draft.bandwidth(self.rate), reason)

    def _counts(self) -> tuple[dict[Any, int], str]:
        """Return the links per pair in the nearest node with this chip, and its name."""
        same = [e for e in self.entries if e.accelerator == self.accelerator and e.pairs]
        return (same[0].pairs, f"as in {same[0].name}") if same else ({}, "unknown: one")

    def _of_bus(self, kind: str, wires: Sequence[Wire]) -> dict[str, Any]:
        """Return links with the rate of the file, or that of the catalogue for their kind."""
        rate = wires[0].bandwidth
        entry, like = _like(kind, self._by_bus(rate))
        bus = as_in(_bus_of(self.entries[0]), self.entries[0].name)
        bandwidth = bus if rate is None else stated(draft.bandwidth(rate))
        return _facts(bandwidth, like, entry, stated([_shown(wire) for wire in wires]))

    def _by_bus(self, rate: float | None) -> list[NodeEntry]:
        """Return nodes ordered by same chip, then by PCIe rate and size."""
        wide = rate or draft.as_bandwidth(_bus_of(self.entries[0]))

        def distance(entry: NodeEntry) -> tuple[bool, float, int]:
            gap = apart(draft.as_bandwidth(_bus_of(entry)), wide)
            other = entry.accelerator != self.accelerator
            return (other, gap, abs(entry.devices - self.sketch.devices))

        return sorted(self.entries, key=distance)

    def _between_hosts(self) -> dict[str, Any]:
        """Return a link between each two host bridges, as NCCL assumes."""
        rates = [wire.bandwidth for wire in self.sketch.tree if wire.bandwidth]
        entry, like = first_with(
            self._by_bus(max(rates, default=None)), host_kind, "link between host bridges"
        )
        pairs = [[a, b] for a, b in combinations(self.sketch.hosts, 2)]
        reason = "not in the file; each two host bridges are linked, as NCCL assumes"
        bandwidth = as_in(like["bandwidth"], entry.name)
        return {like["kind"]: _facts(bandwidth, like, entry, assumed(pairs, reason))}


def _facts(bandwidth: Facts, like: Facts, entry: NodeEntry, between: Facts) -> Facts:
    """Return the facts of links, whose latency and efficiency are those of a catalogue node."""
    others = {key: as_in(like[key], entry.name) for key in ("latency", "efficiency")}
    return {"bandwidth": bandwidth, **others, "between": between}


def switch_like(entries: Sequence[NodeEntry]) -> tuple[NodeEntry, Facts]:
    """Return the nearest node with a crossbar, and its facts."""
    return first_with(
        entries, lambda e: e.data["interconnect"] if e.form == "switch" else None, "crossbar"
    )


def _bus_of(entry: NodeEntry) -> Facts:
    """Return the rate of a node's PCIe links, or of its NICs if it lists none."""
    facts = entry.kinds.get("pcie")
    return dict(facts["bandwidth"] if facts else entry.data["nics"]["bus"])


def _like(kind: str, entries: Sequence[NodeEntry]) -> tuple[NodeEntry, Facts]:
    """Return the nearest node with links of a kind, or with a crossbar or similar links."""

    def facts(entry: NodeEntry) -> Facts | None:
        return entry.kinds.get(kind)

    def similar(entry: NodeEntry) -> Facts | None:
        switched = entry.data["interconnect"] if entry.form == "switch" else None
        return switched if kind != "c2c" and switched else entry.kinds.get(_STAND_IN[kind])

    if kind in _STAND_IN and not any(facts(entry) for entry in entries):
        return first_with(entries, similar, f"links like '{kind}'")
    return first_with(entries, facts, f"links of the kind '{kind}'")


def _by_rate(sketch: Sketch) -> list[tuple[str, str, list[Wire]]]:
    """Return C2C and PCIe links by their rate: (name of the kind in the file, kind, links)."""
    kinds: list[tuple[str, str, list[Wire]]] = []
    for kind in ("c2c", "pcie"):
        wires = [wire for wire in sketch.wires if wire.kind == kind]
        rates = sorted({wire.bandwidth or 0.0 for wire in wires}, reverse=True)
        for rate in rates:
            name = kind if len(rates) == 1 else f"{kind}-{rate / 1e9:.4g}".replace(".", "p")
            kinds.append((name, kind, [w for w in wires if (w.bandwidth or 0.0) == rate]))
    return kinds


def _shown(wire: Wire) -> list[Any]:
    return [wire.a, wire.b] if wire.count == 1 else [wire.a, wire.b, wire.count]


@dataclass(frozen=True)
class Attachment:
    """The NICs of the node file.

    Attributes
    ----------
    ends : the end of each NIC
    buses : their PCIe rates stated in the file [B/s]
    note : names and rates
    remarks : omitted NICs with the reason
    """

    ends: tuple[End, ...]
    buses: tuple[float, ...]
    note: str | None
    remarks: tuple[str, ...]


def attach(sketch: Sketch, *, tree: bool) -> Attachment:
    """Return the NICs of a node in the order of the file, with their ends.

    Parameters
    ----------
    tree : whether the node file has the PCIe tree, so that NICs can be attached to its bridges
    """
    far, nearest = distances(sketch), nearest_nics(sketch)
    nics = [sketch.nics[i] for i in nearest]
    left = [nic.name for i, nic in enumerate(sketch.nics) if i not in nearest]
    ends = [nic.end for nic in nics] if tree else _turns([far[i] for i in nearest])
    remarks = [f"omitted {', '.join(left)}: every device has a nearer NIC"] if left else []
    buses = {nic.bus for nic in nics if nic.bus}
    if len(buses) > 1:
        remarks.append(f"NICs differ in their bus rate: the lowest is used, {_rates(buses)}")
    rates = {nic.rate for nic in nics if nic.rate}
    if len(rates) > 1:
        remarks.append(f"NICs differ in their rate: {_rates(rates)}; a cluster file has one")
    return Attachment(tuple(ends), tuple(sorted(buses)), _note(nics), tuple(remarks))


def nearest_nics(sketch: Sketch) -> list[int]:
    """Return the positions of the NICs that are nearest to a device."""
    far = distances(sketch)
    least = [min(column) for column in zip(*far, strict=True)]
    return [i for i, row in enumerate(far) if any(map(eq, row, least))]


def distances(sketch: Sketch) -> list[list[int]]:
    """Return for each NIC its distance from each device in PCIe links; large if unreachable."""
    graph = nx.Graph([(wire.a, wire.b) for wire in sketch.tree])
    graph.add_edges_from(combinations(sketch.hosts, 2))
    graph.add_nodes_from(nic.end for nic in sketch.nics)
    far = (nx.single_source_shortest_path_length(graph, nic.end) for nic in sketch.nics)
    return [[links.get(device, len(graph)) for device in range(sketch.devices)] for links in far]


def _turns(far: list[list[int]]) -> list[End]:
    """Return for each NIC its nearest device; of several, the one with fewest NICs so far."""
    taken = [0] * max((len(row) for row in far), default=0)
    chosen: list[End] = []
    for row in far:
        near = [device for device, links in enumerate(row) if links == min(row)]
        device = min(near, key=taken.__getitem__)
        taken[device] += 1
        chosen.append(device)
    return chosen


def _note(nics: list[Nic]) -> str | None:
    rates = sorted({nic.rate for nic in nics if nic.rate})
    names = ", ".join(nic.name for nic in nics)
    return f"{names}; {_rates(set(rates))} each" if len(rates) == 1 else names or None


def _rates(values: set[float]) -> str:
    return ", ".join(draft.bandwidth(value) for value in sorted(values))
