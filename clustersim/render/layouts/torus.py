"""A torus: the first two axes as a small grid, all axes with their lengths in words."""

from itertools import pairwise
from typing import Final, NamedTuple

from clustersim.catalog.fabrics import Torus
from clustersim.catalog.machines import ClusterRecord
from clustersim.render.diagram import (
    DEVICE,
    Box,
    Diagram,
    Note,
    Point,
    Sketch,
    Wire,
    arc,
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


def torus(record: ClusterRecord, cluster: Cluster, measures: Measures) -> Diagram:
    """Return the picture of a torus."""
    shape = record.fabric
    assert isinstance(shape, Torus)
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
