"""A cluster: equal nodes of devices on a fabric, with a route between any two devices."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from clustersim.catalog.records import ClusterRecord
from clustersim.topology.accelerator import Accelerator, build_accelerator
from clustersim.topology.fabrics import Fabric, build_fabric
from clustersim.topology.library import Library, build_library
from clustersim.topology.links import Hop, LinkTable, Route
from clustersim.topology.node import Node, build_node

if TYPE_CHECKING:
    import networkx as nx


class Cluster:
    """Devices 0 to ``nodes * node.devices - 1``, numbered node by node.

    Attributes
    ----------
    nodes : nodes that the job runs on, the first ones of the machine
    links : the links that have been used, with their payload capacities [B/s]
    """

    def __init__(
        self,
        name: str,
        nodes: int,
        node: Node,
        accelerator: Accelerator,
        library: Library,
        fabric: Fabric,
    ) -> None:
        self.name, self.nodes, self.node = name, nodes, node
        self.accelerator, self.library, self.fabric = accelerator, library, fabric
        self.links = LinkTable()
        self._routes: dict[tuple[int, int], Route] = {}

    @property
    def devices(self) -> int:
        """Devices of all nodes."""
        return self.nodes * self.node.devices

    def hops(self, a: int, b: int) -> list[Hop]:
        """Return the links from device `a` to device `b`."""
        (node_a, a), (node_b, b) = divmod(a, self.node.devices), divmod(b, self.node.devices)
        here, there = f"n{node_a}", f"n{node_b}"
        if node_a == node_b:
            return list(self.node.hops(here, a, b))
        nic_a, nic_b = self.node.nic_of[a], self.node.nic_of[b]
        return [
            *self.node.to_nic(here, a),
            *self.fabric.path(node_a, nic_a, node_b, nic_b),
            *self.node.from_nic(there, b),
        ]

    def route(self, a: int, b: int) -> Route:
        """Return the numbered links from device `a` to device `b` and their latency."""
        route = self._routes.get((a, b))
        if route is None:
            hops = self.hops(a, b)
            numbers = tuple(self.links.number(hop) for hop in hops)
            network = a // self.node.devices != b // self.node.devices
            route = Route(numbers, sum(hop.latency for hop in hops), network)
            self._routes[a, b] = route
        return route

    @cached_property
    def graph(self) -> nx.DiGraph:
        """The machine as a graph of devices, NICs and switches: to look at and to search.

        Edges carry ``bandwidth`` [B/s of payload] and ``latency`` [s].
        """
        import networkx as nx  # 0.12 s that a run which draws no machine need not pay

        graph = nx.DiGraph(name=self.name)
        for node in range(self.nodes):
            for hop in self._cables_of(node):
                a, b = hop.name.split(">")
                graph.add_edge(a, b, bandwidth=hop.bandwidth, latency=hop.latency)
        for a, b, hop in self.fabric.edges(self.nodes):
            both = graph.get_edge_data(a, b, {"bandwidth": 0.0})["bandwidth"] + hop.bandwidth
            graph.add_edge(a, b, bandwidth=both, latency=hop.latency)
        return graph

    def _cables_of(self, node: int) -> list[Hop]:
        """Return the links inside one node and from its NICs to the fabric."""
        here, shape = f"n{node}", self.node
        hops: list[Hop] = []
        for a in range(shape.devices):
            for b in range(shape.devices):
                if shape.switch is not None or (a, b) in shape.widths:
                    hops += shape.hops(here, a, b)
        for nic, owner in enumerate(shape.nic_devices):
            hops.append(Hop(f"{here}.dev{owner}>{here}.nic{nic}", shape.bus, 0.0))
            hops.append(Hop(f"{here}.nic{nic}>{here}.dev{owner}", shape.bus, 0.0))
            path = self.fabric.path(node, nic, node, nic)
            hops += [path[0], path[-1]]
        return hops


def build_cluster(record: ClusterRecord, nodes: int) -> Cluster:
    """Return the first `nodes` nodes of the machine that a cluster file describes."""
    return Cluster(
        name=record.name,
        nodes=nodes,
        node=build_node(record.node),
        accelerator=build_accelerator(record.node.accelerator),
        library=build_library(record.node.library),
        fabric=build_fabric(record),
    )
