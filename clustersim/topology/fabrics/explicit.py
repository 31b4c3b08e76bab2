"""Cables one by one: any network that somebody has drawn.

    n0.nic0 -- leaf-a == spine -- leaf-b -- n1.nic0      two cables side by side are two ways

A flow takes one of the ways with fewest links.  They are counted from the far end, each switch
adding up the counts of the next ones, so that way number 17 of a million is found without listing
the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from clustersim.topology.fabrics.port import Port, Switch
from clustersim.topology.links import Hop


@dataclass(frozen=True, eq=False)
class ExplicitFabric:
    """Switches by their names.

    Attributes
    ----------
    ports : where the NICs of each node hang
    cables : from a switch to each of its neighbours, those side by side together
    """

    ports: tuple[tuple[Port, ...], ...]
    cables: dict[str, dict[str, tuple[Hop, ...]]]
    seed: int = 0
    reduces: bool = False
    _found: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict, repr=False)

    def port(self, node: int, nic: int) -> Port:
        """Return the place of a NIC on its switch."""
        return self.ports[node][nic]

    def ways(self, a: Switch, b: Switch) -> int:
        """Return how many ways of fewest links lead from one switch to another."""
        return self._towards(b)[str(a)][1]

    def between(self, a: Switch, b: Switch, way: int = 0) -> list[Hop]:
        """Return the links of one way, counted in the order of the cables."""
        towards, here, hops = self._towards(b), str(a), list[Hop]()
        while here != b:
            steps = towards[here][0]
            for there, cables in self.cables[here].items():
                left, beyond = towards[there]
                if left != steps - 1:
                    continue
                if way < len(cables) * beyond:
                    cable, way = divmod(way, beyond)
                    hops.append(cables[cable])
                    here = there
                    break
                way -= len(cables) * beyond
            else:
                raise AssertionError(f"no way {way} from {a} to {b}")
        return hops

    def _towards(self, end: Switch) -> dict[str, tuple[int, int]]:
        """Return for each switch the links to `end` and the number of ways of that many."""
        end = str(end)
        found = self._found.get(end)
        if found is None:
            found = self._found[end] = {end: (0, 1)}
            front = {end: 1}
            while front:
                steps, reached = found[next(iter(front))][0] + 1, dict[str, int]()
                for near, beyond in front.items():
                    for far, cables in self.cables.get(near, {}).items():
                        if far not in found:
                            reached[far] = reached.get(far, 0) + len(cables) * beyond
                found.update({far: (steps, count) for far, count in reached.items()})
                front = reached
        return found

    def edges(self, nodes: int) -> Iterator[tuple[str, str, Hop]]:
        """Yield every cable between switches, both ways."""
        for a, beside in self.cables.items():
            for b, cables in beside.items():
                for hop in cables:
                    yield a, b, hop

    def bisection(self, nodes: int) -> float:
        """Return the narrowest cut between the first half of the nodes and the others [B/s].

        The halves are taken in the order of the nodes: which halves of any network have the
        narrowest cut is a question that no short calculation answers (Garey, Johnson and
        Stockmeyer 1976, doi:10.1016/0304-3975(76)90059-1).
        """
        if nodes == 1:
            return 0.0
        import networkx as nx  # 0.12 s that a run which asks for no cut need not pay

        graph = nx.DiGraph()
        for a, b, hop in self.edges(nodes):
            beside = graph.get_edge_data(a, b, {"capacity": 0.0})["capacity"]
            graph.add_edge(a, b, capacity=beside + hop.bandwidth)
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
                for a, here in homes.items()
                for b, there in homes.items()
                if len(here | there) > 1
            ),
            default=0,
        )
