"""Routes between switches around links that carry nothing.

leaf0 --x-- spine0 --- leaf1        the same flow takes spine1, an equal path; without one, the
  +-------- spine1 -----+           shortest other path of single cables
"""

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from clustersim.errors import PlanError
from clustersim.topology.fabrics import Fabric
from clustersim.topology.faults import Faults
from clustersim.topology.links import Hop, Port

if TYPE_CHECKING:
    import networkx as nx

MOST_PATHS: Final = 1_024
"""Equal paths of which one without a fault is searched, before any other path."""


class Detours:
    """Routes between switches around links that carry nothing.

    Parameters
    ----------
    nodes : of the machine
    """

    def __init__(self, fabric: Fabric, faults: Faults, nodes: int) -> None:
        self._fabric, self._faults, self._nodes = fabric, faults, nodes

    def between(self, a: Port, b: Port, path_number: int) -> list[Hop]:
        """Return the links from one switch to another, on a path without failed ones.

        First an equal path, then the shortest other one.

        Raises
        ------
        PlanError
            when there is none.
        """
        fabric, faults = self._fabric, self._faults
        hops = fabric.between(a.switch, b.switch, path_number)
        if not faults or not faults.blocked(hops):
            return hops
        count = fabric.path_count(a.switch, b.switch)
        for more in range(1, min(count, MOST_PATHS)):
            other = fabric.between(a.switch, b.switch, (path_number + more) % count)
            if not faults.blocked(other):
                return other
        culprit = next(hop.name for hop in hops if hop.name in faults.failed)
        return self._around(a.switch_name, b.switch_name, culprit)

    @cached_property
    def _graph(self) -> "nx.DiGraph":
        """The single cables between switches; none where a bundle has failed as a whole."""
        import networkx as nx

        graph, failed = nx.DiGraph(), self._faults.failed
        cables = [*self._fabric.edges(self._nodes)]
        if not failed.keys().isdisjoint(hop.name for _, _, hop in cables):
            for start, end, hop in cables:
                if hop.name not in failed and not graph.has_edge(start, end):
                    graph.add_edge(start, end, hop=hop)
        return graph

    def _around(self, a: str, b: str, culprit: str) -> list[Hop]:
        """Return the shortest path of single cables without failed ones."""
        import networkx as nx  # imported here: it takes 0.12 s, and most runs need no graph

        graph = self._graph
        if {a, b} <= graph.nodes and nx.has_path(graph, a, b):
            path = nx.shortest_path(graph, a, b)
            return [graph.edges[ends]["hop"] for ends in pairwise(path)]
        where = self._faults.failed[culprit]
        raise PlanError(
            f"{where}.link: without {culprit} there is no route from {a} to {b}, which"
            " cuts the job in two (use type: slow-link, or leave it out)"
        )
