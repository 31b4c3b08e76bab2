"""Layouts of switched fabrics without a regular shape: one ideal switch, and lists of cables."""

from statistics import fmean
from typing import Final

from clustersim.catalog.fabrics import LinkList
from clustersim.catalog.machines import ClusterRecord
from clustersim.render.diagram import (
    DEVICE,
    SWITCH,
    Box,
    Diagram,
    Point,
    Sketch,
    Wire,
    arc,
    around,
    gigabytes,
    labels,
    levels,
    neighbours,
    picked,
    whole,
)
from clustersim.topology.cluster import Cluster
from clustersim.topology.measures import Measures
from clustersim.units import counted

RAYS: Final = 10
"""Nodes that are drawn at most: the first ones and the last."""

WIDE, HIGH = 3.4, 1.7


def star(record: ClusterRecord, cluster: Cluster, measures: Measures) -> Diagram:
    """Return the picture of a single switch."""
    slots = picked(measures.nodes, RAYS)
    nics, rate = len(record.node.nics.devices), record.nic.bandwidth
    sketch = Sketch([Box(0, 0, 1.3, 0.45, "one ideal switch", SWITCH)])
    for i, number in enumerate(slots):
        place = around(0, 0, WIDE, HIGH, 0.25 + i / len(slots))
        if number is None:
            sketch.dots(*place)
            continue
        text = f"node {number}\n{counted(record.node.devices, 'device')}"
        sketch.boxes.append(Box(*place, 1.0, 0.46, text, DEVICE, 7.5))
        label = f"{nics} x {gigabytes(rate)}"
        sketch.wires.append(Wire(((0, 0), place), "nics", nics * rate, label))
    sketch.notes += labels(sketch)
    each = f"{counted(nics, 'NIC')} of {gigabytes(rate)} GB/s a node"
    return sketch.diagram(
        title=f"{record.name}: {_star_finding(record, measures)}",
        caption=f"{counted(measures.nodes, 'node')}; raw rates in GB/s, each way",
        kinds={"nics": f"{each}, {whole(record.nic.efficiency)} of it payload"},
    )


def _star_finding(record: ClusterRecord, measures: Measures) -> str:
    if measures.nodes == 1:
        return "one node, no traffic to others"
    rate = len(record.node.nics.devices) * record.nic.bandwidth
    return f"{gigabytes(rate)} GB/s from each node to any other, independent of other traffic"


WIDEST: Final = 14.0
STEP: Final = 1.35
MOST_LABELS: Final = 24
"""Cables up to which each has a label; of more, only those of a less common rate."""


def explicit(record: ClusterRecord, cluster: Cluster, measures: Measures) -> Diagram:
    """Return the picture of listed cables."""
    shape = record.fabric
    assert isinstance(shape, LinkList)
    cables = _bundles(shape)
    ends = dict.fromkeys(end for pair in cables for end in pair)
    level = levels(cables, filter(_is_node, ends))
    at, pitch = _places(cables, level)
    rates = sorted(cables.values())
    usual = rates[len(rates) // 2]
    sketch = Sketch(
        [_box(end, place, level[end], pitch) for end, place in at.items()],
        [
            Wire(_way(at[a], at[b]), "cable", rate, _label(rate, usual, len(cables)))
            for (a, b), rate in cables.items()
        ],
    )
    sketch.notes += labels(sketch)
    return sketch.diagram(
        title=f"{record.name}: {_finding(measures)}",
        caption=f"{counted(measures.nodes, 'node')}; raw rates in GB/s, each way, cables side by"
        " side as one",
        kinds={"cable": f"cables, most of them {gigabytes(usual)} GB/s"},
    )


def _finding(measures: Measures) -> str:
    if measures.bisection_share is None:
        return "one node, no traffic to others"
    return f"{measures.bisection_share:.2g} of the injection of one half reaches the other half"


def _label(rate: float, usual: float, count: int) -> str:
    return gigabytes(rate) if count <= MOST_LABELS or rate != usual else ""


def _bundles(shape: LinkList) -> dict[tuple[str, str], float]:
    """Return the summed rate between each two ends; a node is one end for all its NICs."""
    sums: dict[tuple[str, str], float] = {}
    for ends in shape.links:
        a, b, rate = _owner(ends[0]), _owner(ends[1]), ends[2]
        pair = (b, a) if (b, a) in sums else (a, b)
        sums[pair] = sums.get(pair, 0.0) + rate
    return sums


def _owner(end: str) -> str:
    """Return the node of a NIC, or the switch itself."""
    node, _, nic = end.partition(".nic")
    return node if nic.isdecimal() and node[:1] == "n" and node[1:].isdecimal() else end


def _is_node(end: str) -> bool:
    return end[:1] == "n" and end[1:].isdecimal()


def _places(
    cables: dict[tuple[str, str], float], level: dict[str, int]
) -> tuple[dict[str, Point], float]:
    """Return where ends stand, and the width of a column of the longest row [in].

    Nodes by number; in each row above, ends in the order of the middle of what is below them.
    """
    below = neighbours(cables)
    tiers = [[e for e in level if level[e] == row] for row in range(max(level.values()) + 1)]
    tiers[0].sort(key=lambda end: int(end[1:]))
    longest = max(map(len, tiers))
    pitch = min(1.3, WIDEST / longest)
    width = pitch * longest
    at: dict[str, Point] = {}
    for row, tier in enumerate(tiers):
        if row:
            tier.sort(key=lambda end: fmean(at[b][0] for b in below[end] if b in at))
        for i, end in enumerate(tier):
            at[end] = width * (i + 0.5) / len(tier), STEP * row
    return at, pitch


def _way(a: Point, b: Point) -> tuple[Point, ...]:
    """Return a straight line, or an arc above ends of the same row that are not neighbours."""
    return (a, b) if a[1] != b[1] else arc(min(a, b), max(a, b), 0.5)


def _box(end: str, place: Point, level: int, pitch: float) -> Box:
    wide = min(0.86 * pitch, 1.1)
    size = min(8.0, wide / (0.0105 * max(len(end), 2)))
    return Box(*place, wide, 0.34, end, DEVICE if level == 0 else SWITCH, size)
