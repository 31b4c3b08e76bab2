"""A cluster: equal nodes of devices on a fabric, with a route between any two devices."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from clustersim.catalog.records import ClusterRecord
from clustersim.topology.accelerator import Accelerator, build_accelerator
from clustersim.topology.fabrics import Fabric, build_fabric
from clustersim.topology.fabrics.port import Switch
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
        self._out: dict[int, tuple[Switch, Route]] = {}
        self._in: dict[int, tuple[Switch, Route]] = {}
        self._between: dict[tuple[Switch, Switch], Route] = {}

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
        out = self.fabric.port(node_a, self.node.nic_of[a])
        home = self.fabric.port(node_b, self.node.nic_of[b])
        return [
            *self.node.to_nic(here, a),
            out.up,
            *self.fabric.between(out.switch, home.switch),
            home.down,
            *self.node.from_nic(there, b),
        ]

    def route(self, a: int, b: int) -> Route:
        """Return the numbered links from device `a` to device `b` and their latency."""
        route = self._routes.get((a, b))
        if route is None:
            size = self.node.devices
            if a // size == b // size:
                route = self._numbered(self.hops(a, b), network=False)
            else:
                route = self._across(a, b)
            self._routes[a, b] = route
        return route

    def _across(self, a: int, b: int) -> Route:
        """Join a device's way out, the way between two switches and a device's way in.

        Each part is the same for many routes, so it is numbered once.
        """
        (switch_a, out), (switch_b, home) = self._way_out(a), self._way_in(b)
        middle = self._between.get((switch_a, switch_b))
        if middle is None:
            hops = self.fabric.between(switch_a, switch_b)
            middle = self._between[switch_a, switch_b] = self._numbered(hops, network=True)
        latency = out.latency + middle.latency + home.latency
        return Route((*out.links, *middle.links, *home.links), latency, True)

    def _way_out(self, device: int) -> tuple[Switch, Route]:
        if device not in self._out:
            node, local = divmod(device, self.node.devices)
            port = self.fabric.port(node, self.node.nic_of[local])
            hops = [*self.node.to_nic(f"n{node}", local), port.up]
            self._out[device] = port.switch, self._numbered(hops, network=True)
        return self._out[device]

    def _way_in(self, device: int) -> tuple[Switch, Route]:
        if device not in self._in:
            node, local = divmod(device, self.node.devices)
            port = self.fabric.port(node, self.node.nic_of[local])
            hops = [port.down, *self.node.from_nic(f"n{node}", local)]
            self._in[device] = port.switch, self._numbered(hops, network=True)
        return self._in[device]

    def _numbered(self, hops: list[Hop], *, network: bool) -> Route:
        numbers = tuple([self.links.number(hop) for hop in hops])
        return Route(numbers, sum([hop.latency for hop in hops]), network)

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
        for a, b in shape.direct:
            hops += shape.hops(here, a, b)
        if shape.crossbar is not None:
            for device in range(shape.devices):
                hops.append(shape.to_crossbar(here, device))
                hops.append(shape.from_crossbar(here, device))
        for nic in range(len(shape.nic_ends)):
            hops += [shape.to_bus(here, nic), shape.from_bus(here, nic)]
            port = self.fabric.port(node, nic)
            hops += [port.up, port.down]
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
