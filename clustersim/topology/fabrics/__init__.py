"""Networks between nodes: routes by arithmetic, and a graph for drawing and tests.

`port` gives the switch of a NIC and `between` the links from one switch to another, both without
graph search (except for explicit lists of cables), so that cost does not grow with the machine.
`edges` lists every cable, for the graph that is drawn and that tests search for shortest paths.
"""

from clustersim.answers import built_from
from clustersim.catalog.fabrics import FatTree, LinkList, SingleSwitch, Torus
from clustersim.catalog.records.machines import ClusterRecord
from clustersim.topology.fabrics.dragonfly import DragonflyFabric
from clustersim.topology.fabrics.explicit import build_explicit
from clustersim.topology.fabrics.fabric import Fabric, SwitchFabric
from clustersim.topology.fabrics.fat_tree import FatTreeFabric
from clustersim.topology.fabrics.torus import build_torus
from clustersim.topology.links import Hop


def build_fabric(record: ClusterRecord, nodes: int) -> Fabric:
    """Return the fabric that a cluster file describes, for a job of its first `nodes` nodes.

    Bandwidths are of payload: the efficiency of the NIC applies to all cables.
    """
    nics = len(record.node.nics.devices)
    efficiency = record.nic.efficiency
    nic = Hop("", record.nic.bandwidth * efficiency, record.nic.latency, "nic")
    shape = record.fabric
    if isinstance(shape, SingleSwitch):
        return SwitchFabric(nic, nics)
    if isinstance(shape, LinkList):
        return build_explicit(shape, nic, efficiency, nics, nodes)
    cable = Hop("", shape.link.bandwidth * efficiency, shape.link.latency)
    if isinstance(shape, Torus):
        return build_torus(shape, nic, cable, nics, nodes)
    common = {"nic": nic, "cable": cable, "nics": nics}
    if isinstance(shape, FatTree):
        return built_from(FatTreeFabric, shape, **common)
    return built_from(
        DragonflyFabric,
        shape,
        switches=shape.switches_per_group,
        pair_links=shape.links_per_group_pair,
        **common,
    )
