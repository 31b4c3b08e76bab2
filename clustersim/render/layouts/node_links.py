r"""Layouts of nodes with direct links: a mesh on a circle, or switches in rows above the devices.

          host               switches that lead to other switches are at the top
         /    \
      pcie0  pcie1           switches with devices
      /  \    /  \
    gpu0 nic0 gpu1 gpu2      links from device to device are arcs below
      \_________/
"""

from collections.abc import Iterator
from itertools import permutations
from math import pi, sin
from typing import Final, NamedTuple

import numpy as np

from clustersim.catalog.records.machines import DeviceLinks, DeviceSwitch, NicFacts, NodeRecord
from clustersim.render.diagram import (
    DEVICE,
    NIC,
    SWITCH,
    Box,
    Note,
    Point,
    Sketch,
    Wire,
    arc,
    around,
    gigabytes,
    labels,
    levels,
    whole,
)
from clustersim.topology.node import End, end_name

BUS: Final = "bus to NIC"

MOST_LABELS: Final = 16
"""Links up to which each has a label; of more, only kinds that differ in width."""


class Inner(NamedTuple):
    """Equal links side by side between two ends of a node, their total raw rate [B/s]."""

    a: End
    b: End
    kind: str
    bandwidth: float
    label: str


def inner_links(record: NodeRecord) -> list[Inner]:
    """Return the direct links of a node; links of one kind between two ends are one."""
    sums: dict[tuple[End, End, str], float] = {}
    if isinstance(record.interconnect, DeviceLinks):
        for kind, facts in record.interconnect.kinds.items():
            for a, b, *count in facts.between:
                ends = (b, a, kind) if (b, a, kind) in sums else (a, b, kind)
                width = facts.bandwidth * (count[0] if count else 1)
                sums[ends] = sums.get(ends, 0.0) + width
    widths: dict[str, set[float]] = {}
    for (_, _, kind), width in sums.items():
        widths.setdefault(kind, set()).add(width)
    few = len(sums) <= MOST_LABELS
    return [
        Inner(a, b, kind, width, gigabytes(width) if few or len(widths[kind]) > 1 else "")
        for (a, b, kind), width in sums.items()
    ]


def named_ends(record: NodeRecord) -> list[str]:
    """Return the switches and host bridges of a node, in the order of their first use."""
    ends = [end for link in inner_links(record) for end in (link.a, link.b)]
    return list(dict.fromkeys(end for end in ends if isinstance(end, str)))


def legend(record: NodeRecord) -> Iterator[tuple[str, str]]:
    """Yield each kind of link with its text in the legend."""
    inside = record.interconnect
    if isinstance(inside, DeviceLinks):
        for kind, facts in inside.kinds.items():
            rate, payload = gigabytes(facts.bandwidth), whole(facts.efficiency)
            yield kind, f"{kind}: {rate} GB/s a link, {payload} of it payload"
    elif isinstance(inside, DeviceSwitch):
        rate, payload = gigabytes(inside.bandwidth), whole(inside.efficiency)
        yield "crossbar", f"crossbar: {rate} GB/s a device, {payload} of it payload"
    yield BUS, f"{BUS}: {gigabytes(record.nics.bus)} GB/s"


MOST_ORDERS: Final = 8
"""Devices up to which every order around the circle is tried; more are placed by number."""


def mesh(record: NodeRecord, nic: NicFacts | None) -> Sketch:
    """Return the node with its devices around a circle and their NICs outside."""
    count, links = record.devices, inner_links(record)
    grow = max(1.0, count / 8)
    wide, high = 2.75 * grow, 1.95 * grow
    turns = {device: (i + 0.5) / count for i, device in enumerate(rim(count, links))}
    at = {device: around(0, 0, wide, high, turn) for device, turn in turns.items()}
    sketch = Sketch(
        [Box(*at[d], 0.86, 0.36, f"device {d}", DEVICE) for d in range(count)],
        [_chord(at, link) for link in links],
    )
    owners, bus = record.nics.devices, record.nics.bus
    for i, end in enumerate(owners):
        assert isinstance(end, int)
        own = [k for k, other in enumerate(owners) if other == end]
        spread = (own.index(i) - (len(own) - 1) / 2) * 0.45 / count
        place = around(0, 0, wide + 1.6, high + 0.85, turns[end] + spread)
        sketch.boxes.append(Box(*place, 0.8, 0.42 if nic else 0.3, nic_text(i, nic), NIC, 7.5))
        sketch.wires.append(
            Wire((at[end], place), BUS, bus, gigabytes(bus), ends=(end_name(end), f"nic{i}"))
        )
    sketch.notes += labels(sketch)
    return sketch


def nic_text(number: int, nic: NicFacts | None) -> str:
    """Return the text of a NIC."""
    return f"NIC {number}" if nic is None else f"NIC {number}\n{gigabytes(nic.bandwidth)} GB/s"


def _chord(at: dict[int, tuple[float, float]], link: Inner) -> Wire:
    assert isinstance(link.a, int)
    assert isinstance(link.b, int)
    ends = end_name(link.a), end_name(link.b)
    return Wire((at[link.a], at[link.b]), link.kind, link.bandwidth, link.label, ends=ends)


