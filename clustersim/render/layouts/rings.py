"""Fabrics of rings: a torus as a small grid of its first two axes, a dragonfly as two circles.

The circles of a dragonfly are those of all groups, and of the switches of one group.
"""

from itertools import combinations, pairwise
from math import cos, pi
from typing import Final, NamedTuple

from clustersim.catalog.fabrics import Dragonfly, Torus
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
    picked,
)
from clustersim.topology.cluster import Cluster
from clustersim.topology.fabrics.torus import TorusFabric
from clustersim.topology.measures import Measures
from clustersim.units import counted

MOST: Final = 4
"""Nodes drawn along an axis at most: the first ones and the last."""

PITCH: Final = (1.15, 0.95)
LINE: Final = 0.24


class Axis(NamedTuple):
    """One axis of the grid: its name, how many nodes, and whether its ends are joined."""

    name: str
    length: int
    ring: bool


def axes(fabric: TorusFabric) -> list[Axis]:
    """Return the axes that nodes are numbered by; one that spans two has the names of both."""
    names = [fabric.axes[a] + fabric.axes[b] for a, b in (axis.axes for axis in fabric.virtual)]
    return [
        Axis(*each) for each in zip(names or fabric.axes, fabric.lengths, fabric.rings, strict=True)
    ]


def torus(shape: Torus, record: ClusterRecord, cluster: Cluster, measures: Measures) -> Diagram:
    """Return the picture of a torus."""
    assert isinstance(cluster.fabric, TorusFabric)
    every = axes(cluster.fabric)
    across, up = _drawn(every)
    rate = shape.link.bandwidth
    grid = Grid(across, up)
    sketch = Sketch(notes=_names(grid))
    grid.put_nodes(sketch)
    sketch.wires += grid.links(rate)
    x, y = len(grid.columns) * PITCH[0], (len(grid.rows) - 1) * PITCH[1]
    sketch.notes += _table(grid, every, (x, y))
    below = y - LINE * (len(every) + 2.5)
    sketch.notes.append(Note(x, below, _node(record, every, rate), 8.5, "left"))
    return sketch.diagram(
        title=f"{record.name}: {_finding(every, measures)}",
        caption=f"{counted(measures.nodes, 'node')}; raw rates in GB/s, each way; arcs join the"
        " ends of a ring",
        kinds={"link": f"links of {gigabytes(rate)} GB/s"},
    )


def _drawn(every: list[Axis]) -> tuple[Axis, Axis]:
    """Return the first two axes that have more than one node; a single one next to a row of one."""
    long = [axis for axis in every if axis.length > 1]
    row = Axis("", 1, False)
    return (long[0] if long else row), (long[1] if len(long) > 1 else row)


def _finding(every: list[Axis], measures: Measures) -> str:
    shape = " x ".join(str(axis.length) for axis in every)
    if measures.bisection_share is None:
        return "one node, which sends nothing to others"
    share = f"{measures.bisection_share:.2g} of what half of the nodes inject"
    return f"{share} crosses the middle of {shape}"


class Grid:
    """The nodes that are drawn, with their places."""

    def __init__(self, across: Axis, up: Axis) -> None:
        self.across, self.up = across, up
        self.columns, self.rows = picked(across.length, MOST), picked(up.length, MOST)

    def at(self, i: int, j: int) -> Point:
        """Return the place of the i-th node of the j-th row."""
        return i * PITCH[0], j * PITCH[1]

    def put_nodes(self, sketch: Sketch) -> None:
        """Draw the nodes, and dots for the others."""
        for i, column in enumerate(self.columns):
            for j, row in enumerate(self.rows):
                if column is None or row is None:
                    sketch.dots(*self.at(i, j))
                    continue
                text = f"{column},{row}" if self.up.name else f"{column}"
                sketch.boxes.append(Box(*self.at(i, j), 0.58, 0.34, text, DEVICE, 7.5))

    def links(self, rate: float) -> list[Wire]:
        """Return the links along both axes, of every row and column that is drawn."""
        wires = []
        for j, row in enumerate(self.rows):
            if row is not None:
                line = [self.at(i, j) for i in range(len(self.columns))]
                wires += _line(line, self.across.ring, 0.42, rate)
        for i, column in enumerate(self.columns):
            if column is not None:
                line = [self.at(i, j) for j in range(len(self.rows))]
                wires += _line(line, self.up.ring, 0.5, rate)
        return wires


def _line(points: list[Point], ring: bool, rise: float, rate: float) -> list[Wire]:
    wires = [Wire(ends, "link", rate) for ends in pairwise(points)]
    if ring:
        wires.append(Wire(arc(points[0], points[-1], rise), "link", rate))
    return wires


def _names(grid: Grid) -> list[Note]:
    """Return the names of the two axes, below and left of the grid."""
    across, up = grid.across, grid.up
    x, y = ((len(slots) - 1) / 2 for slots in (grid.columns, grid.rows))
    notes = [
        Note(x * PITCH[0], -0.5, f"axis {across.name}, {across.length:,} nodes", 8.5, bold=True)
    ]
    if up.name:
        text = f"axis {up.name}\n{up.length:,} nodes"
        notes.append(Note(-0.95, y * PITCH[1], text, 8.5, "right", True))
    return notes


def _table(grid: Grid, every: list[Axis], first: Point) -> list[Note]:
    """Return name, length and ends of every axis, in three columns."""
    rows = [("axis", "nodes", "ends")]
    for axis in every:
        ends = "joined, a ring" if axis.ring else "open"
        hidden = "" if axis in (grid.across, grid.up) else "; not drawn"
        rows.append((axis.name, f"{axis.length:,}", ends + hidden))
    columns = (0.0, "left"), (1.1, "right"), (1.3, "left")
    return [
        Note(first[0] + x, first[1] - LINE * i, text, 8.5, align, bold=i == 0)
        for i, row in enumerate(rows)
        for text, (x, align) in zip(row, columns, strict=True)
    ]


