"""A cluster: equal nodes of devices on a fabric, with a route between any two devices."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from clustersim.catalog.records import ClusterRecord
from clustersim.errors import CatalogError
from clustersim.topology.accelerator import Accelerator, build_accelerator
from clustersim.topology.fabrics import Fabric, build_fabric
from clustersim.topology.library import Library, build_library
from clustersim.topology.links import Hop, LinkTable, Route, Switch, choose
from clustersim.topology.node import Node, build_node

if TYPE_CHECKING:
    import networkx as nx


Ends = tuple[str, str, float, float, str]
"""A link of any node: its two ends less the node's name, bandwidth, latency, kind."""


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
        self._relayed: dict[tuple[int, int], Route] = {}
        self._relays: dict[tuple[int, int], int] = {}
        self._local: dict[tuple[int, int], list[Ends]] = {}
        self._out: dict[int, tuple[Switch, Route]] = {}
        self._in: dict[int, tuple[Switch, Route]] = {}
        self._between: dict[tuple[Switch, Switch, int], Route] = {}

    @property
    def devices(self) -> int:
        """Devices of all nodes."""
        return self.nodes * self.node.devices

    @property
    def occupied(self) -> float:
        """Share of a device's compute units that a collective takes while others compute."""
        return min(1.0, self.library.channels / self.accelerator.compute_units)

    def rail(self, device: int) -> int:
        """Return the number of the NIC that a device uses, among those of its node."""
        return self.node.nic_of[device % self.node.devices]

    def hops(self, a: int, b: int) -> list[Hop]:
        """Return the links from device `a` to device `b`."""
        size = self.node.devices
        (node_a, local_a), (node_b, local_b) = divmod(a, size), divmod(b, size)
        here, there = f"n{node_a}", f"n{node_b}"
        if node_a == node_b:
            return list(self.node.hops(here, local_a, local_b))
        out = self.fabric.port(node_a, self.rail(a))
        home = self.fabric.port(node_b, self.rail(b))
        return [
            *self.node.to_nic(here, local_a),
            out.up,
            *self.fabric.between(out.switch, home.switch, self._way(a, b, out.switch, home.switch)),
            home.down,
            *self.node.from_nic(there, local_b),
        ]

    def _way(self, a: int, b: int, out: Switch, home: Switch) -> int:
        ways = self.fabric.ways(out, home)
        return choose(ways, self.fabric.seed, a, b) if ways > 1 else 0

    def route(self, a: int, b: int) -> Route:
        """Return the numbered links from device `a` to device `b` and their latency."""
        route = self._routes.get((a, b))
        if route is None:
            size = self.node.devices
            (node_a, local_a), (node_b, local_b) = divmod(a, size), divmod(b, size)
            if node_a == node_b:
                hops = _of_node(node_a, self._inside(local_a, local_b))
                route = self._numbered(hops, network=False)
            else:
                route = self._across(a, b)
            self._routes[a, b] = route
        return route

    def _across(self, a: int, b: int) -> Route:
        """Join a device's way out, the way between two switches and a device's way in.

        Each part is the same for many routes, so it is numbered once.
        """
        (switch_a, out), (switch_b, home) = self._way_out(a), self._way_in(b)
        way = self._way(a, b, switch_a, switch_b)
        middle = self._between.get((switch_a, switch_b, way))
        if middle is None:
            hops = self.fabric.between(switch_a, switch_b, way)
            middle = self._between[switch_a, switch_b, way] = self._numbered(hops, network=True)
        latency = out.latency + middle.latency + home.latency
        return Route((*out.links, *middle.links, *home.links), latency, True)

    def relayed(self, a: int, b: int) -> Route:
        """Return the way by which a message enters the network on the receiver's own rail.

        It is handed inside the sender's node to the nearest device that uses the NIC of the
        receiver's number, and sent on from there, which spares a rail-optimised tree its spines:
        what NCCL calls PXN (NCCL user guide, `NCCL_PXN_DISABLE`).
        """
        size, rail = self.node.devices, self.rail(b)
        if a // size == b // size or self.rail(a) == rail:
            return self.route(a, b)
        route = self._relayed.get((a, b))
        if route is None:
            neighbour = a - a % size + self._relay(a % size, rail)
            to, on = self.route(a, neighbour), self.route(neighbour, b)
            route = Route((*to.links, *on.links), to.latency + on.latency, True)
            self._relayed[a, b] = route
        return route

    def _relay(self, local: int, rail: int) -> int:
        """Return the device of a node that hands on what another one sends by a rail's NIC.

        That by which there are the fewest links to the NIC, the same in every node.
        """
        relay = self._relays.get((local, rail))
        if relay is None:
            neighbours = [i for i, nic in enumerate(self.node.nic_of) if nic == rail]
            relay = self._relays[local, rail] = min(
                neighbours,
                key=lambda other: (
                    len(self.route(local, other).links)
                    + sum(1 for _ in self.node.to_nic("", other))
                ),
            )
        return relay

    def to_host(self, device: int) -> Route:
        """Return the links from a device to the memory of its host.

        Where the node draws its host bridges, the way is that to the nearest one, shared with what
        passes between devices; else each device has a link of its own. Memory is written and read
        over the same channels, so that link is one for both ways.

        Raises
        ------
        CatalogError
            when the node's file does not say how wide the link to the host is.
        """
        number, local = divmod(device, self.node.devices)
        bridge = self._bridge(local)
        hops = list(self.node.hops(f"n{number}", local, bridge)) if bridge else []
        return self._with_memory(number, hops or [self._host_link(f"dev{local}>host", number)])

    def from_host(self, device: int) -> Route:
        """Return the links from the memory of its host to a device, as `to_host` does."""
        number, local = divmod(device, self.node.devices)
        bridge = self._bridge(local)
        hops = list(self.node.hops(f"n{number}", bridge, local)) if bridge else []
        return self._with_memory(number, hops or [self._host_link(f"host>dev{local}", number)])

    def _bridge(self, local: int) -> str:
        """Return the host bridge that is the fewest links from a device; empty where none is."""
        paths, bridges = self.node.paths, self.node.host_bridges
        return min(bridges, key=lambda end: len(paths[local, end]), default="")

    def _host_link(self, ends: str, number: int) -> Hop:
        """Return a device's own link to its host, or from it."""
        if self.node.host_link is None:
            raise CatalogError(
                f"{self.node.name}: node.host.link: is not given, but data goes to host memory"
                " (give the bandwidth per direction of a device's link to its host)"
            )
        a, b = ends.split(">")
        return Hop(f"n{number}.{a}>n{number}.{b}", self.node.host_link, 0.0, "host")

    def _with_memory(self, number: int, hops: list[Hop]) -> Route:
        if self.node.host_bandwidth is not None:
            name = f"n{number}.host>n{number}.memory"
            hops = [*hops, Hop(name, self.node.host_bandwidth, 0.0, "host")]
        return self._numbered(hops, network=False)

    def _way_out(self, device: int) -> tuple[Switch, Route]:
        found = self._out.get(device)
        if found is None:
            node, local = divmod(device, self.node.devices)
            port = self.fabric.port(node, self.node.nic_of[local])
            hops = [*_of_node(node, self._to_nic[local]), port.up]
            found = self._out[device] = port.switch, self._numbered(hops, network=True)
        return found

    def _way_in(self, device: int) -> tuple[Switch, Route]:
        found = self._in.get(device)
        if found is None:
            node, local = divmod(device, self.node.devices)
            port = self.fabric.port(node, self.node.nic_of[local])
            hops = [port.down, *_of_node(node, self._from_nic[local])]
            found = self._in[device] = port.switch, self._numbered(hops, network=True)
        return found

    def _inside(self, a: int, b: int) -> list[Ends]:
        """Return the links between two devices of a node, of whichever node."""
        found = self._local.get((a, b))
        if found is None:
            found = self._local[a, b] = _ends(self.node.hops("", a, b))
        return found

    @cached_property
    def _to_nic(self) -> list[list[Ends]]:
        """The links from each device of a node to its NIC, of whichever node."""
        return [_ends(self.node.to_nic("", device)) for device in range(self.node.devices)]

    @cached_property
    def _from_nic(self) -> list[list[Ends]]:
        return [_ends(self.node.from_nic("", device)) for device in range(self.node.devices)]

    def _numbered(self, hops: list[Hop], *, network: bool) -> Route:
        number = self.links.number
        numbers = tuple([number(hop) for hop in hops])
        return Route(numbers, sum([hop.latency for hop in hops]), network)

    @cached_property
    def graph(self) -> nx.DiGraph:
        """The machine as a graph of devices, NICs and switches: to look at and to search.

        Edges carry ``bandwidth`` [B/s of payload], ``latency`` [s] and ``kind``.
        """
        import networkx as nx  # 0.12 s that a run which draws no machine need not pay

        graph = nx.DiGraph(name=self.name)
        for node in range(self.nodes):
            for hop in self._cables_of(node):
                a, b = hop.name.split(">")
                graph.add_edge(a, b, bandwidth=hop.bandwidth, latency=hop.latency, kind=hop.kind)
        for a, b, hop in self.fabric.edges(self.nodes):
            both = graph.get_edge_data(a, b, {"bandwidth": 0.0})["bandwidth"] + hop.bandwidth
            graph.add_edge(a, b, bandwidth=both, latency=hop.latency, kind=hop.kind)
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


def _ends(hops: Iterable[Hop]) -> list[Ends]:
    ends = [(*hop.name.partition(">")[::2], hop) for hop in hops]
    return [(a, b, hop.bandwidth, hop.latency, hop.kind) for a, b, hop in ends]


def _of_node(node: int, links: list[Ends]) -> list[Hop]:
    return [
        Hop(f"n{node}{a}>n{node}{b}", bandwidth, latency, kind)
        for a, b, bandwidth, latency, kind in links
    ]


def build_cluster(record: ClusterRecord, nodes: int, passes: float | None = None) -> Cluster:
    """Return the first `nodes` nodes of the machine that a cluster file describes.

    Parameters
    ----------
    passes : as in `build_accelerator`
    """
    return Cluster(
        name=record.name,
        nodes=nodes,
        node=build_node(record.node),
        accelerator=build_accelerator(record.node.accelerator, passes),
        library=build_library(record.node.library),
        fabric=build_fabric(record, nodes),
    )
