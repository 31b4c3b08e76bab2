"""A list of cables: any network, cable by cable.

    n0.nic0 -- leaf-a == spine -- leaf-b -- n1.nic0      two parallel cables are two paths

A flow takes one of the paths with fewest links.  They are counted from the destination, each switch
adding the counts of its successors, so that path 17 of a million is found without enumerating the
others.
"""

import re
from collections.abc import Iterator
from dataclasses import field
from functools import cached_property

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.catalog.fabrics import LinkList
from clustersim.errors import CatalogError
from clustersim.records import dataclass
from clustersim.topology.fabrics.fabric import Fabric
from clustersim.topology.links import Hop, Port, Switch


@dataclass(frozen=True, eq=False)
class ExplicitFabric(Fabric):
    """A network of named switches.

    Attributes
    ----------
    nics : NICs of a node
    ports : the ports of the NICs of each node
    cables : from a switch to each of its neighbours, parallel ones together
    rails_apart : whether NICs of different numbers are not connected
    """

    nics: int
    ports: tuple[tuple[Port, ...], ...]
    cables: dict[str, dict[str, tuple[Hop, ...]]]
    routing: str = "hashed"
    seed: int = 0
    queue_pairs: int = 1
    rails_apart: bool = False
    _paths_to: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict, repr=False)

    def port(self, node: int, nic: int) -> Port:
        """Return the port of a NIC on its switch."""
        return self.ports[node][nic]

    def port_bandwidths(self, nodes: int) -> Floats:
        """Return the payload bandwidth of the cable of each NIC, by node and NIC [B/s]."""
        return np.array([[port.cable.bandwidth for port in ports] for ports in self.ports[:nodes]])

    def switch_numbers(self, nodes: Integers, nics: Integers) -> Integers:
        """Return a number for the switch of each NIC, in the order of the ports."""
        return self._numbers[nodes, nics]

    @cached_property
    def _switches(self) -> list[Switch]:
        """The switches with NICs, in the order of the ports."""
        return [*dict.fromkeys(port.switch for ports in self.ports for port in ports)]

    @cached_property
    def _numbers(self) -> Integers:
        numbers = {switch: number for number, switch in enumerate(self._switches)}
        return np.array([[numbers[port.switch] for port in ports] for ports in self.ports])

    def switch_of(self, number: int) -> Switch:
        """Return the switch of a number."""
        return self._switches[number]

    @property
    def several_paths(self) -> bool:
        """Whether there are several equal paths between any two switches."""
        return True

    @cached_property
    def most_paths(self) -> int:
        """The most shortest paths between two switches with NICs."""
        return max(self.path_count(a, b) for a in self._switches for b in self._switches)

    def path_count(self, a: Switch, b: Switch) -> int:
        """Return the number of shortest paths from one switch to another."""
        return self._towards(b).get(str(a), (0, 0))[1]

    def between(self, a: Switch, b: Switch, path_number: int = 0) -> list[Hop]:
        """Return the links of one path, numbered in the order of the cables."""
        towards, here, hops = self._towards(b), str(a), list[Hop]()
        while here != b:
            steps = towards[here][0]
            for neighbour, cables in self.cables[here].items():
                left, beyond = towards[neighbour]
                if left != steps - 1:
                    continue
                if path_number < len(cables) * beyond:
                    cable, path_number = divmod(path_number, beyond)
                    hops.append(cables[cable])
                    here = neighbour
                    break
                path_number -= len(cables) * beyond
            else:
                raise AssertionError(f"no path {path_number} from {a} to {b}")
        return hops

    def _towards(self, end: Switch) -> dict[str, tuple[int, int]]:
        """Return for each switch the distance to `end` and the number of paths of that length."""
        end = str(end)
        paths = self._paths_to.get(end)
        if paths is None:
            paths = self._paths_to[end] = {end: (0, 1)}
            front = {end: 1}
            while front:
                steps, reached = paths[next(iter(front))][0] + 1, dict[str, int]()
                for near, beyond in front.items():
                    for far, cables in self.cables.get(near, {}).items():
                        if far not in paths:
                            reached[far] = reached.get(far, 0) + len(cables) * beyond
                paths.update({far: (steps, count) for far, count in reached.items()})
                front = reached
        return paths

    def edges(self, nodes: int) -> Iterator[tuple[str, str, Hop]]:
        """Yield every cable between switches in both directions."""
        for a, neighbours in self.cables.items():
            for b, cables in neighbours.items():
                for hop in cables:
                    yield a, b, hop

    def bisection(self, nodes: int) -> float:
        """Return the narrowest cut between the first half of the nodes and the others [B/s].

        The halves are taken in the order of the nodes: finding the halves with the narrowest cut of
        a general network is NP-hard (Garey, Johnson and Stockmeyer 1976,
        doi:10.1016/0304-3975(76)90059-1).
        """
        if nodes == 1:
            return 0.0
        import networkx as nx  # imported here: it takes 0.12 s

        graph = nx.DiGraph()
        for a, b, hop in self.edges(nodes):
            parallel = graph.get_edge_data(a, b, {"capacity": 0.0})["capacity"]
            graph.add_edge(a, b, capacity=parallel + hop.bandwidth)
        for node in range(nodes):
            for port in self.ports[node]:
                wide = port.cable.bandwidth
                if node < nodes // 2:
                    graph.add_edge(("half", 0), port.nic_name)
                    graph.add_edge(port.nic_name, port.switch_name, capacity=wide)
                else:
                    graph.add_edge(port.nic_name, ("half", 1))
                    graph.add_edge(port.switch_name, port.nic_name, capacity=wide)
        return float(nx.maximum_flow_value(graph, ("half", 0), ("half", 1)))

    def diameter(self, nodes: int) -> int:
        """Return the most links between NICs of two nodes."""
        homes: dict[Switch, set[int]] = {}
        for node in range(nodes):
            for port in self.ports[node]:
                homes.setdefault(port.switch, set()).add(node)
        return max(
            (
                2 + self._towards(b)[str(a)][0]
                for a, first in homes.items()
                for b, second in homes.items()
                if len(first | second) > 1 and str(a) in self._towards(b)
            ),
            default=0,
        )


