"""A cluster: equal nodes of devices on a fabric, with a route between any two devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from clustersim.catalog.records import ClusterRecord
from clustersim.errors import CatalogError
from clustersim.topology.accelerator import Accelerator, build_accelerator
from clustersim.topology.detours import Detours
from clustersim.topology.fabrics import Fabric, build_fabric
from clustersim.topology.faults import NO_FAULTS, Fault, Faults, find_faults
from clustersim.topology.library import Library, build_library
from clustersim.topology.links import Hop, LinkTable, Port, Route, Switch, choose
from clustersim.topology.node import Node, build_node

if TYPE_CHECKING:
    import networkx as nx


Ends = tuple[str, str, float, float, str]
"""A link inside any node: its two ends without the node's name, bandwidth, latency, kind."""


class Cluster:
    """Devices 0 to ``nodes * node.devices - 1``, numbered node by node.

    Attributes
    ----------
    nodes : number of nodes of the job, which are the first ones of the machine
    links : the links used so far, with their payload capacities [B/s]
    faults : links, NICs and cables that carry less than others of their kind
    """

    def __init__(
        self,
        name: str,
        nodes: int,
        node: Node,
        accelerator: Accelerator,
        library: Library,
        fabric: Fabric,
        faults: Faults = NO_FAULTS,
    ) -> None:
        self.name, self.nodes, self.node = name, nodes, node
        self.accelerator, self.library, self.fabric = accelerator, library, fabric
        self.faults = faults
        self.links = LinkTable(faults.shares)
        self._routes: dict[tuple[int, int], Route] = {}
        self._relayed: dict[tuple[int, int], Route] = {}
        self._relays: dict[tuple[int, int], int] = {}
        self._local: dict[tuple[Node, int, int], list[Ends]] = {}
        self._to_nics: dict[Node, list[list[Ends]]] = {}
        self._from_nics: dict[Node, list[list[Ends]]] = {}
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
        node, local = divmod(device, self.node.devices)
        return self.node_at(node).nic_of[local]

    def node_at(self, number: int) -> Node:
        """Return the structure of one node, which differs from others where it has a fault."""
        return self.faults.nodes.get(number, self.node)

    def hops(self, a: int, b: int) -> list[Hop]:
        """Return the links from device `a` to device `b`."""
        size = self.node.devices
        (node_a, local_a), (node_b, local_b) = divmod(a, size), divmod(b, size)
        name_a, name_b = f"n{node_a}", f"n{node_b}"
        if node_a == node_b:
            return list(self.node_at(node_a).hops(name_a, local_a, local_b))
        out, home = self._port(a), self._port(b)
        return [
            *self.node_at(node_a).to_nic(name_a, local_a),
            out.up,
            *self._detours.between(out, home, self._path_number(a, b, out.switch, home.switch)),
            home.down,
            *self.node_at(node_b).from_nic(name_b, local_b),
        ]

    def _path_number(self, a: int, b: int, out: Switch, home: Switch) -> int:
        path_count = self.fabric.path_count(out, home)
        return choose(path_count, self.fabric.seed, a, b) if path_count > 1 else 0

    def route(self, a: int, b: int) -> Route:
        """Return the numbered links from device `a` to device `b` and their latency."""
        route = self._routes.get((a, b))
        if route is None:
            size = self.node.devices
            (node_a, local_a), (node_b, local_b) = divmod(a, size), divmod(b, size)
            if node_a == node_b:
                hops = _of_node(node_a, self._inside(self.node_at(node_a), local_a, local_b))
                route = self._numbered(hops, network=False)
            else:
                route = self._across(a, b)
            self._routes[a, b] = route
        return route

    def _across(self, a: int, b: int) -> Route:
        """Join the route out of a device, the route between two switches and the route in.

        Each part is shared by many routes, so it is numbered once.
        """
        (switch_a, out), (switch_b, home) = self._route_out(a), self._route_in(b)
        path_number = self._path_number(a, b, switch_a, switch_b)
        middle = self._between.get((switch_a, switch_b, path_number))
        if middle is None:
            hops = self._detours.between(self._port(a), self._port(b), path_number)
            middle = self._between[switch_a, switch_b, path_number] = self._numbered(
                hops, network=True
            )
        latency = out.latency + middle.latency + home.latency
        return Route((*out.links, *middle.links, *home.links), latency, True)

    def relayed(self, a: int, b: int) -> Route:
        """Return the route by which a message enters the network on the receiver's rail.

        Inside the sender's node it is forwarded to the nearest device that uses the NIC of the
        receiver's rail, and sent from there, which avoids the spines of a rail-optimised tree:
        NCCL's PXN (NCCL user guide, `NCCL_PXN_DISABLE`).
        """
        size, rail = self.node.devices, self.rail(b)
        if a // size == b // size or self.rail(a) == rail or a // size in self.faults.nodes:
            return self.route(a, b)
        route = self._relayed.get((a, b))
        if route is None:
            neighbour = a - a % size + self._relay(a % size, rail)
            to, on = self.route(a, neighbour), self.route(neighbour, b)
            route = Route((*to.links, *on.links), to.latency + on.latency, True)
            self._relayed[a, b] = route
        return route

    def _relay(self, local: int, rail: int) -> int:
        """Return the device of a node that forwards the messages of another one to a rail.

        The one with the fewest links in total to the NIC, the same in every node.
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

        If the node file lists host bridges, the route leads to the nearest one and is shared with
        traffic between devices; otherwise each device has its own link. Memory is written and read
        over the same channels, so one link serves both directions.

        Raises
        ------
        CatalogError
            when the node file does not state the bandwidth of the link to the host.
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
        """Return the host bridge with the fewest links to a device; empty if there is none."""
        paths, bridges = self.node.paths, self.node.host_bridges
        return min(bridges, key=lambda end: len(paths[local, end]), default="")

    def _host_link(self, ends: str, number: int) -> Hop:
        """Return a device's own link to its host, or from it."""
        if self.node.host_link is None:
            raise CatalogError(
                f"{self.node.name}: node.host.link: missing, but the run copies data to host memory"
                " (give the bandwidth per direction of a device's link to its host)"
            )
        a, b = ends.split(">")
        return Hop(f"n{number}.{a}>n{number}.{b}", self.node.host_link, 0.0, "host")

    def _with_memory(self, number: int, hops: list[Hop]) -> Route:
        if self.node.host_bandwidth is not None:
            name = f"n{number}.host>n{number}.memory"
            hops = [*hops, Hop(name, self.node.host_bandwidth, 0.0, "host")]
        return self._numbered(hops, network=False)

    def _route_out(self, device: int) -> tuple[Switch, Route]:
        entry = self._out.get(device)
        if entry is None:
            node, local = divmod(device, self.node.devices)
            port = self._port(device)
            hops = [*_of_node(node, self._to_nic(self.node_at(node))[local]), port.up]
            entry = self._out[device] = port.switch, self._numbered(hops, network=True)
        return entry

    def _route_in(self, device: int) -> tuple[Switch, Route]:
        entry = self._in.get(device)
        if entry is None:
            node, local = divmod(device, self.node.devices)
            port = self._port(device)
            hops = [port.down, *_of_node(node, self._from_nic(self.node_at(node))[local])]
            entry = self._in[device] = port.switch, self._numbered(hops, network=True)
        return entry

    def _inside(self, node: Node, a: int, b: int) -> list[Ends]:
        """Return the links between two devices of nodes of one structure."""
        found = self._local.get((node, a, b))
        if found is None:
            found = self._local[node, a, b] = _ends(node.hops("", a, b))
        return found

    def _to_nic(self, node: Node) -> list[list[Ends]]:
        """Return the links from each device of nodes of one structure to its NIC."""
        if node not in self._to_nics:
            devices = range(node.devices)
            self._to_nics[node] = [_ends(node.to_nic("", device)) for device in devices]
        return self._to_nics[node]

    def _from_nic(self, node: Node) -> list[list[Ends]]:
        if node not in self._from_nics:
            devices = range(node.devices)
            self._from_nics[node] = [_ends(node.from_nic("", device)) for device in devices]
        return self._from_nics[node]

    @cached_property
    def _detours(self) -> Detours:
        return Detours(self.fabric, self.faults, self.nodes)

    def _port(self, device: int) -> Port:
        """Return the port of the NIC that a device uses."""
        return self.fabric.port(device // self.node.devices, self.rail(device))

    def _numbered(self, hops: list[Hop], *, network: bool) -> Route:
        number = self.links.number
        numbers = tuple([number(hop) for hop in hops])
        return Route(numbers, sum([hop.latency for hop in hops]), network)

    @cached_property
    def graph(self) -> nx.DiGraph:
        """The machine as a graph of devices, NICs and switches.

        Edges carry ``bandwidth`` [B/s of payload], ``latency`` [s] and ``kind``.
        """
        import networkx as nx  # imported here: it takes 0.12 s, and most runs need no graph

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


def build_cluster(
    record: ClusterRecord, nodes: int, passes: float | None = None, faults: Sequence[Fault] = ()
) -> Cluster:
    """Return the first `nodes` nodes of the machine that a cluster file describes.

    Parameters
    ----------
    passes : as in `build_accelerator`
    faults : of its links, NICs and cables

    Raises
    ------
    PlanError
        as `find_faults` does.
    """
    node, fabric = build_node(record.node), build_fabric(record, nodes)
    return Cluster(
        name=record.name,
        nodes=nodes,
        node=node,
        accelerator=build_accelerator(record.node.accelerator, passes),
        library=build_library(record.node.library),
        fabric=fabric,
        faults=find_faults(faults, node, fabric, nodes),
    )
