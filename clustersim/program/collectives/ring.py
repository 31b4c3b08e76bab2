"""Rings: each device passes on to the next, and every share of the buffer goes round.

    inside a node                         across nodes, one channel for each member of a node
    d0 -> d1 -> d3 -> d2 -> d0            node 0: c -> ... -> c      (the whole local circle)
    several rings over disjoint links               | NIC of c
    share the data by their bandwidth     node 1: c -> ... -> c      and so on, back to node 0

A collective library finds such rings when it starts (NCCL's and RCCL's channels).  Here they are
found by trying all circles of a node's devices, the widest first, until no link is left over.
An all-reduce goes round twice, its halves once, less one share (Patarasuk and Yuan 2009,
doi:10.1016/j.jpdc.2008.09.002); a broadcast runs along the open chain.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import permutations

from clustersim.cost.collectives import STREAMED, bus_factor
from clustersim.program.collectives.load import Edge, by_node, neighbours
from clustersim.topology.cluster import Cluster
from clustersim.topology.node import Node

Channel = tuple[list[tuple[int, int]], float]
"""Neighbours along one ring, and its share of the data."""


def edges(cluster: Cluster, group: Sequence[int], operation: str) -> Iterator[Edge]:
    """Yield what each neighbour passes to the next, for each byte of the buffer."""
    each = bus_factor(operation, len(group))
    for pairs, share in channels(cluster, group):
        for a, b in _along(pairs, group[0], operation):
            yield a, b, share * each


def flows(cluster: Cluster, group: Sequence[int]) -> int:
    """Return how many rings there are side by side."""
    return len(channels(cluster, group))


def channels(cluster: Cluster, group: Sequence[int]) -> list[Channel]:
    """Return the rings of a group, each with its share of the data."""
    homes = by_node(cluster, group)
    size = cluster.node.devices
    if len(homes) == 1:
        ((home, members),) = homes.items()
        local = tuple([member % size for member in members])
        return [
            ([(home * size + a, home * size + b) for a, b in neighbours(circle)], share)
            for circle, share in local_rings(cluster.node, local)
        ]
    return _across_nodes(cluster, homes)


def _along(pairs: list[tuple[int, int]], root: int, operation: str) -> Iterator[tuple[int, int]]:
    """Yield the neighbours that a collective uses: all, or all but the one that closes a chain."""
    if operation not in STREAMED:
        yield from pairs
        return
    for a, b in pairs:
        if root != (b if operation == "broadcast" else a):
            yield a, b


def walk(cluster: Cluster, members: Sequence[int], channel: int) -> list[int]:
    """Return the members of a node in the order of a ring that starts at the door of a channel.

    The door is the member that talks to other nodes; each member is the door of one channel.
    Channels take turns on the node's own rings, so that they spread over its links.
    """
    size = cluster.node.devices
    home = members[0] // size * size
    circles = local_rings(cluster.node, tuple([member - home for member in members]))
    circle = [home + local for local in circles[channel % len(circles)][0]]
    turn = circle.index(members[channel % len(members)])
    return [*circle[turn:], *circle[:turn]]


def _across_nodes(cluster: Cluster, homes: dict[int, list[int]]) -> list[Channel]:
    """Return one channel for each member of the fullest node: leave and enter by the same index."""
    count = max(len(members) for members in homes.values())
    found: list[Channel] = []
    for channel in range(count):
        doors, pairs = [], []
        for members in homes.values():
            circle = walk(cluster, members, channel)
            doors.append(circle[0])
            pairs += neighbours(circle)
        found.append(([*pairs, *neighbours(doors)], 1 / count))
    return found


@lru_cache(maxsize=256)
def local_rings(node: Node, members: tuple[int, ...]) -> list[tuple[tuple[int, ...], float]]:
    """Return rings over devices of one node, each with its share of the data.

    On a crossbar every order is as good as another: one ring. On direct links, circles of them
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
        if all(pair in left for pair in neighbours((members[0], *rest)))
    ]
    found: list[tuple[tuple[int, ...], float]] = []
    while circles:
        width, best = max((min(left[p] for p in neighbours(c)), c) for c in circles)
        if width <= 0:
            break
        found.append((best, width))
        for pair in neighbours(best):
            left[pair] -= width
        circles = [c for c in circles if all(left[pair] > 0 for pair in neighbours(c))]
    if not found:
        return [(members, 1.0)]
    total = sum(width for _, width in found)
    return [(circle, width / total) for circle, width in found]
