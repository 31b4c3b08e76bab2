"""Bandwidth measures of a machine: injection, bisection, diameter and oversubscription.

All bandwidths are of payload, per direction [B/s].
"""

from collections.abc import Iterator, Mapping
from math import inf

from clustersim.catalog.fabrics import LinkList
from clustersim.catalog.records.machines import ClusterRecord
from clustersim.records import dataclass
from clustersim.topology.cluster import Cluster, build_cluster
from clustersim.topology.links import Hop
from clustersim.topology.node import Node


@dataclass(frozen=True)
class Measures:
    """Measures of the first `nodes` nodes of a cluster.

    Attributes
    ----------
    device_to_node : summed bandwidth of a device's links inside its node, least and most over the
        devices; None where a node has one device
    device_to_network : injection of one device while all others are idle, least over the devices
    injection : injection of all devices of a node together
    bisection : the narrowest cut between two halves of the nodes; None for a single node
    bisection_share : bisection over the injection of half of the nodes
    diameter : the most links between NICs of two nodes; None for a single node
    oversubscription : injection from below over bandwidth upwards, by level
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
    """Return the first `nodes` nodes of a machine and their measures."""
    cluster = build_cluster(record, nodes)
    distinct = 1 if not isinstance(record.fabric, LinkList) else nodes  # listed cables may differ
    injection = min(node_injection(cluster, node) for node in range(distinct))
    several = nodes > 1
    bisection = cluster.fabric.bisection(nodes) if several else None
    return cluster, Measures(
        nodes=nodes,
        devices=cluster.devices,
        device_to_node=device_to_node(cluster.node),
        device_to_network=min(
            _single_injection(cluster, device) for device in range(cluster.node.devices)
        ),
        injection=injection,
        bisection=bisection,
        bisection_share=None if bisection is None else bisection / (nodes // 2 * injection),
        diameter=cluster.fabric.diameter(nodes) if several else None,
        oversubscription=cluster.fabric.oversubscription(nodes),
    )


def device_to_node(node: Node) -> tuple[float, float] | None:
    """Return least and most summed bandwidth of a device's links inside its node."""
    if node.devices == 1:
        return None
    if node.crossbar is not None:
        return node.crossbar.bandwidth, node.crossbar.bandwidth
    sums = [sum(w for (a, _), w in node.widths.items() if a == d) for d in range(node.devices)]
    return min(sums), max(sums)


def _single_injection(cluster: Cluster, device: int) -> float:
    """Return the narrowest link from a device of the first node to its switch."""
    out = cluster.fabric.port(0, cluster.node.nic_of[device]).up
    return min(hop.bandwidth for hop in [*cluster.node.to_nic("n0", device), out])


def node_injection(cluster: Cluster, number: int) -> float:
    """Return the greatest flow from all devices of a node through all its NICs."""
    import networkx as nx  # imported here: it takes 0.12 s

    graph = nx.DiGraph()
    for a, b, width in _links_out(cluster, number):
        graph.add_edge(a, b, capacity=width)
    return float(nx.maximum_flow_value(graph, "devices", "network"))


def _links_out(cluster: Cluster, number: int) -> Iterator[tuple[str, str, float]]:
    """Yield every link on the routes from the devices of a node to the network."""
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
