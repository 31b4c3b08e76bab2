"""Links and NICs of a node file: between devices, up the PCIe tree, between host bridges.

A library gives each device the NICs that are fewest PCIe links away, so a NIC that is nearest to no
device (for management or storage) carries no traffic between devices and is omitted.  Behind a
crossbar there is no PCIe tree to attach to: a NIC goes to its nearest device, and devices at equal
distance take turns.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import eq
from typing import Any, Final

from clustersim import units
from clustersim.topology.importers import draft
from clustersim.topology.importers.draft import as_in, assumed, stated
from clustersim.topology.importers.nearest import Facts, NodeEntry, apart, first_with, host_kind
from clustersim.topology.importers.sketch import End, Nic, Sketch, Wire

SWITCH: Final = "nvswitch"
"""The end that devices with unequal numbers of links to switches hang on."""

_STAND_IN: Final = {"c2c": "pcie", "nvlink": "xgmi", "xgmi": "nvlink"}
"""The kind whose latency and efficiency serve where the catalogue has none of a kind."""


@dataclass(frozen=True)
class Links:
    """The links of a node on their way into a file.

    Attributes
    ----------
    sketch : what the file says
    entries : nodes of the catalogue, the most similar first
    accelerator : the chip
    rate : raw rate of one of the chip's links in one direction [B/s]
    """

    sketch: Sketch
    entries: Sequence[NodeEntry]
    accelerator: str
    rate: float

    def kinds(self) -> dict[str, Any]:
        """Return the ``kinds`` of a node file."""
        found: dict[str, Any] = {}
        if self.sketch.crossbar is not None:
            found["nvlink"] = self._to_switch(self.sketch.crossbar)
        for kind in ("nvlink", "xgmi"):
            if wires := [wire for wire in self.sketch.wires if wire.kind == kind]:
                found[kind] = self._of_chip(kind, wires)
        for name, kind, wires in _by_rate(self.sketch):
            found[name] = self._of_bus(kind, wires)
        if len(self.sketch.hosts) > 1:
            found |= self._between_hosts()
        return found

    def _to_switch(self, counts: tuple[int, ...]) -> dict[str, Any]:
        """Return links of unequal numbers to the switches, taken together as one end."""
        entry, like = switch_like(self.entries)
        half = units.parse(like["latency"]["value"], "seconds") / 2
        between = [[device, SWITCH, count] for device, count in enumerate(counts) if count]
        return {
            "bandwidth": self._raw(),
            "latency": assumed(
                draft.seconds(half), f"not in the file; half of that in {entry.name}"
            ),
            "efficiency": as_in(like["efficiency"], entry.name),
            "between": stated(between, "to the switches taken together"),
        }

    def _of_chip(self, kind: str, wires: Sequence[Wire]) -> dict[str, Any]:
        """Return the links between devices, counted in the file, at their chip's raw rate."""
        entry, like = _like(kind, self.entries)
        between = stated([_shown(wire) for wire in wires])
        if any(wire.count == 0 for wire in wires):
            counts, name = self._counts()
            listed = [[w.a, w.b, counts.get(frozenset((w.a, w.b)), 1)] for w in wires]
            between = assumed(listed, f"the pairs are the file's; how many links each has {name}")
        return {
            "bandwidth": self._raw(),
            "latency": as_in(like["latency"], entry.name),
            "efficiency": as_in(like["efficiency"], entry.name),
            "between": between,
        }

    def _raw(self) -> Facts:
        reason = f"of one link; not in the file: the raw rate of {self.accelerator}"
        return assumed(draft.bandwidth(self.rate), reason)

    def _counts(self) -> tuple[dict[Any, int], str]:
        """Return the links of each pair in the nearest node with that chip, and where that is."""
        same = [e for e in self.entries if e.accelerator == self.accelerator and e.pairs]
        return (same[0].pairs, f"as in {same[0].name}") if same else ({}, "is unknown: one")

    def _of_bus(self, kind: str, wires: Sequence[Wire]) -> dict[str, Any]:
        """Return links whose rate the file states, or the catalogue's links of that kind."""
        rate = wires[0].bandwidth
        entry, like = _like(kind, self._by_bus(rate))
        return {
            "bandwidth": self._bus() if rate is None else stated(draft.bandwidth(rate)),
            "latency": as_in(like["latency"], entry.name),
            "efficiency": as_in(like["efficiency"], entry.name),
            "between": stated([_shown(wire) for wire in wires]),
        }

    def _bus(self) -> Facts:
        """Return the rate of a PCIe link: of the nearest node's devices, or else of its NICs."""
        return as_in(_bus_of(self.entries[0]), self.entries[0].name)

    def _by_bus(self, rate: float | None) -> list[NodeEntry]:
        """Return the nodes with the same chip first, then by the rate of their PCIe and size."""
        wide = rate or draft.as_bandwidth(_bus_of(self.entries[0]))

        def unlike(entry: NodeEntry) -> tuple[bool, float, int]:
            gap = apart(draft.as_bandwidth(_bus_of(entry)), wide)
            other = entry.accelerator != self.accelerator
            return (other, gap, abs(entry.devices - self.sketch.devices))

        return sorted(self.entries, key=unlike)

    def _between_hosts(self) -> dict[str, Any]:
        """Return a link between each two host bridges, as NCCL assumes where there are several."""
        rates = [wire.bandwidth for wire in self.sketch.tree if wire.bandwidth]
        entry, like = first_with(
            self._by_bus(max(rates, default=None)), host_kind, "link between host bridges"
        )
        pairs = [[a, b] for a, b in combinations(self.sketch.hosts, 2)]
        keys = ("bandwidth", "latency", "efficiency")
        reason = "not in the file; every two host bridges are joined, as NCCL takes them"
        facts = {key: as_in(like[key], entry.name) for key in keys}
        return {like["kind"]: {**facts, "between": assumed(pairs, reason)}}


