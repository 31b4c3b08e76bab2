"""All NICs on one switch: a star."""

from typing import Final

from clustersim.catalog.records import ClusterRecord
from clustersim.render.diagram import (
    DEVICE,
    SWITCH,
    Box,
    Diagram,
    Sketch,
    Wire,
    around,
    gigabytes,
    labels,
    picked,
    whole,
)
from clustersim.render.tables import counted
from clustersim.topology.cluster import Cluster
from clustersim.topology.measures import Measures

RAYS: Final = 10
"""Nodes that are drawn; of more, the first ones and the last."""

WIDE, HIGH = 3.4, 1.7


def star(record: ClusterRecord, cluster: Cluster, measures: Measures) -> Diagram:
    """Return the picture of a single switch."""
    slots = picked(measures.nodes, RAYS)
    nics, rate = len(record.node.nics.devices.value), record.nic.bandwidth.value
    sketch = Sketch([Box(0, 0, 1.3, 0.45, "one ideal switch", SWITCH)])
    for i, number in enumerate(slots):
        place = around(0, 0, WIDE, HIGH, 0.25 + i / len(slots))
        if number is None:
            sketch.dots(*place)
            continue
        text = f"node {number}\n{counted(record.node.devices.value, 'device')}"
        sketch.boxes.append(Box(*place, 1.0, 0.46, text, DEVICE, 7.5))
        label = f"{nics} x {gigabytes(rate)}"
        sketch.wires.append(Wire(((0, 0), place), "nics", nics * rate, label))
    sketch.notes += labels(sketch)
    each = f"{counted(nics, 'NIC')} of {gigabytes(rate)} GB/s a node"
    return sketch.diagram(
        title=f"{record.name}: {_finding(record, measures)}",
        caption=f"{counted(measures.nodes, 'node')}; raw rates in GB/s, each way",
        kinds={"nics": f"{each}, {whole(record.nic.efficiency.value)} of it payload"},
    )


def _finding(record: ClusterRecord, measures: Measures) -> str:
    if measures.nodes == 1:
        return "one node, which sends nothing to others"
    rate = len(record.node.nics.devices.value) * record.nic.bandwidth.value
    return f"{gigabytes(rate)} GB/s from each node to any other, whatever the others do"


__all__ = ["star"]
