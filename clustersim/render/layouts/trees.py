"""Switched fabrics: a fat tree level by level, one ideal switch, and lists of cables in rows.

Of many nodes, leaves, spines and cores a few of each are drawn, and dots.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Final, NamedTuple

from clustersim.catalog.fabrics import FatTree, LinkList, SingleSwitch
from clustersim.catalog.records.machines import ClusterRecord
from clustersim.render.diagram import (
    DEVICE,
    SWITCH,
    Box,
    Diagram,
    Note,
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

LEFT: Final = 2.75
"""Width of the texts about each level [in]."""

PITCH: Final = 0.82
STEP: Final = 1.3


class Counts(NamedTuple):
    """Switches of each level that a number of nodes needs."""

    leaves: int
    leaves_per_pod: int
    pods: int
    spines: int
    cores: int


def counts(shape: FatTree, nodes: int, nics: int) -> Counts:
    """Return the switches of a tree of `nodes` nodes; no spines where there is one leaf."""
    rails = nics if shape.rail_optimised else 1
    leaves = -(-nodes // shape.nodes_per_leaf) * rails
    pods = -(-leaves // shape.leaves_per_pod)
    return Counts(
        leaves=leaves,
        leaves_per_pod=min(leaves, shape.leaves_per_pod),
        pods=pods,
        spines=shape.leaf_uplinks if leaves > 1 else 0,
        cores=shape.pod_uplinks if pods > 1 else 0,
    )


def fat_tree(
    shape: FatTree, record: ClusterRecord, cluster: Cluster, measures: Measures
) -> Diagram:
    """Return the picture of a tree."""
    nics = len(record.node.nics.devices)
    size, cable = counts(shape, measures.nodes, nics), shape.link.bandwidth
    sketch = Sketch()
    places = _places(sketch, size)
    places |= _cores(sketch, cluster, measures.nodes, places)
    sketch.boxes += [_box(name, place) for name, place in places.items()]
    sketch.wires += _cables(cluster, measures.nodes, places, cable)
    below = _below_leaf(record, shape, nics)
    for name, (x, y) in places.items():
        if name.startswith("leaf"):
            text = _nodes_text(shape, int(name[4:]), nics, measures.nodes)
            sketch.boxes.append(Box(x, 0, 0.92 * PITCH, 0.42, text, DEVICE, 6.5))
            sketch.wires.append(Wire(((x, 0), (x, y)), "nics", below))
    sketch.notes += _levels(record, shape, size, measures)
    rate = gigabytes(record.nic.bandwidth)
    kinds = {"nics": f"NICs of {rate} GB/s, all those of a leaf as one line"}
    if size.spines:
        kinds["cables"] = f"cables of {gigabytes(cable)} GB/s"
    return sketch.diagram(
        title=f"{record.name}: {_finding(measures)}",
        caption=f"{counted(measures.nodes, 'node')}; raw rates in GB/s, each way; drawn are a"
        f" few of each level; routing {shape.routing}",
        kinds=kinds,
    )


def _finding(measures: Measures) -> str:
    """Return the level with the largest oversubscription."""
    ratios = measures.oversubscription
    if not ratios:
        return "all nodes on one leaf"
    level, worst = max(ratios.items(), key=lambda item: item[1])
    if worst > 1.005:
        return f"each {level} is oversubscribed {worst:.3g}:1"
    return "no oversubscription at any level"


def _places(sketch: Sketch, size: Counts) -> dict[str, Point]:
    """Return the places of switches, by the names of the fabric's cables; draw the dots."""
    places: dict[str, Point] = {}
    x, most = 0.0, 3 if size.pods > 1 else 6
    for pod in picked(size.pods, 3):
        if pod is None:
            for row in (1, 2):
                sketch.dots(x + 0.1, STEP * row)
            x += 0.5
            continue
        first = pod * size.leaves_per_pod
        here = min(size.leaves_per_pod, size.leaves - first)
        leaves = [None if i is None else f"leaf{first + i}" for i in picked(here, most)]
        spines = [None if i is None else f"spine{pod}.{i}" for i in picked(size.spines, most)]
        wide = max(len(leaves), len(spines)) * PITCH
        for row, names in ((1, leaves), (2, spines)):
            places |= _spread(sketch, names, (x, x + wide), STEP * row)
        x += wide + 0.3
    return places


def _cores(
    sketch: Sketch, cluster: Cluster, nodes: int, places: dict[str, Point]
) -> dict[str, Point]:
    """Return the places of cores: the first and last ones joined to drawn spines."""
    joined = {
        int(b[4:])
        for a, b, _ in cluster.fabric.edges(nodes)
        if b.startswith("core") and a in places
    }
    numbers = sorted(joined)
    right = max(x for x, _ in places.values())
    names = [None if i is None else f"core{numbers[i]}" for i in picked(len(numbers), 3)]
    return _spread(sketch, names, (0.0, right + PITCH / 2), STEP * 3)


def _spread(
    sketch: Sketch, names: Sequence[str | None], between: tuple[float, float], y: float
) -> dict[str, Point]:
    """Place names, or dots, evenly in a row."""
    places = {}
    left, right = between
    for i, name in enumerate(names):
        x = left + (right - left) * (i + 0.5) / len(names)
        if name is None:
            sketch.dots(x, y)
        else:
            places[name] = x, y
    return places


def _box(name: str, place: Point) -> Box:
    kind = name.rstrip("0123456789.")
    return Box(*place, 0.92 * PITCH, 0.36, f"{kind} {name[len(kind) :]}", SWITCH, 7.0)