KEY = "cluster.fabric.links"
"""The key that error messages name."""

NIC = re.compile(r"n(?:0|[1-9]\d*)\.nic(0|[1-9]\d*)")

Cables = dict[str, dict[str, tuple[Hop, ...]]]


def build_explicit(
    shape: LinkList, nic: Hop, efficiency: float, nics: int, nodes: int
) -> ExplicitFabric:
    """Return the network of a list of cables.

    Parameters
    ----------
    nic : payload bandwidth and latency of a NIC
    efficiency : share of a cable's bandwidth that is payload

    Raises
    ------
    CatalogError
        when a NIC has no cable or two, or when two NICs of one number are not connected.
    """
    ports: dict[str, Port] = {}
    cables: Cables = {}
    for number, (a, b, bandwidth) in enumerate(shape.links):
        _check_ends(number, a, b, nics)
        wide = bandwidth * efficiency
        if _is_nic(a) or _is_nic(b):
            _plug(number, _ports(a, b, nic._replace(bandwidth=min(wide, nic.bandwidth))), ports)
        else:
            cable = Hop("", wide, shape.latency, "cable")
            _lay(cable, a, b, cables)
            _lay(cable, b, a, cables)
    names_by_node = [[f"n{node}.nic{i}" for i in range(nics)] for node in range(nodes)]
    _check_complete(names_by_node, ports)
    ports_by_node = tuple(tuple(ports[name] for name in names) for names in names_by_node)
    return ExplicitFabric(
        nics, ports_by_node, cables, shape.routing or "hashed", shape.seed, shape.queue_pairs,
        rails_apart=_rails_apart(ports_by_node, cables),
    )  # fmt: skip


def _plug(number: int, plugs: list[Port], ports: dict[str, Port]) -> None:
    """Add the NICs at the ends of cable `number`; each NIC has one cable."""
    for port in plugs:
        if port.nic_name in ports:
            raise CatalogError(
                f"{KEY}[{number}]: {port.nic_name} has a second cable"
                " (a NIC has one; put a switch between)"
            )
        ports[port.nic_name] = port


def _lay(cable: Hop, a: str, b: str, cables: Cables) -> None:
    """Add a cable from one switch to another, next to existing ones."""
    parallel = cables.setdefault(a, {}).get(b, ())
    name = f"{a}>{b}" + (f"#{len(parallel)}" if parallel else "")
    cables[a][b] = (*parallel, cable._replace(name=name))


def _ports(a: str, b: str, cable: Hop) -> list[Port]:
    """Return the NICs at the ends of a cable; between two NICs, its middle acts as a switch."""
    if _is_nic(a) and _is_nic(b):
        middle = f"{a}-{b}"
        return [Port(middle, end, cable, middle) for end in (a, b)]
    nic, switch = (a, b) if _is_nic(a) else (b, a)
    return [Port(switch, nic, cable, switch)]


def _is_nic(end: str) -> bool:
    return NIC.fullmatch(end) is not None


def _check_ends(number: int, a: str, b: str, nics: int) -> None:
    if a == b:
        raise CatalogError(f"{KEY}[{number}]: joins {a} to itself")
    for end in (a, b):
        nic = NIC.fullmatch(end)
        if (nic is None and re.match(r"n\d+\.", end)) or (nic and int(nic[1]) >= nics):
            raise CatalogError(
                f"{KEY}[{number}]: {end} is not a NIC: a node has nic0 to nic{nics - 1}"
            )
        if not end or {">", "#"} & set(end):
            raise CatalogError(
                f"{KEY}[{number}]: {end!r} is not a valid name ('>' and '#' are not allowed)"
            )


def _check_complete(names_by_node: list[list[str]], ports: dict[str, Port]) -> None:
    missing = [name for names in names_by_node for name in names if name not in ports]
    if missing:
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        raise CatalogError(
            f"{KEY}: no cable for {missing[0]}{more}"
            f" (each NIC of the {len(names_by_node)} nodes needs one:"
            f" [{missing[0]}, SWITCH, BANDWIDTH])"
        )


def _rails_apart(ports_by_node: tuple[tuple[Port, ...], ...], cables: Cables) -> bool:
    """Return whether rails are connected inside their nodes alone; check that each one is."""
    rails = [*zip(*ports_by_node, strict=True)]
    for ports in rails:
        joined = _reached(ports[0], cables)
        for port in ports:
            if str(port.switch) not in joined:
                names = f"{ports[0].nic_name} and {port.nic_name}"
                raise CatalogError(f"{KEY}: {names} are not connected")
    joined = _reached(rails[0][0], cables)
    return any(str(ports[0].switch) not in joined for ports in rails)


def _reached(port: Port, cables: Cables) -> set[str]:
    """Return the switches that a NIC is connected to."""
    joined = front = {str(port.switch)}
    while front:
        front = {far for near in front for far in cables.get(near, {})} - joined
        joined = joined | front
    return joined
