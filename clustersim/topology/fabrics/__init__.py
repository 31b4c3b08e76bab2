"""Networks between nodes: routes by arithmetic, and a graph for drawing and tests.

`port` gives the switch of a NIC and `between` the links from one switch to another, both without
graph search (except for explicit lists of cables), so that cost does not grow with the machine.
`edges` lists every cable, for the graph that is drawn and that tests search for shortest paths.
"""

from collections.abc import Iterator
from typing import Protocol

from clustersim.arrays import Floats, Integers
from clustersim.catalog.fabrics import Dragonfly, FatTree, LinkList, SingleSwitch, Torus
from clustersim.catalog.machines import ClusterRecord
from clustersim.topology.fabrics.dragonfly import DragonflyFabric
from clustersim.topology.fabrics.explicit import build_explicit
from clustersim.topology.fabrics.fat_tree import FatTreeFabric
from clustersim.topology.fabrics.switch import SwitchFabric
from clustersim.topology.fabrics.torus import build_torus
from clustersim.topology.link_table import NumberedLinks
from clustersim.topology.links import Hop, Port, Switch
from clustersim.topology.routes import Walks


class Fabric(Protocol):
    """The interface of every fabric."""

    @property
    def seed(self) -> int:
        """Seed of the hash that chooses between equal paths, in addition to a flow's two ends."""
        ...

    @property
    def reduces(self) -> bool:
        """Whether the switches reduce in the network."""
        ...

    def port(self, node: int, nic: int) -> Port:
        """Return the port of a NIC of a node."""
        ...

    def port_bandwidths(self, nodes: int) -> Floats:
        """Return the payload bandwidth of the cable of each NIC, by node and NIC [B/s]."""
        ...

    def switch_numbers(self, nodes: Integers, nics: Integers) -> Integers:
        """Return a number for the switch of each of several NICs, equal for the same switch."""
        ...

    def switch_of(self, number: int) -> Switch:
        """Return the switch of a number."""
        ...

    @property
    def several_paths(self) -> bool:
        """Whether there are several equal paths between any two switches."""
        ...

    def path_count(self, a: Switch, b: Switch) -> int:
        """Return the number of equal paths between two switches, chosen from by hashing."""
        ...

    def between(self, a: Switch, b: Switch, path_number: int = 0) -> list[Hop]:
        """Return the links from one switch to another on one of these paths."""
        ...

    def numbered_links(self, nodes: int) -> NumberedLinks:
        """Return the links between switches that the fabric of a job of some nodes numbers itself.

        None of them where `between` names them.
        """
        ...

    def walks(self, a: Integers, b: Integers) -> Walks | None:
        """Return the routes between several pairs of switches, or None.

        None where the fabric numbers no links itself: `between` then gives the links of each pair.
        """
        ...

    def edges(self, nodes: int) -> Iterator[tuple[str, str, Hop]]:
        """Yield every directed cable of a fabric of that many nodes."""
        ...

    def bisection(self, nodes: int) -> float:
        """Return the narrowest cut between two halves of the nodes, per direction [B/s].

        It counts payload, and is at most the bandwidth of the NICs of one half.
        """
        ...

    def diameter(self, nodes: int) -> int:
        """Return the most links between NICs of two different nodes, their own cables included."""
        ...

    def oversubscription(self, nodes: int) -> dict[str, float]:
        """Return injection from below over bandwidth upwards, by level [unitless].

        1 where all injected traffic can pass, 7 where a seventh can. Levels that contain all of the
        `nodes` nodes are omitted.
        """
        ...


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
    if isinstance(shape, FatTree):
        return _fat_tree(shape, nic, cable, nics)
    return _dragonfly(shape, nic, cable, nics)


def _fat_tree(shape: FatTree, nic: Hop, cable: Hop, nics: int) -> FatTreeFabric:
    return FatTreeFabric(
        nic=nic,
        cable=cable,
        nics=nics,
        rail_optimised=shape.rail_optimised,
        nodes_per_leaf=shape.nodes_per_leaf,
        leaf_uplinks=shape.leaf_uplinks,
        leaves_per_pod=shape.leaves_per_pod,
        pod_uplinks=shape.pod_uplinks,
        hashed=shape.routing == "hashed",
        seed=shape.seed,
        reduces=bool(shape.reduces),
    )


def _dragonfly(shape: Dragonfly, nic: Hop, cable: Hop, nics: int) -> DragonflyFabric:
    return DragonflyFabric(
        nic=nic,
        cable=cable,
        nics=nics,
        groups=shape.groups,
        switches=shape.switches_per_group,
        nodes_per_switch=shape.nodes_per_switch,
        pair_links=shape.links_per_group_pair,
        routing=shape.routing,
        detour=0.0 if shape.detour is None else shape.detour,
        seed=shape.seed,
    )
