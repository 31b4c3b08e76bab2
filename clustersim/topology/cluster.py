"""A cluster: equal nodes of devices on a fabric, with a route between any two devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from clustersim.arrays import Booleans, Integers, ranges
from clustersim.bounded_cache import BoundedCache
from clustersim.catalog.records.machines import ClusterRecord
from clustersim.errors import PlanError
from clustersim.topology.accelerator import Accelerator, build_accelerator
from clustersim.topology.fabrics import build_fabric
from clustersim.topology.fabrics.fabric import Fabric
from clustersim.topology.faults import NO_FAULTS, Detours, Fault, Faults, find_faults
from clustersim.topology.library import Issuer, Library, build_library
from clustersim.topology.link_bundles import LinkBundles
from clustersim.topology.link_names import node_links
from clustersim.topology.link_table import LinkTable
from clustersim.topology.links import Hop, Port, Route
from clustersim.topology.node import Node, build_node
from clustersim.topology.paths import Flows, chosen_paths, most_parts, parts_of
from clustersim.topology.routes import Part, Parts, Routes, interleaved_routes, joined

if TYPE_CHECKING:
    import networkx as nx


MOST_SWITCHES = 2**31
"""Bound of the number of a switch, so that two of them make one number."""

MOST_CACHED = 2**17
"""Devices of all groups whose results are kept; a device takes some 200 B."""

MOST_PATHS = 2**62
"""Bound of the paths between two switches that a flow chooses from."""


class Cluster:
    """Devices 0 to ``nodes * node.devices - 1``, numbered node by node.

    Attributes
    ----------
    nodes : number of nodes of the job, which are the first ones of the machine
    links : the links by number, with their payload capacities [B/s]
    faults : links, NICs and cables that carry less than others of their kind
    bundles : of links, by which loads are; None where they are by links
    kept : what was computed about groups of its devices, whose sizes are their devices
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
        self.kept = BoundedCache(MOST_CACHED, MOST_CACHED >> 3)
        self.links = LinkTable(nodes, node.links, len(node.nic_ends), fabric, faults.shares)
        self.bundles: LinkBundles | None = None
        self._inside = Parts(self._part_inside)
        self._outward = Parts(self._part_to_port)
        self._inward = Parts(self._part_from_port)
        self._between = Parts(self._part_between)
        self._paths: dict[tuple[int, int], int] = {}
        self._of_path: list[tuple[int, int]] = []
        self._path_counts: dict[int, int] = {}
        self._alive: dict[int, Integers] = {}
        self._ports: dict[int, Port] = {}
        self._relays: dict[tuple[int, int], int] = {}

    def by_bundles(self) -> Cluster | None:
        """Return the same machine with loads by bundles of links; None where nodes differ."""
        bundles, kept = self._bundled
        if bundles is None:
            return None
        other = copy(self)
        other.bundles, other.kept = bundles, kept
        return other

    @cached_property
    def _bundled(self) -> tuple[LinkBundles | None, BoundedCache]:
        """The bundles of its links, and what was computed about groups with loads by them."""
        return LinkBundles.among(self.links), BoundedCache(MOST_CACHED, MOST_CACHED >> 3)

    @property
    def loaded(self) -> LinkTable | LinkBundles:
        """What loads on links are by: the links, or bundles of them."""
        return self.links if self.bundles is None else self.bundles

    def with_accelerator(self, accelerator: Accelerator) -> Cluster:
        """Return the same machine, links and all, with other software on its devices."""
        other = copy(self)
        other.accelerator = accelerator
        return other

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

    def hops(self, a: int, b: int, part: int = 0) -> list[Hop]:
        """Return the links from device `a` to device `b`, one after another, without the table.

        Parameters
        ----------
        part : of a flow that is divided, each part of which has a path of its own
        """
        size = self.node.devices
        (node_a, local_a), (node_b, local_b) = divmod(a, size), divmod(b, size)
        name_a, name_b = f"n{node_a}", f"n{node_b}"
        if node_a == node_b:
            return list(self.node_at(node_a).hops(name_a, local_a, local_b))
        if self.fabric.rails_apart and self.rail(a) != self.rail(b):
            between = self._forwarder(a, b)
            return [*self.hops(a, between, part), *self.hops(between, b, part)]
        out, home = self.port(a), self.port(b)
        ends = [np.array([number]) for number in (a, b, part)]
        switches = [self._switches(end) for end in ends[:2]]
        path_number = int(self._chosen(*ends, *switches)[0])
        return [
            *self.node_at(node_a).to_nic(name_a, local_a),
            out.up,
            *self._detours.between(out, home, path_number),
            home.down,
            *self.node_at(node_b).from_nic(name_b, local_b),
        ]

    # --- routes ----------------------------------------------------------------------------------

    def route(self, a: int, b: int) -> Route:
        """Return the numbered links from device `a` to device `b` and their latency."""
        return _single(self.routes(np.array([a]), np.array([b])))

    def rate(self, route: Route) -> float:
        """Return the payload bandwidth of a route, by its narrowest link [B/s]."""
        return float((self.links.capacities[list(route.links)] / route.shares).min())

    def relayed(self, a: int, b: int) -> Route:
        """Return the route by which a message enters the network on the receiver's rail."""
        return _single(self.relayed_routes(np.array([a]), np.array([b])))

    def routes(self, a: Integers, b: Integers) -> Routes:
        """Return the links of messages from devices `a` to devices `b`, each with its latency.

        Where no cable joins rails, the sender's node forwards to that of the receiver.
        """
        return self.relayed_routes(a, b) if self.fabric.rails_apart else self._direct(a, b)

    def _direct(self, a: Integers, b: Integers) -> Routes:
        return self._divided(a, b, self._routes)

    @cached_property
    def most_parts(self) -> int:
        """Parts of a message, each with a path of its own, at most."""
        return most_parts(self.fabric)

    def _divided(
        self, a: Integers, b: Integers, routes: Callable[[Integers, Integers, Integers], Routes]
    ) -> Routes:
        """Return the routes of messages whose parts have a path each."""
        if self.most_parts == 1 or not len(a):
            return routes(a, b, np.zeros_like(a))
        counts = self._counts(self._switches(a), self._switches(b))
        across = a // self.node.devices != b // self.node.devices
        parts = parts_of(self.fabric, np.where(across, counts, 1))
        of, part = np.repeat(np.arange(len(a)), parts), ranges(np.zeros_like(parts), parts)
        return routes(a[of], b[of], part).gathered(parts)

    def _routes(self, a: Integers, b: Integers, part: Integers) -> Routes:
        size = self.node.devices
        odd = self._faulty(a) | self._faulty(b)
        if odd.any():
            one_by_one = self._enumerated(a[odd], b[odd], part[odd], self.hops)
            others = self._routes(a[~odd], b[~odd], part[~odd])
            return interleaved_routes(odd, one_by_one, others)
        network = a // size != b // size
        if not network.any():
            return self._routes_inside(a, b)
        if network.all():
            return self._routes_across(a, b, part)
        return interleaved_routes(
            network,
            self._routes_across(a[network], b[network], part[network]),
            self._routes_inside(a[~network], b[~network]),
        )

    def _routes_inside(self, a: Integers, b: Integers) -> Routes:
        size = self.node.devices
        counts, links, latency = self._inside.take(a % size * size + b % size)
        links = links + np.repeat(a // size * self.links.of_node, counts)
        return Routes(counts, links, latency, np.zeros(len(a), dtype=np.bool_), np.ones(len(links)))

    def _routes_across(self, a: Integers, b: Integers, part: Integers) -> Routes:
        """Join the part out of a device, the part between two switches and the part in."""
        size, of_node = self.node.devices, self.links.of_node
        out, home = self._outward.take(a % size), self._inward.take(b % size)
        up, down = self._switches(a), self._switches(b)
        steps = None if self.faults.failed else self.fabric.walks(up, down)
        if steps is None:
            middle = self._between.take(self._path_numbers(a, b, part, up, down))
        else:
            middle = steps[0], self.links.step(0) + steps[1], steps[2]
        counts, links = joined(
            [
                (out[0], out[1] + np.repeat(a // size * of_node, out[0])),
                middle[:2],
                (home[0], home[1] + np.repeat(b // size * of_node, home[0])),
            ]
        )
        latency = out[2] + middle[2] + home[2]
        return Routes(counts, links, latency, np.ones(len(a), dtype=np.bool_), np.ones(len(links)))

    def _switches(self, devices: Integers) -> Integers:
        """Return the number of the switch of each device."""
        nodes, rails = self._nic_of(devices)
        numbers = self.fabric.switch_numbers(nodes, rails)
        if self.faults.failed:
            different, first = np.unique(numbers, return_index=True)
            for number, device in zip(different.tolist(), devices[first].tolist(), strict=True):
                self._ports.setdefault(number, self.port(device))
        return numbers

    def _nic_of(self, devices: Integers) -> tuple[Integers, Integers]:
        """Return the node of each device, and the number of its NIC in the node."""
        nodes, local = np.divmod(devices, self.node.devices)
        rails = self._nics[local]
        (odd,) = np.nonzero(self._faulty(devices))
        if len(odd):
            rails[odd] = [self.rail(device) for device in devices[odd].tolist()]
        return nodes, rails

    def _faulty(self, devices: Integers) -> Booleans:
        """Return which devices are of nodes that differ from the others."""
        return np.isin(devices // self.node.devices, np.array([*self.faults.nodes], dtype=np.int64))

    def _enumerated(
        self, a: Integers, b: Integers, part: Integers,
        hops_of: Callable[[int, int, int], list[Hop]],
    ) -> Routes:  # fmt: skip
        """Return the routes of messages one by one."""
        ends = zip(a.tolist(), b.tolist(), part.tolist(), strict=True)
        each = [hops_of(*message) for message in ends]
        links = [self.links.number(hop) for hops in each for hop in hops]
        return Routes(
            np.array([len(hops) for hops in each]),
            np.array(links, dtype=np.int64),
            np.array([sum(hop.latency for hop in hops) for hops in each]),
            a // self.node.devices != b // self.node.devices,
            np.ones(len(links)),
        )

    @cached_property
    def _nics(self) -> Integers:
        return np.array(self.node.nic_of, dtype=np.int64)

    def _chosen(
        self, a: Integers, b: Integers, part: Integers, up: Integers, down: Integers
    ) -> Integers:
        """Return the path of a part of each message, among those without failed links."""
        place = self.fabric.places(*self._nic_of(b))
        flows = Flows(self._counts(up, down), a, b, place, part)
        paths = chosen_paths(self.fabric, flows)
        if not self.faults.failed or not self.fabric.several_paths:
            return paths
        both = np.stack([up * MOST_SWITCHES + down, paths])
        different, inverse = np.unique(both, axis=1, return_inverse=True)
        for number, (pair, path) in enumerate(zip(*different.tolist(), strict=True)):
            if self._blocked(pair, path):
                (moved,) = np.nonzero(inverse.ravel() == number)
                paths[moved] = self._rerouted(pair, path, Flows(*(each[moved] for each in flows)))
        return paths

    def _blocked(self, pair: int, path: int) -> bool:
        """Return whether a path between two switches has a failed link."""
        up, down = map(self.fabric.switch_of, divmod(pair, MOST_SWITCHES))
        return self.faults.blocked(self.fabric.between(up, down, path))

    def _rerouted(self, pair: int, path: int, flows: Flows) -> Integers:
        """Return other paths of flows, chosen among those without failed links; else the same."""
        if pair not in self._alive:
            up, down = map(self.fabric.switch_of, divmod(pair, MOST_SWITCHES))
            self._alive[pair] = np.array(self._detours.alive(up, down), dtype=np.int64)
        alive = self._alive[pair]
        if not len(alive):
            return np.full_like(flows.part, path)
        counts = np.full_like(flows.counts, len(alive))
        moved = flows._replace(counts=counts, part=flows.part + 1)
        return alive[chosen_paths(self.fabric, moved) % len(alive)]

    def _counts(self, up: Integers, down: Integers) -> Integers:
        """Return the equal paths between pairs of switches."""
        different, inverse = np.unique(up * MOST_SWITCHES + down, return_inverse=True)
        return np.array([self._path_count(pair) for pair in different.tolist()])[inverse]

    def _path_numbers(
        self, a: Integers, b: Integers, part: Integers, up: Integers, down: Integers
    ) -> Integers:
        """Return a number for the two switches of each message and the path between them."""
        pairs = up * MOST_SWITCHES + down
        if not self.fabric.several_paths:
            return pairs
        paths = self._chosen(a, b, part, up, down)
        both, index = np.unique(np.stack([pairs, paths]), axis=1, return_inverse=True)
        known = self._paths
        for key in zip(*both.tolist(), strict=True):
            known.setdefault(key, len(known))
        numbers = np.array([known[key] for key in zip(*both.tolist(), strict=True)])
        self._of_path[:] = known
        return numbers[index.ravel()]

    def _path_count(self, pair: int) -> int:
        count = self._path_counts.get(pair)
        if count is None:
            up, down = map(self.fabric.switch_of, divmod(pair, MOST_SWITCHES))
            count = self._path_counts[pair] = min(self.fabric.path_count(up, down), MOST_PATHS)
        return count

    def port(self, device: int) -> Port:
        """Return the port of a device's NIC on its switch."""
        return self.fabric.port(device // self.node.devices, self.rail(device))

    def relayed_routes(self, a: Integers, b: Integers) -> Routes:
        """Return the routes of messages that enter the network on the receiver's rail.

        Inside the sender's node a message is forwarded to the nearest device that uses the NIC of
        the receiver's rail, and sent from there, which avoids the spines of a rail-optimised tree:
        NCCL's PXN (NCCL user guide, `NCCL_PXN_DISABLE`).
        """
        size = self.node.devices
        odd = self._faulty(a) | self._faulty(b)
        if odd.any():
            one_by_one = self._divided(
                a[odd],
                b[odd],
                lambda a, b, part: self._enumerated(a, b, part, self._relayed_hops),
            )
            return interleaved_routes(odd, one_by_one, self.relayed_routes(a[~odd], b[~odd]))
        rails = self._nics[b % size]
        relayed = (a // size != b // size) & (self._nics[a % size] != rails)
        if not relayed.any():
            return self._direct(a, b)
        nics = len(self.node.nic_ends)
        keys, inverse = np.unique(a[relayed] % size * nics + rails[relayed], return_inverse=True)
        relays = np.array([self._relay(*divmod(key, nics)) for key in keys.tolist()])
        neighbours = a[relayed] - a[relayed] % size + relays[inverse]
        to, on = self._direct(a[relayed], neighbours), self._direct(neighbours, b[relayed])
        counts, links = joined([(to.counts, to.links), (on.counts, on.links)])
        _, shares = joined([(to.counts, to.shares), (on.counts, on.shares)])
        through = Routes(counts, links, to.latency + on.latency, on.network, shares)
        return interleaved_routes(relayed, through, self._direct(a[~relayed], b[~relayed]))

    def _relayed_hops(self, a: int, b: int, part: int = 0) -> list[Hop]:
        size, rail = self.node.devices, self.rail(b)
        if a // size == b // size or self.rail(a) == rail or a // size in self.faults.nodes:
            return self.hops(a, b, part)
        neighbour = a - a % size + self._relay(a % size, rail)
        return [*self.hops(a, neighbour), *self.hops(neighbour, b, part)]

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
                    sum(1 for _ in self.node.hops("", local, other))
                    + sum(1 for _ in self.node.to_nic("", other))
                ),
            )
        return relay

    def _forwarder(self, a: int, b: int) -> int:
        """Return the device that forwards from rail to rail: of the sender, or of the receiver.

        The receiver's node forwards where the sender's has no NIC on the rail of the receiver.
        """
        size, rail = self.node.devices, self.rail(b)
        if a // size not in self.faults.nodes:
            return a - a % size + self._relay(a % size, rail)
        for end, needed in ((a, rail), (b, self.rail(a))):
            for local, nic in enumerate(self.node_at(end // size).nic_of):
                if nic == needed:
                    return end - end % size + local
        raise PlanError(
            f"cluster.fabric.links: no NIC that works joins node {a // size} and node {b // size}"
            f" between rails {self.rail(a)} and {rail}"
        )

    @cached_property
    def _detours(self) -> Detours:
        return Detours(self.fabric, self.faults, self.nodes)

    # --- parts of routes -------------------------------------------------------------------------

    def _part_inside(self, key: int) -> Part:
        return self._local(self.node.hops("", *divmod(key, self.node.devices)))

    def _part_to_port(self, local: int) -> Part:
        links, latency = self._local(self.node.to_nic("", local))
        nic = self.node.nic_of[local]
        return [*links, self.links.up(nic)], latency + self.fabric.port(0, nic).cable.latency

    def _part_from_port(self, local: int) -> Part:
        links, latency = self._local(self.node.from_nic("", local))
        nic = self.node.nic_of[local]
        return [self.links.down(nic), *links], self.fabric.port(0, nic).cable.latency + latency

    def _part_between(self, number: int) -> Part:
        pair, path = self._of_path[number] if self.fabric.several_paths else (number, 0)
        up, down = map(self.fabric.switch_of, divmod(pair, MOST_SWITCHES))
        hops = self.fabric.between(up, down, path)
        if self.faults and self.faults.blocked(hops):
            out, home = (self._ports[number] for number in divmod(pair, MOST_SWITCHES))
            hops = self._detours.between(out, home, path)
        return [self.links.number(hop) for hop in hops], sum([hop.latency for hop in hops])

    def _local(self, hops: Iterable[Hop]) -> Part:
        """Return links inside a node by their numbers among those of the node."""
        listed = list(hops)
        numbers = [self.node.link_numbers[hop.name] for hop in listed]
        return numbers, sum([hop.latency for hop in listed])

    # --- other links -----------------------------------------------------------------------------

    def to_crossbar(self, devices: Integers) -> Integers:
        """Return the link from each device up to the crossbar of its node."""
        return self._on_crossbar(devices, [self.node.to_crossbar("", i) for i in self._locals])

    def from_crossbar(self, devices: Integers) -> Integers:
        """Return the link from the crossbar of its node down to each device."""
        return self._on_crossbar(devices, [self.node.from_crossbar("", i) for i in self._locals])

    @property
    def _locals(self) -> range:
        return range(self.node.devices)

    def _on_crossbar(self, devices: Integers, hops: Sequence[Hop]) -> Integers:
        numbers = np.array([self.node.link_numbers[hop.name] for hop in hops])
        nodes, local = np.divmod(devices, self.node.devices)
        links: Integers = nodes * self.links.of_node + numbers[local]
        return links

    def to_switch(self, device: int) -> list[int]:
        """Return the links from a device to the switch of its NIC."""
        node, local = divmod(device, self.node.devices)
        hops = self.node_at(node).to_nic(f"n{node}", local)
        return [self.links.number(hop) for hop in (*hops, self.port(device).up)]

    def between_switches(self, a: Port, b: Port) -> list[int]:
        """Return the links from the switch of one port to that of another, without failed ones."""
        return [self.links.number(hop) for hop in self._detours.between(a, b, 0)]

    def from_switch(self, device: int) -> list[int]:
        """Return the links from the switch of a device's NIC to the device."""
        node, local = divmod(device, self.node.devices)
        hops = self.node_at(node).from_nic(f"n{node}", local)
        return [self.links.number(hop) for hop in (self.port(device).down, *hops)]

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
        return self._host_route(device, self.node.to_host("", device % self.node.devices))

    def from_host(self, device: int) -> Route:
        """Return the links from the memory of its host to a device, as `to_host` does."""
        return self._host_route(device, self.node.from_host("", device % self.node.devices))

    def _host_route(self, device: int, hops: Iterable[Hop]) -> Route:
        links, latency = self._local(hops)
        first = device // self.node.devices * self.links.of_node
        return Route(tuple(first + link for link in links), latency, False, (1.0,) * len(links))

    @cached_property
    def graph(self) -> nx.DiGraph:
        """The machine as a graph of devices, NICs and switches.

        Edges carry ``bandwidth`` [B/s of payload], ``latency`` [s] and ``kind``.
        """
        import networkx as nx  # imported here: it takes 0.12 s, and most runs need no graph

        graph = nx.DiGraph(name=self.name)
        for node in range(self.nodes):
            ports = (self.fabric.port(node, nic) for nic in range(len(self.node.nic_ends)))
            of_nics = (hop for port in ports for hop in (port.up, port.down))
            for hop in (*node_links(self.node, f"n{node}"), *of_nics):
                a, b = hop.name.split(">")
                graph.add_edge(a, b, bandwidth=hop.bandwidth, latency=hop.latency, kind=hop.kind)
        for a, b, hop in self.fabric.edges(self.nodes):
            both = graph.get_edge_data(a, b, {"bandwidth": 0.0})["bandwidth"] + hop.bandwidth
            graph.add_edge(a, b, bandwidth=both, latency=hop.latency, kind=hop.kind)
        return graph


def _single(routes: Routes) -> Route:
    """Return the route of the only message, each link once."""
    shares: dict[int, float] = {}
    for link, share in zip(routes.links.tolist(), routes.shares.tolist(), strict=True):
        shares[link] = shares.get(link, 0.0) + share
    latency, network = float(routes.latency[0]), bool(routes.network[0])
    return Route(tuple(shares), latency, network, tuple(shares.values()))


def build_cluster(
    record: ClusterRecord, nodes: int, passes: float | None = None, faults: Sequence[Fault] = (),
    *, issuer: Issuer = "benchmark",
) -> Cluster:  # fmt: skip
    """Return the first `nodes` nodes of the machine that a cluster file describes.

    Parameters
    ----------
    passes : as in `build_accelerator`
    faults : of its links, NICs and cables
    issuer : of the calls of its library

    Raises
    ------
    PlanError
        as `find_faults` does.
    """
    node, fabric = build_node(record.node), build_fabric(record, nodes)
    library = build_library(record.node.library, record.node.devices)
    return Cluster(
        name=record.name,
        nodes=nodes,
        node=node,
        accelerator=build_accelerator(record.node.accelerator, passes),
        library=library.issued_by(issuer),
        fabric=fabric,
        faults=find_faults(faults, node, fabric, nodes) if faults else NO_FAULTS,
    )
