"""Layouts of diagrams of machines, one file for each kind of fabric or node.

A layout takes a checked record and its measures, and returns a `Diagram`.
"""

from collections.abc import Callable
from typing import Any, Final

from clustersim.catalog.fabrics import Dragonfly, FatTree, LinkList, SingleSwitch, Torus
from clustersim.catalog.records.machines import ClusterRecord
from clustersim.render.diagram import Diagram
from clustersim.render.layouts.node import node
from clustersim.render.layouts.rings import dragonfly, torus
from clustersim.render.layouts.trees import explicit, fat_tree, star
from clustersim.topology.cluster import Cluster
from clustersim.topology.measures import Measures

Layout = Callable[[Any, ClusterRecord, Cluster, Measures], Diagram]

FABRICS: Final[dict[type, Layout]] = {
    SingleSwitch: star,
    FatTree: fat_tree,
    Dragonfly: dragonfly,
    Torus: torus,
    LinkList: explicit,
}
"""The layout of each shape of fabric."""


def fabric(record: ClusterRecord, cluster: Cluster, measures: Measures) -> Diagram:
    """Return the picture of the network between the nodes of a cluster."""
    return FABRICS[type(record.fabric)](record.fabric, record, cluster, measures)


__all__ = ["FABRICS", "fabric", "node"]
