"""Collectives in two levels: inside each node, then between nodes on every rail at once.

    node 0   d0 == d1 == d2 == d3        1. reduce-scatter inside each node
              |     |     |     |        2. all-reduce between nodes, one ring for each local index
    node 1   d0 == d1 == d2 == d3        3. all-gather inside each node

Cut into pieces, the levels work at the same time, so the slower one sets the pace.
"""

from collections.abc import Iterator, Sequence

from clustersim.cost.collectives import bus_factor
from clustersim.program.collectives import ring
from clustersim.program.collectives.load import Edge, by_node, neighbours
from clustersim.topology.cluster import Cluster


def edges(cluster: Cluster, group: Sequence[int], operation: str) -> Iterator[Edge]:
    """Yield what each neighbour passes on in its node and on its rail, for each byte."""
    homes = list(by_node(cluster, group).values())
    local = len(homes[0])
    for members in homes:
        yield from ring.edges(cluster, members, operation)
    for index in range(local):
        for a, b in neighbours([members[index] for members in homes]):
            yield a, b, bus_factor(operation, len(homes)) / local