def _cables(cluster: Cluster, nodes: int, places: dict[str, Point], cable: float) -> list[Wire]:
    """Return the cables between drawn switches, each pair once."""
    drawn: dict[tuple[str, str], float] = {}
    for a, b, _ in cluster.fabric.edges(nodes):
        if a in places and b in places and places[a][1] < places[b][1]:
            drawn[a, b] = drawn.get((a, b), 0.0) + cable
    return [
        Wire((_edge(places[a], 0.18), _edge(places[b], -0.18)), "cables", wide)
        for (a, b), wide in drawn.items()
    ]


def _edge(place: Point, up: float) -> Point:
    return place[0], place[1] + up


def _below_leaf(record: ClusterRecord, shape: FatTree, nics: int) -> float:
    rails = nics if shape.rail_optimised else 1
    return shape.nodes_per_leaf * nics / rails * record.nic.bandwidth


def _nodes_text(shape: FatTree, leaf: int, nics: int, nodes: int) -> str:
    rail = shape.rail_optimised
    block = leaf // nics if rail else leaf
    first = block * shape.nodes_per_leaf
    last = min(first + shape.nodes_per_leaf, nodes) - 1
    span = f"n{first}" if first == last else f"n{first} - n{last}"
    return f"NIC {leaf % nics} of\n{span}" if rail else f"{span}\nall NICs"


def _levels(record: ClusterRecord, shape: FatTree, size: Counts, measures: Measures) -> list[Note]:
    """Return the texts left of the tree: each level, and its cables to the next."""
    nics = len(record.node.nics.devices)
    cable, ratios = shape.link.bandwidth, measures.oversubscription
    below = _below_leaf(record, shape, nics)
    leaves = "1 leaf" if size.leaves == 1 else f"{size.leaves:,} leaves"
    each = ", {:,} a pod" if size.pods > 1 else ""
    words = [
        (0.0, f"{counted(measures.nodes, 'node')} of {counted(nics, 'NIC')}", True),
        (0.5, f"up to a leaf {_rate(below, record.nic.bandwidth)}", False),
        (1.0, f"{leaves}{each.format(size.leaves_per_pod)}", True),
    ]
    if size.spines:
        up = f"out of a leaf {_rate(shape.leaf_uplinks * cable, cable)}"
        words += [
            (1.5, f"{up}\n{_ratio(ratios['leaf'])}", False),
            (2.0, f"{size.spines * size.pods:,} spines{each.format(size.spines)}", True),
        ]
    if size.cores:
        up = f"out of a pod {_rate(shape.pod_uplinks * cable, cable)}"
        words += [
            (2.5, f"{up}\n{_ratio(ratios['pod'])}", False),
            (3.0, f"{size.cores:,} cores", True),
        ]
    return [
        Note(-LEFT, STEP * row, text, 8.5 if bold else 7.5, "left", bold)
        for row, text, bold in words
    ]


def _rate(total: float, each: float) -> str:
    return f"{total / each:,.0f} x {gigabytes(each)} = {gigabytes(total)} GB/s"


def _ratio(ratio: float) -> str:
    if ratio > 1.005:
        return f"{ratio:.3g} to 1 oversubscribed"
    return "not oversubscribed" if ratio > 0.995 else f"{1 / ratio:.3g} times what is injected"


RAYS: Final = 10
"""Nodes that are drawn at most: the first ones and the last."""

WIDE, HIGH = 3.4, 1.7


def star(_: SingleSwitch, record: ClusterRecord, cluster: Cluster, measures: Measures) -> Diagram:
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
ROW_STEP: Final = 1.35
MOST_LABELS: Final = 24
"""Cables up to which each has a label; of more, only those of a less common rate."""


def explicit(
    shape: LinkList, record: ClusterRecord, cluster: Cluster, measures: Measures
) -> Diagram:
    """Return the picture of listed cables."""
    cables = _bundles(shape)
    ends = dict.fromkeys(end for pair in cables for end in pair)
    level = levels(cables, filter(_is_node, ends))
    at, pitch = _row_places(cables, level)
    rates = sorted(cables.values())
    usual = rates[len(rates) // 2]
    sketch = Sketch(
        [_end_box(end, place, level[end], pitch) for end, place in at.items()],
        [
            Wire(_way(at[a], at[b]), "cable", rate, _label(rate, usual, len(cables)))
            for (a, b), rate in cables.items()
        ],
    )
    sketch.notes += labels(sketch)
    return sketch.diagram(
        title=f"{record.name}: {_bisection_finding(measures)}",
        caption=f"{counted(measures.nodes, 'node')}; raw rates in GB/s, each way, cables side by"
        " side as one",
        kinds={"cable": f"cables, most of them {gigabytes(usual)} GB/s"},
    )


def _bisection_finding(measures: Measures) -> str:
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


def _row_places(
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
            at[end] = width * (i + 0.5) / len(tier), ROW_STEP * row
    return at, pitch


def _way(a: Point, b: Point) -> tuple[Point, ...]:
    """Return a straight line, or an arc above ends of the same row that are not neighbours."""
    return (a, b) if a[1] != b[1] else arc(min(a, b), max(a, b), 0.5)


def _end_box(end: str, place: Point, level: int, pitch: float) -> Box:
    wide = min(0.86 * pitch, 1.1)
    size = min(8.0, wide / (0.0105 * max(len(end), 2)))
    return Box(*place, wide, 0.34, end, DEVICE if level == 0 else SWITCH, size)
