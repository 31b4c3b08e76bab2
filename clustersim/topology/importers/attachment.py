"""Which NICs of a file a node keeps, and what they hang on.

A library gives each device the NICs that are fewest PCIe links away, so a NIC that is nobody's
nearest (for management or storage) carries no traffic between devices and is left out.  Behind a
crossbar there is no PCIe tree to hang on: there a NIC goes to its nearest device, and devices
equally near take turns.
"""

from collections import deque
from dataclasses import dataclass
from itertools import combinations
from operator import eq

from clustersim.topology.importers import draft
from clustersim.topology.importers.sketch import End, Nic, Sketch, Wire


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
