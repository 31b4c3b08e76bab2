"""Rings: which links a ring collective crosses, and by how much of its data.

    inside a node                         across nodes, one channel for each member of a node
    d0 -> d1 -> d3 -> d2 -> d0            node 0: c -> ... -> c      (the whole local circle)
    several rings over disjoint links               | NIC of c
    share the data by their bandwidth     node 1: c -> ... -> c      and so on, back to node 0

A collective library finds such rings when it starts (NCCL's and RCCL's channels).  Here they are
found by trying all circles of a node's devices, the widest first, until no link is left over.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

from clustersim.topology.cluster import Cluster
from clustersim.topology.node import Node


@dataclass(frozen=True)
class Load:
    """How much of a ring's stream crosses each link.

    Attributes
    ----------
    links, weights : flows of one unit of the stream on each link
    nodes : nodes that the group spans
    """

    links: tuple[int, ...]
    weights: tuple[float, ...]
    nodes: int

    def bandwidth(self, capacities: Sequence[float]) -> float:
        """Return the stream that the slowest link lets through [B/s]."""
        shares = zip(self.links, self.weights, strict=True)
        return min((capacities[link] / weight for link, weight in shares), default=float("inf"))


def ring_load(cluster: Cluster, groups: Sequence[Sequence[int]]) -> Load:
    """Return the load of rings over several groups of devices that run side by side.

    Parameters
    ----------
    groups : devices of each group; those that work at the same time and speed
    """
    weights: dict[int, float] = {}
    nodes = 1
    for group in groups:
        for a, b, share in _hops(cluster, group):
            for link in cluster.route(a, b).links:
                weights[link] = weights.get(link, 0.0) + share
        nodes = max(nodes, len({device // cluster.node.devices for device in group}))
    return Load(tuple(weights), tuple(weights.values()), nodes)


def _hops(cluster: Cluster, group: Sequence[int]) -> Iterator[tuple[int, int, float]]:
    """Yield the neighbours of all rings of a group and the share of the data between them."""
    size = cluster.node.devices
    homes: dict[int, list[int]] = {}
    for device in group:
        homes.setdefault(device // size, []).append(device % size)
    if len(homes) == 1:
        ((home, members),) = homes.items()
        for circle, share in local_rings(cluster.node, tuple(members)):
            for a, b in _circle(circle):
                yield home * size + a, home * size + b, share
        return
    yield from _across_nodes(size, homes)


def _across_nodes(size: int, homes: dict[int, list[int]]) -> Iterator[tuple[int, int, float]]:
    """Yield one channel for each member of the fullest node: leave and enter by the same index."""
    channels = max(len(members) for members in homes.values())
    for channel in range(channels):
        doors = []
        for home, members in homes.items():
            turn = channel % len(members)
            circle = [*members[turn:], *members[:turn]]
            doors.append(home * size + circle[0])
            for a, b in _circle(circle):
                yield home * size + a, home * size + b, 1 / channels
        for a, b in _circle(doors):
            yield a, b, 1 / channels


def _circle(members: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield each member with the next, the last with the first; nothing for one alone."""
    if len(members) > 1:
        yield from zip(members, [*members[1:], members[0]], strict=True)


@lru_cache(maxsize=256)
def local_rings(node: Node, members: tuple[int, ...]) -> list[tuple[tuple[int, ...], float]]:
    """Return rings over devices of one node, each with its share of the data.

    On a crossbar every order is as good as another: one ring. On a mesh, circles of direct links
    are taken, the widest first, and their links used up, until none is left; each carries its
    share by bandwidth. Devices without such a circle are joined in their order by what links
    there are.
    """
    if node.crossbar is not None or len(members) < 3 or len(members) > 8:
        return [(members, 1.0)]
    left = dict(node.widths)
    circles = [
        (members[0], *rest)
        for rest in permutations(members[1:])
        if all(pair in left for pair in _circle((members[0], *rest)))
    ]
    found: list[tuple[tuple[int, ...], float]] = []
    while circles:
        width, best = max((min(left[p] for p in _circle(c)), c) for c in circles)
        if width <= 0:
            break
        found.append((best, width))
        for pair in _circle(best):
            left[pair] -= width
        circles = [c for c in circles if all(left[pair] > 0 for pair in _circle(c))]
    if not found:
        return [(members, 1.0)]
    total = sum(width for _, width in found)
    return [(circle, width / total) for circle, width in found]
