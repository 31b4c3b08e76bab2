"""Devices joined to each other without a switch: around a circle, the widest links on the rim."""

from itertools import permutations
from math import pi, sin
from typing import Final

from clustersim.catalog.records import NicFacts, NodeRecord
from clustersim.render.diagram import DEVICE, NIC, Box, Sketch, Wire, around, gigabytes, labels
from clustersim.render.layouts.inside import BUS, Inner, inner_links
from clustersim.topology.node import name_of

MOST_ORDERS: Final = 8
"""Devices whose every order around the circle is tried; more stand by number."""


def mesh(record: NodeRecord, nic: NicFacts | None) -> Sketch:
    """Return the node with its devices around a circle and their NICs outside."""
    count, links = record.devices.value, inner_links(record)
    grow = max(1.0, count / 8)
    wide, high = 2.75 * grow, 1.95 * grow
    turns = {device: (i + 0.5) / count for i, device in enumerate(rim(count, links))}
    at = {device: around(0, 0, wide, high, turn) for device, turn in turns.items()}
    sketch = Sketch(
        [Box(*at[d], 0.86, 0.36, f"device {d}", DEVICE) for d in range(count)],
        [_wire(at, link) for link in links],
    )
    owners, bus = record.nics.devices.value, record.nics.bus.value
    for i, end in enumerate(owners):
        assert isinstance(end, int)
        beside = [k for k, other in enumerate(owners) if other == end]
        spread = (beside.index(i) - (len(beside) - 1) / 2) * 0.45 / count
        place = around(0, 0, wide + 1.6, high + 0.85, turns[end] + spread)
        sketch.boxes.append(Box(*place, 0.8, 0.42 if nic else 0.3, nic_text(i, nic), NIC, 7.5))
        sketch.wires.append(
            Wire((at[end], place), BUS, bus, gigabytes(bus), ends=(name_of(end), f"nic{i}"))
        )
    sketch.notes += labels(sketch)
    return sketch


def nic_text(number: int, nic: NicFacts | None) -> str:
    """Return what stands on a NIC."""
    return (
        f"NIC {number}" if nic is None else f"NIC {number}\n{gigabytes(nic.bandwidth.value)} GB/s"
    )


def _wire(at: dict[int, tuple[float, float]], link: Inner) -> Wire:
    assert isinstance(link.a, int)
    assert isinstance(link.b, int)
    ends = name_of(link.a), name_of(link.b)
    return Wire((at[link.a], at[link.b]), link.kind, link.bandwidth, link.label, ends=ends)


def rim(count: int, links: list[Inner]) -> tuple[int, ...]:
    """Return the order of devices around a circle that keeps the least bandwidth times length.

    The first of equally good orders, so that a mesh of equal links stands by number.
    """
    if count > MOST_ORDERS:
        return tuple(range(count))
    chord = [sin(pi * i / count) for i in range(count)]
    joined = [(int(link.a), int(link.b), link.bandwidth) for link in links]

    def length(order: tuple[int, ...]) -> float:
        place = {device: i for i, device in enumerate(order)}
        return round(sum(w * chord[abs(place[a] - place[b])] for a, b, w in joined), 3)

    return min(((0, *rest) for rest in permutations(range(1, count))), key=length)


__all__ = ["mesh", "nic_text", "rim"]