def rim(count: int, links: list[Inner]) -> tuple[int, ...]:
    """Return the order of devices around a circle that keeps the least bandwidth times length.

    The first of equally good orders, so that a mesh of equal links stands by number.
    """
    if count > MOST_ORDERS:
        return tuple(range(count))
    chord = np.array([sin(pi * i / count) for i in range(count)])
    orders = np.array([(0, *rest) for rest in permutations(range(1, count))])
    place = np.argsort(orders, axis=1)
    length = np.zeros(len(orders))
    for link in links:
        length += link.bandwidth * chord[abs(place[:, int(link.a)] - place[:, int(link.b)])]
    return tuple(orders[np.round(length, 3).argmin()].tolist())


STEP: Final = 1.2
"""Distance between rows [in]."""

ROOMY: Final = 0.9
"""A column in which a device has room for its name; in narrower ones it has a number [in]."""

DEEPEST: Final = 2.4
"""Space for arcs below the devices [in]."""


Leaf = End | tuple[str, int]
"""A device, or NIC i as ``("nic", i)``."""


def device_row(record: NodeRecord, nic: NicFacts | None) -> Sketch:
    """Return the node with its devices in a row and its switches above."""
    links, leaves = inner_links(record), _leaves(record)
    pitch = min(1.35, 13.0 / len(leaves))
    at: dict[Leaf, Point] = {leaf: (pitch * i, 0.0) for i, leaf in enumerate(leaves)}
    level = _levels(record, links)
    for end in sorted(level, key=level.__getitem__):
        below = [at[b][0] for b in _below(end, links, level, record) if b in at]
        at[end] = sum(below) / len(below), STEP * level[end]
    owners, bus = record.nics.devices, record.nics.bus
    label = gigabytes(bus)
    widest = max((abs(at[k.a][0] - at[k.b][0]) for k in links if _is_arc(k)), default=0.0)
    floor = -0.85 - (_depth(widest, widest) if widest else 0.0)
    for i in range(len(owners)):
        at.setdefault(("nic", i), (_nic_place(owners, i, at, pitch), floor))
    sketch = Sketch(_boxes(record, nic, at, pitch), [_wire(at, link, widest) for link in links])
    sketch.wires += [
        Wire((at[owner], at["nic", i]), BUS, bus, label, ends=(end_name(owner), f"nic{i}"))
        for i, owner in enumerate(owners)
    ]
    if pitch <= ROOMY:
        sketch.notes.append(Note(-pitch, 0, "devices", 8, "right", True))
    sketch.notes += labels(sketch)
    return sketch


def _levels(record: NodeRecord, links: list[Inner]) -> dict[End, int]:
    """Return the row of each switch: its distance from the nearest device."""
    up = [(link.a, link.b) for link in links if not _is_arc(link)]
    level: dict[End, int] = levels(up, range(record.devices))
    top = max(level.values())
    return {end: level.get(end, top + 1) for end in named_ends(record)}


def _below(end: End, links: list[Inner], level: dict[End, int], record: NodeRecord) -> list[Leaf]:
    """Return the devices and switches below a switch."""
    found: list[Leaf] = []
    for link in links:
        if end in (link.a, link.b):
            other = link.b if link.a == end else link.a
            if level.get(other, 0) < level[end]:
                found.append(other)
    return found + [("nic", i) for i, owner in enumerate(record.nics.devices) if owner == end]


def _leaves(record: NodeRecord) -> list[Leaf]:
    """Return devices and NICs of switches from left to right: connected ones next to each other."""
    links = inner_links(record)
    level = _levels(record, links)
    leaves: dict[Leaf, None] = {}

    def gather(end: Leaf) -> None:
        if end in level:
            for each in _below(end, links, level, record):
                gather(each)
        else:
            leaves.setdefault(end)

    for end in sorted(level, key=lambda e: -level[e]):
        gather(end)
    for device in range(record.devices):
        leaves.setdefault(device)
    return list(leaves)


def _is_arc(link: Inner) -> bool:
    return isinstance(link.a, int) and isinstance(link.b, int)


def _depth(span: float, widest: float) -> float:
    """Return the depth of an arc of width `span`; the widest of the node has `widest` [in]."""
    return 0.25 + min(0.25 * widest, DEEPEST) * span / widest


def _wire(at: dict[Leaf, Point], link: Inner, widest: float) -> Wire:
    a, b = sorted((at[link.a], at[link.b]))
    points: tuple[Point, ...] = (a, b)
    if _is_arc(link):
        points = arc(a, b, -_depth(b[0] - a[0], widest))
    ends = end_name(link.a), end_name(link.b)
    return Wire(points, link.kind, link.bandwidth, link.label, ends=ends)


def _nic_place(owners: list[End], nic: int, at: dict[Leaf, Point], pitch: float) -> float:
    """Return the place of a NIC: below its device, next to the other NICs of the device."""
    own = [i for i, owner in enumerate(owners) if owner == owners[nic]]
    return at[owners[nic]][0] + (own.index(nic) - (len(own) - 1) / 2) * 0.98 * pitch


def _boxes(
    record: NodeRecord, nic: NicFacts | None, at: dict[Leaf, Point], pitch: float
) -> list[Box]:
    wide, roomy = 0.8 * pitch, pitch > ROOMY
    devices = [
        Box(*at[d], wide, 0.38, f"device {d}" if roomy else f"{d}", DEVICE, 8.0 if roomy else 7.0)
        for d in range(record.devices)
    ]
    switches = [Box(*at[e], max(wide, 0.09 * len(e)), 0.36, e, SWITCH) for e in named_ends(record)]
    nics = [
        Box(*at["nic", i], min(wide, 0.9), 0.42 if nic else 0.3, nic_text(i, nic), NIC, 7.5)
        for i in range(len(record.nics.devices))
    ]
    return [*devices, *switches, *nics]