def switch_like(entries: Sequence[NodeEntry]) -> tuple[NodeEntry, Facts]:
    """Return the nearest node with a crossbar, and its facts."""
    return first_with(
        entries, lambda e: e.data["interconnect"] if e.form == "switch" else None, "crossbar"
    )


def _bus_of(entry: NodeEntry) -> Facts:
    """Return the rate of a node's PCIe links, of its NICs where it lists no others."""
    facts = entry.kinds.get("pcie")
    return dict(facts["bandwidth"] if facts else entry.data["nics"]["bus"])


def _like(kind: str, entries: Sequence[NodeEntry]) -> tuple[NodeEntry, Facts]:
    """Return the nearest node with links of a kind, else with a crossbar or what stands in."""

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
    found: list[tuple[str, str, list[Wire]]] = []
    for kind in ("c2c", "pcie"):
        wires = [wire for wire in sketch.wires if wire.kind == kind]
        rates = sorted({wire.bandwidth or 0.0 for wire in wires}, reverse=True)
        for rate in rates:
            name = kind if len(rates) == 1 else f"{kind}-{rate / 1e9:.4g}".replace(".", "p")
            found.append((name, kind, [w for w in wires if (w.bandwidth or 0.0) == rate]))
    return found


def _shown(wire: Wire) -> list[Any]:
    return [wire.a, wire.b] if wire.count == 1 else [wire.a, wire.b, wire.count]


@dataclass(frozen=True)
class Attachment:
    """The NICs that are kept.

    Attributes
    ----------
    ends : what each hangs on
    buses : the PCIe rates that the file states for them [B/s]
    note : their names and rates
    remarks : what was left out, and why
    """

    ends: tuple[End, ...]
    buses: tuple[float, ...]
    note: str | None
    remarks: tuple[str, ...]


def attach(sketch: Sketch, *, drawn: bool) -> Attachment:
    """Return the NICs of a node in the order of the file, and where they hang.

    Parameters
    ----------
    drawn : whether the node file has the PCIe tree, so that NICs can hang on its bridges
    """
    far = distances(sketch)
    least = [min(column) for column in zip(*far, strict=True)]
    kept = [i for i, row in enumerate(far) if any(map(eq, row, least))]
    nics = [sketch.nics[i] for i in kept]
    left = [nic.name for i, nic in enumerate(sketch.nics) if i not in kept]
    ends = [nic.end for nic in nics] if drawn else _turns([far[i] for i in kept])
    remarks = [f"left out {', '.join(left)}: every device has a nearer NIC"] if left else []
    buses = {nic.bus for nic in nics if nic.bus}
    if len(buses) > 1:
        remarks.append(f"NICs differ in their bus: the narrowest counts, {_rates(buses)}")
    rates = {nic.rate for nic in nics if nic.rate}
    if len(rates) > 1:
        remarks.append(f"NICs differ in their rate: {_rates(rates)}; a cluster file has one")
    return Attachment(tuple(ends), tuple(sorted(buses)), _note(nics), tuple(remarks))


def distances(sketch: Sketch) -> list[list[int]]:
    """Return for each NIC how many PCIe links each device is away, or a large number."""
    beside: dict[End, list[End]] = {}
    hosts = [Wire(a, b, "host") for a, b in combinations(sketch.hosts, 2)]
    for wire in (*sketch.tree, *hosts):
        beside.setdefault(wire.a, []).append(wire.b)
        beside.setdefault(wire.b, []).append(wire.a)
    return [_from(nic.end, beside, sketch.devices) for nic in sketch.nics]


def _from(start: End, beside: dict[End, list[End]], devices: int) -> list[int]:
    reached: dict[End, int] = {start: 0}
    front = deque([start])
    while front:
        end = front.popleft()
        for other in beside.get(end, ()):
            if other not in reached:
                reached[other] = reached[end] + 1
                front.append(other)
    nowhere = len(beside) + 1
    return [reached.get(device, nowhere) for device in range(devices)]


def _turns(far: list[list[int]]) -> list[End]:
    """Return for each NIC its nearest device; of several the one with the fewest NICs so far."""
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
