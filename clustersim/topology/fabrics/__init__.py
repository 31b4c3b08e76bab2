"""The networks between nodes, one file a kind: routes by arithmetic, a graph to look at.

A fabric answers three questions.  `port` says where a NIC hangs and `between` gives the links from
one switch to another, both without searching, so that a machine of any size costs nothing.  `edges`
lists every cable for the graph that a person draws and that the tests search for shortest paths.
"""

from collections.abc import Iterator
from typing import Protocol

from clustersim.catalog.fabrics import Dragonfly, FatTree, SingleSwitch
from clustersim.catalog.records import ClusterRecord
from clustersim.topology.fabrics.dragonfly import DragonflyFabric
from clustersim.topology.fabrics.fat_tree import FatTreeFabric
from clustersim.topology.fabrics.port import Port, Switch
from clustersim.topology.fabrics.switch import SwitchFabric
from clustersim.topology.links import Hop


class Fabric(Protocol):
    """What every fabric can tell."""

    def port(self, node: int, nic: int) -> Port:
        """Return where a NIC of a node hangs."""
        ...

    def between(self, a: Switch, b: Switch) -> list[Hop]:
        """Return the links from one switch to another."""
        ...

    def edges(self, nodes: int) -> Iterator[tuple[str, str, Hop]]:
        """Yield every directed cable of a fabric of that many nodes."""
        ...


def build_fabric(record: ClusterRecord) -> Fabric:
    """Return the fabric that a cluster file describes; bandwidths are of payload."""
    nics = len(record.node.nics.devices.value)
    payload = record.nic.bandwidth.value * record.nic.efficiency.value
    nic = Hop("", payload, record.nic.latency.value)
    shape = record.fabric
    if isinstance(shape, SingleSwitch):
        return SwitchFabric(nic)
    assert isinstance(shape, FatTree | Dragonfly)
    width = shape.link.bandwidth.value * record.nic.efficiency.value
    cable = Hop("", width, shape.link.latency.value)
    if isinstance(shape, FatTree):
        return FatTreeFabric(
            nic=nic,
            cable=cable,
            nics=nics,
            rail_optimised=shape.rail_optimised.value,
            nodes_per_leaf=shape.nodes_per_leaf.value,
            leaf_uplinks=shape.leaf_uplinks.value,
            leaves_per_pod=shape.leaves_per_pod.value,
            pod_uplinks=shape.pod_uplinks.value,
        )
    return DragonflyFabric(
        nic=nic,
        cable=cable,
        nics=nics,
        groups=shape.groups.value,
        switches=shape.switches_per_group.value,
        nodes_per_switch=shape.nodes_per_switch.value,
        pair_links=shape.links_per_group_pair.value,
        adaptive=shape.routing.value == "adaptive",
    )
