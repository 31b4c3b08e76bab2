r"""Switches and host bridges in rows above the devices that they lead to.

          host               what leads to other switches is above them
         /    \
      pcie0  pcie1           switches that devices hang on
      /  \    /  \
    gpu0 nic0 gpu1 gpu2      links from device to device are arcs below
      \_________/
"""

from typing import Final

from clustersim.catalog.records import NicFacts, NodeRecord
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
    gigabytes,
    labels,
)
from clustersim.render.layouts.inside import BUS, Inner, inner_links, named_ends
from clustersim.render.layouts.mesh import nic_text
from clustersim.topology.node import End, name_of

STEP: Final = 1.2
"""From one row to the next [in]."""

ROOMY: Final = 0.9
"""A column in which a device has room for its name; in narrower ones it has a number [in]."""

DEEPEST: Final = 2.4
"""Paper for arcs below the devices [in]."""


Leaf = End | tuple[str, int]
"""A device, or NIC i as ``("nic", i)``."""


def rows(record: NodeRecord, nic: NicFacts | None) -> Sketch:
    """Return the node with its devices in a row and what leads to them above."""
    links, leaves = inner_links(record), _leaves(record)
    pitch = min(1.35, 13.0 / len(leaves))
    at: dict[Leaf, Point] = {leaf: (pitch * i, 0.0) for i, leaf in enumerate(leaves)}
    level = _levels(record, links)
    for end in sorted(level, key=level.__getitem__):
        below = [at[b][0] for b in _below(end, links, level, record) if b in at]
        at[end] = sum(below) / len(below), STEP * level[end]
    owners, bus = record.nics.devices.value, record.nics.bus.value
    label = gigabytes(bus)
    widest = max((abs(at[k.a][0] - at[k.b][0]) for k in links if _is_arc(k)), default=0.0)
    floor = -0.85 - (_depth(widest, widest) if widest else 0.0)
    for i in range(len(owners)):
        at.setdefault(("nic", i), (_beside(owners, i, at, pitch), floor))
    sketch = Sketch(_boxes(record, nic, at, pitch), [_wire(at, link, widest) for link in links])
    sketch.wires += [
        Wire((at[owner], at["nic", i]), BUS, bus, label, ends=(name_of(owner), f"nic{i}"))
        for i, owner in enumerate(owners)
    ]
    if pitch <= ROOMY:
        sketch.notes.append(Note(-pitch, 0, "devices", 8, "right", True))
    sketch.notes += labels(sketch)
    return sketch


def _levels(record: NodeRecord, links: list[Inner]) -> dict[End, int]:
    """Return the row of each switch: its distance from the nearest device."""
    level: dict[End, int] = dict.fromkeys(range(record.devices.value), 0)
    ups = [link for link in links if not _is_arc(link)]
    while True:
        grown = {
            b: level[a] + 1
            for link in ups
            for a, b in ((link.a, link.b), (link.b, link.a))
            if a in level and b not in level
        }
        if not grown:
            break
        least = min(grown.values())
        level |= {end: row for end, row in grown.items() if row == least}
    top = max(level.values())
    return {end: level.get(end, top + 1) for end in named_ends(record)}


def _below(end: End, links: list[Inner], level: dict[End, int], record: NodeRecord) -> list[Leaf]:
    """Return what a switch stands above."""
    found: list[Leaf] = []
    for link in links:
        if end in (link.a, link.b):
            other = link.b if link.a == end else link.a
            if level.get(other, 0) < level[end]:
                found.append(other)
    return found + [("nic", i) for i, owner in enumerate(record.nics.devices.value) if owner == end]


def _leaves(record: NodeRecord) -> list[Leaf]:
    """Return devices and NICs of switches from left to right: what hangs together is together."""
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
    for device in range(record.devices.value):
        leaves.setdefault(device)
    return list(leaves)


def _is_arc(link: Inner) -> bool:
    return isinstance(link.a, int) and isinstance(link.b, int)


def _depth(span: float, widest: float) -> float:
    """Return how deep an arc of `span` goes, where the widest of the node is `widest` [in]."""
    return 0.25 + min(0.25 * widest, DEEPEST) * span / widest


def _wire(at: dict[Leaf, Point], link: Inner, widest: float) -> Wire:
    a, b = sorted((at[link.a], at[link.b]))
    points: tuple[Point, ...] = (a, b)
    if _is_arc(link):
        points = arc(a, b, -_depth(b[0] - a[0], widest))
    ends = name_of(link.a), name_of(link.b)
    return Wire(points, link.kind, link.bandwidth, link.label, ends=ends)


def _beside(owners: list[End], nic: int, at: dict[Leaf, Point], pitch: float) -> float:
    """Return where a NIC of a device stands: below it, beside the device's other NICs."""
    mine = [i for i, owner in enumerate(owners) if owner == owners[nic]]
    return at[owners[nic]][0] + (mine.index(nic) - (len(mine) - 1) / 2) * 0.98 * pitch


def _boxes(
    record: NodeRecord, nic: NicFacts | None, at: dict[Leaf, Point], pitch: float
) -> list[Box]:
    wide, roomy = 0.8 * pitch, pitch > ROOMY
    devices = [
        Box(*at[d], wide, 0.38, f"device {d}" if roomy else f"{d}", DEVICE, 8.0 if roomy else 7.0)
        for d in range(record.devices.value)
    ]
    switches = [Box(*at[e], max(wide, 0.09 * len(e)), 0.36, e, SWITCH) for e in named_ends(record)]
    nics = [
        Box(*at["nic", i], min(wide, 0.9), 0.42 if nic else 0.3, nic_text(i, nic), NIC, 7.5)
        for i in range(len(record.nics.devices.value))
    ]
    return [*devices, *switches, *nics]


__all__ = ["rows"]
