"""What a machine can move, as a buyer compares machines: injection, bisection, oversubscription.

All bandwidths are of payload, per direction [B/s].
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf

from clustersim.catalog.fabrics import Dragonfly, FatTree, LinkList
from clustersim.catalog.records import ClusterRecord
from clustersim.topology.cluster import Cluster, build_cluster
from clustersim.topology.links import Hop
from clustersim.topology.node import Node


@dataclass(frozen=True)
class Measures:
    """The first `nodes` nodes of a cluster in a dozen numbers.

    Attributes
    ----------
    device_to_node : sum of a device's links inside its node, of the least and the best device;
        None where a node has one device
    device_to_network : what one device sends into the network while all others are silent, least
    injection : what all devices of a node send into the network together
    bisection : the narrowest cut between two halves of the nodes; None for a single node
    bisection_share : the bisection over what half of the nodes inject
    diameter : the most links between NICs of two nodes; None for a single node
    oversubscription : injection of the nodes below over what leads on, by what it leads out of
    """

    nodes: int
    devices: int
    device_to_node: tuple[float, float] | None
    device_to_network: float
    injection: float
    bisection: float | None
    bisection_share: float | None
    diameter: int | None
    oversubscription: Mapping[str, float]


def measure(record: ClusterRecord, nodes: int) -> tuple[Cluster, Measures]:
    """Return the first `nodes` nodes of a machine, and what they can move."""
    cluster = build_cluster(record, nodes)
    alike = 1 if not isinstance(record.fabric, LinkList) else nodes  # listed cables may differ
    injection = min(node_injection(cluster, node) for node in range(alike))
    several = nodes > 1
    bisection = cluster.fabric.bisection(nodes) if several else None
    return cluster, Measures(
        nodes=nodes,
        devices=cluster.devices,
        device_to_node=device_to_node(cluster.node),
        device_to_network=min(_alone(cluster, device) for device in range(cluster.node.devices)),
        injection=injection,
        bisection=bisection,
        bisection_share=None if bisection is None else bisection / (nodes // 2 * injection),
        diameter=cluster.fabric.diameter(nodes) if several else None,
        oversubscription=oversubscription(record, nodes),
    )


def device_to_node(node: Node) -> tuple[float, float] | None:
    """Return the sum of a device's links inside its node, of the least and the best device."""
    if node.devices == 1:
        return None
    if node.crossbar is not None:
        return node.crossbar.bandwidth, node.crossbar.bandwidth
    sums = [sum(w for (a, _), w in node.widths.items() if a == d) for d in range(node.devices)]
    return min(sums), max(sums)


def _alone(cluster: Cluster, device: int) -> float:
    """Return the narrowest link from a device of the first node to its switch."""
    out = cluster.fabric.port(0, cluster.node.nic_of[device]).up
    return min(hop.bandwidth for hop in [*cluster.node.to_nic("n0", device), out])


def node_injection(cluster: Cluster, number: int) -> float:
    """Return the greatest flow from all devices of a node through all its NICs."""
    import networkx as nx  # 0.12 s that other questions to a cluster need not pay

    graph = nx.DiGraph()
    for a, b, width in _ways_out(cluster, number):
        graph.add_edge(a, b, capacity=width)
    return float(nx.maximum_flow_value(graph, "devices", "network"))


def _ways_out(cluster: Cluster, number: int) -> Iterator[tuple[str, str, float]]:
    """Yield every link on the way from the devices of a node to the network."""
    node, here = cluster.node, f"n{number}"
    hops: list[Hop] = []
    for device in range(node.devices):
        yield "devices", f"{here}.dev{device}", inf
        if node.crossbar is not None:
            hops += [node.to_crossbar(here, device), node.from_crossbar(here, device)]
    for a, b in node.direct:
        hops += node.hops(here, a, b) if node.crossbar is None else ()
    for nic in range(len(node.nic_ends)):
        bus, cable = node.to_bus(here, nic), cluster.fabric.port(number, nic).up
        hops.append(bus)
        yield bus.name.partition(">")[2], "network", cable.bandwidth
    for hop in hops:
        a, _, b = hop.name.partition(">")
        yield a, b, hop.bandwidth


def oversubscription(record: ClusterRecord, nodes: int) -> dict[str, float]:
    """Return injection over what leads on, for each level of a tree or a group of a dragonfly.

    1 where all that is sent from below can pass, 7 where a seventh can. A level that holds all of
    the `nodes` nodes has nothing to lead on to, and is left out.
    """
    shape, nics = record.fabric, len(record.node.nics.devices.value)
    nic = record.nic.bandwidth.value
    if isinstance(shape, FatTree):
        cable, rails = shape.link.bandwidth.value, nics if shape.rail_optimised.value else 1
        below = shape.nodes_per_leaf.value * nics / rails * nic
        leaves = -(-nodes // shape.nodes_per_leaf.value) * rails
        found = {}
        if leaves > 1:
            found["leaf"] = below / (shape.leaf_uplinks.value * cable)
        if leaves > shape.leaves_per_pod.value:
            below *= shape.leaves_per_pod.value
            found["pod"] = below / (shape.pod_uplinks.value * cable)
        return found
    if isinstance(shape, Dragonfly):
        inside = shape.switches_per_group.value // nics * shape.nodes_per_switch.value
        cables = (shape.groups.value - 1) * shape.links_per_group_pair.value
        leaves_group = cables * shape.link.bandwidth.value
        return {"group": inside * nics * nic / leaves_group} if nodes > inside else {}
    return {}


__all__ = [
    "Measures",
    "device_to_node",
    "measure",
    "node_injection",
    "oversubscription",
]
