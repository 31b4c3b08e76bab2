"""A dragonfly: all groups on one circle, and the switches of one group on another."""

from itertools import combinations
from math import cos, pi
from typing import Final

from clustersim.catalog.fabrics import Dragonfly
from clustersim.catalog.machines import ClusterRecord
from clustersim.render.diagram import (
    DEVICE,
    SWITCH,
    Box,
    Diagram,
    Note,
    Sketch,
    Wire,
    around,
    gigabytes,
    picked,
)
from clustersim.topology.cluster import Cluster
from clustersim.topology.measures import Measures

MOST_GROUPS: Final = 80
MOST_SWITCHES: Final = 40
"""Largest numbers that are drawn: the first ones and the last."""

MOST_FAINT: Final = 40
"""Largest number whose links are all drawn; of more, only those of the first."""

LEFT, RIGHT = 0.0, 6.4
"""Middles of the circle of groups and of the circle of switches [in]."""


def dragonfly(record: ClusterRecord, cluster: Cluster, measures: Measures) -> Diagram:
    """Return the picture of a dragonfly."""
    shape = record.fabric
    assert isinstance(shape, Dragonfly)
    cable, pair = shape.link.bandwidth, shape.links_per_group_pair
    switches, groups = shape.switches_per_group, shape.groups
    inside = switches // len(record.node.nics.devices) * shape.nodes_per_switch
    out = (groups - 1) * pair * cable
    sketch = Sketch()
    _ring(sketch, groups, LEFT, 2.55, MOST_GROUPS, "between groups", cable)
    _ring(sketch, switches, RIGHT, 1.75, MOST_SWITCHES, "in a group", cable)
    _chassis(sketch, record, shape)
    sketch.notes += [_of_groups(groups), _of_switches(record, shape, inside, out)]
    rate = gigabytes(record.nic.bandwidth)
    return sketch.diagram(
        title=f"{record.name}: {_finding(measures)}",
        caption=f"{measures.nodes:,} nodes; raw rates in GB/s, each way; routing {shape.routing}",
        kinds={
            "between groups": f"between two groups: {pair} x {gigabytes(cable)} GB/s",
            "in a group": f"between two switches: {gigabytes(cable)} GB/s",
            "nics": f"NICs of {rate} GB/s, {shape.nodes_per_switch} nodes on a switch",
        },
    )


def _finding(measures: Measures) -> str:
    ratio = measures.oversubscription.get("group")
    if ratio is None:
        return "all nodes in one group"
    if ratio <= 1.005:
        return "no oversubscription between groups"
    return f"{1 / ratio:.2f} of the injection of a group can leave it"


def _of_groups(groups: int) -> Note:
    text = f"{groups} groups, each joined to each\ndark: the {groups - 1} links of group 0"
    return Note(LEFT, 3.3, text, 8.5)


def _of_switches(record: ClusterRecord, shape: Dragonfly, inside: int, out: float) -> Note:
    """Return the injection of a group and the bandwidth of its cables to others."""
    into = inside * len(record.node.nics.devices) * record.nic.bandwidth
    text = (
        f"a group: {shape.switches_per_group} switches, each joined to each\n"
        f"its {inside} nodes inject {gigabytes(into)} GB/s, its cables take {gigabytes(out)} away"
    )
    return Note(RIGHT, 3.3, text, 8.5)


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
        place = around(RIGHT, 0, away + 0.1, away, (turns[0] + turns[-1]) / 2)
        text = f"n{block * nodes} - n{(block + 1) * nodes - 1}"
        sketch.boxes.append(Box(*place, 0.92, 0.3, text, DEVICE, 7.0))
        ends = [around(RIGHT, 0, 1.75, 1.75, turn) for turn in turns]
        sketch.wires += [Wire((place, end), "nics", rate) for end in ends]