def _node(record: ClusterRecord, every: list[Axis], rate: float) -> str:
    """Return the links of a node and its injection bandwidth."""
    nics, nic = len(record.node.nics.devices), record.nic.bandwidth
    links = sum(2 if axis.ring else min(axis.length - 1, 2) for axis in every)
    return (
        f"up to {links} links per node: {gigabytes(links * rate)} GB/s\n"
        f"injection per node: {gigabytes(nics * nic)} GB/s"
    )


MOST_GROUPS: Final = 80
MOST_SWITCHES: Final = 40
"""Largest numbers that are drawn: the first ones and the last."""

MOST_FAINT: Final = 40
"""Largest number whose links are all drawn; of more, only those of the first."""

GROUPS_AT, SWITCHES_AT = 0.0, 6.4
"""Middles of the circle of groups and of the circle of switches [in]."""


def dragonfly(
    shape: Dragonfly, record: ClusterRecord, cluster: Cluster, measures: Measures
) -> Diagram:
    """Return the picture of a dragonfly."""
    cable, pair = shape.link.bandwidth, shape.links_per_group_pair
    switches, groups = shape.switches_per_group, shape.groups
    inside = switches // len(record.node.nics.devices) * shape.nodes_per_switch
    out = (groups - 1) * pair * cable
    sketch = Sketch()
    _ring(sketch, groups, GROUPS_AT, 2.55, MOST_GROUPS, "between groups", cable)
    _ring(sketch, switches, SWITCHES_AT, 1.75, MOST_SWITCHES, "in a group", cable)
    _chassis(sketch, record, shape)
    sketch.notes += [_of_groups(groups), _of_switches(record, shape, inside, out)]
    rate = gigabytes(record.nic.bandwidth)
    return sketch.diagram(
        title=f"{record.name}: {_group_finding(measures)}",
        caption=f"{measures.nodes:,} nodes; raw rates in GB/s, each way; routing {shape.routing}",
        kinds={
            "between groups": f"between two groups: {pair} x {gigabytes(cable)} GB/s",
            "in a group": f"between two switches: {gigabytes(cable)} GB/s",
            "nics": f"NICs of {rate} GB/s, {shape.nodes_per_switch} nodes on a switch",
        },
    )


def _group_finding(measures: Measures) -> str:
    ratio = measures.oversubscription.get("group")
    if ratio is None:
        return "all nodes in one group"
    if ratio <= 1.005:
        return "no oversubscription between groups"
    return f"{1 / ratio:.2f} of the injection of a group can leave it"


def _of_groups(groups: int) -> Note:
    text = f"{groups} groups, each joined to each\ndark: the {groups - 1} links of group 0"
    return Note(GROUPS_AT, 3.3, text, 8.5)


def _of_switches(record: ClusterRecord, shape: Dragonfly, inside: int, out: float) -> Note:
    """Return the injection of a group and the bandwidth of its cables to others."""
    into = inside * len(record.node.nics.devices) * record.nic.bandwidth
    text = (
        f"a group: {shape.switches_per_group} switches, each joined to each\n"
        f"its {inside} nodes inject {gigabytes(into)} GB/s, its cables take {gigabytes(out)} away"
    )
    return Note(SWITCHES_AT, 3.3, text, 8.5)


def _ring(
    sketch: Sketch, count: int, x: float, radius: float, most: int, kind: str, bandwidth: float
) -> None:
    """Place numbers on a circle, links of the first one dark, of the others faint."""
    slots = picked(count, most)
    side = min(0.36, 5.4 * radius / len(slots))
    drawn = []
    for i, number in enumerate(slots):
        place = around(x, 0, radius, radius, i / len(slots))
        if number is None:
            sketch.notes.append(Note(*place, "...", 6, bold=True))
            continue
        drawn.append(place)
        size = 7.0 if side > 0.25 else 5.5
        sketch.boxes.append(Box(*place, side, min(side, 0.24), f"{number}", SWITCH, size))
    sketch.wires += [Wire((drawn[0], b), kind, bandwidth) for b in drawn[1:]]
    if len(drawn) <= MOST_FAINT:
        pairs = combinations(drawn[1:], 2)
        sketch.wires += [Wire(ends, kind, bandwidth, faint=True) for ends in pairs]


def _chassis(sketch: Sketch, record: ClusterRecord, shape: Dragonfly) -> None:
    """Place nodes outside the circle, next to the switches that they share."""
    nics, nodes = len(record.node.nics.devices), shape.nodes_per_switch
    slots = picked(shape.switches_per_group, MOST_SWITCHES)
    turn = {number: i / len(slots) for i, number in enumerate(slots) if number is not None}
    rate = nodes * record.nic.bandwidth
    for block in range(shape.switches_per_group // nics):
        turns = [turn[s] for s in range(block * nics, (block + 1) * nics) if s in turn]
        if not turns:
            continue
        away = 1.75 / cos(pi * min(turns[-1] - turns[0], 0.3)) + 0.75  # lines pass by the others
        place = around(SWITCHES_AT, 0, away + 0.1, away, (turns[0] + turns[-1]) / 2)
        text = f"n{block * nodes} - n{(block + 1) * nodes - 1}"
        sketch.boxes.append(Box(*place, 0.92, 0.3, text, DEVICE, 7.0))
        ends = [around(SWITCHES_AT, 0, 1.75, 1.75, turn) for turn in turns]
        sketch.wires += [Wire((place, end), "nics", rate) for end in ends]
