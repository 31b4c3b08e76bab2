"""Rings: each device sends to the next, and every share of the buffer goes round.

    inside a node                         across nodes, one channel for each member of a node
    d0 -> d1 -> d3 -> d2 -> d0            node 0: c -> ... -> c      (the whole local ring)
    several rings over disjoint links               | NIC of c
    share the data by their bandwidth     node 1: c -> ... -> c      and so on, back to node 0

A collective library finds such rings when it starts (NCCL's and RCCL's channels).  Here they are
found by enumerating the cycles of a node's devices, the widest first, until no link remains.
An all-reduce goes round twice, its halves once, less one share (Patarasuk and Yuan 2009,
doi:10.1016/j.jpdc.2008.09.002); a broadcast runs along the open chain.

A hierarchical collective has two levels: rings inside each node, then rings between nodes on every
rail at once.

    node 0   d0 == d1 == d2 == d3        1. reduce-scatter inside each node
              |     |     |     |        2. all-reduce between nodes, one ring for each local index
    node 1   d0 == d1 == d2 == d3        3. all-gather inside each node

Cut into pieces, the levels run at the same time, so the slower one sets the pace.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import permutations

from clustersim.cost.closed_form import STREAMED, GroupSpan, StepCounts, bus_factor, passes
from clustersim.program.collectives.algorithm import (
    HALVES,
    Algorithm,
    Edge,
    Need,
    by_node,
    neighbours,
)
from clustersim.topology.cluster import Cluster
from clustersim.topology.node import Node

Channel = tuple[list[tuple[int, int]], float]
"""Neighbours along one ring, and its share of the data."""


def ring_edges(cluster: Cluster, group: Sequence[int], operation: str) -> Iterator[Edge]:
    """Yield what each neighbour sends to the next, for each byte of the buffer."""
    factor = bus_factor(operation, len(group))
    for pairs, share in channels(cluster, group):
        for a, b in _along(pairs, group[0], operation):
            yield a, b, share * factor


def hierarchical_edges(cluster: Cluster, group: Sequence[int], operation: str) -> Iterator[Edge]:
    """Yield what each neighbour sends in its node and on its rail, for each byte of the buffer."""
    nodes = list(by_node(cluster, group).values())
    local = len(nodes[0])
    for members in nodes:
        yield from ring_edges(cluster, members, operation)
    for index in range(local):
        for a, b in neighbours([members[index] for members in nodes]):
            yield a, b, bus_factor(operation, len(nodes)) / local


def channels(cluster: Cluster, group: Sequence[int]) -> list[Channel]:
    """Return the rings of a group, each with its share of the data."""
    nodes = by_node(cluster, group)
    size = cluster.node.devices
    if len(nodes) == 1:
        ((node, members),) = nodes.items()
        local = tuple([member % size for member in members])
        return [
            ([(node * size + a, node * size + b) for a, b in neighbours(cycle)], share)
            for cycle, share in local_rings(cluster.node, local)
        ]
    return _across_nodes(cluster, nodes)


def _along(pairs: list[tuple[int, int]], root: int, operation: str) -> Iterator[tuple[int, int]]:
    """Yield the neighbours that a collective uses: all, or all but the one that closes the ring."""
    if operation not in STREAMED:
        yield from pairs
        return
    for a, b in pairs:
        if root != (b if operation == "broadcast" else a):
            yield a, b


def ring_from_gateway(cluster: Cluster, members: Sequence[int], channel: int) -> list[int]:
    """Return the members of a node in the order of a ring that starts at the gateway of a channel.

    The gateway is the member that communicates with other nodes; each member is the gateway of one
    channel. Channels alternate between the node's own rings, to spread over its links.
    """
    size = cluster.node.devices
    home = members[0] // size * size
    cycles = local_rings(cluster.node, tuple([member - home for member in members]))
    cycle = [home + local for local in cycles[channel % len(cycles)][0]]
    turn = cycle.index(members[channel % len(members)])
    return [*cycle[turn:], *cycle[:turn]]


def _across_nodes(cluster: Cluster, nodes: dict[int, list[int]]) -> list[Channel]:
    """Return one channel for each member of the fullest node: leave and enter by the same index."""
    count = max(len(members) for members in nodes.values())
    channels: list[Channel] = []
    for channel in range(count):
        gateways, pairs = [], []
        for members in nodes.values():
            cycle = ring_from_gateway(cluster, members, channel)
            gateways.append(cycle[0])
            pairs += neighbours(cycle)
        channels.append(([*pairs, *neighbours(gateways)], 1 / count))
    return channels


@lru_cache(maxsize=256)
def local_rings(node: Node, members: tuple[int, ...]) -> list[tuple[tuple[int, ...], float]]:
    """Return rings over devices of one node, each with its share of the data.

    On a crossbar all orders are equivalent: one ring. On direct links, the cycle with the largest
    bandwidth is taken and subtracted from its links, until no cycle remains; each carries its
    share by bandwidth. Devices without a cycle form a ring in their order.
    """
    if node.crossbar is not None or len(members) < 3 or len(members) > 8:
        return [(members, 1.0)]
    spare = dict(node.widths)
    cycles = [
        (members[0], *rest)
        for rest in permutations(members[1:])
        if all(pair in spare for pair in neighbours((members[0], *rest)))
    ]
    rings: list[tuple[tuple[int, ...], float]] = []
    while cycles:
        width, best = max((min(spare[p] for p in neighbours(c)), c) for c in cycles)
        if width <= 0:
            break
        rings.append((best, width))
        for pair in neighbours(best):
            spare[pair] -= width
        cycles = [c for c in cycles if all(spare[pair] > 0 for pair in neighbours(c))]
    if not rings:
        return [(members, 1.0)]
    total = sum(width for _, width in rings)
    return [(cycle, width / total) for cycle, width in rings]


def _ring_steps(operation: str, span: GroupSpan) -> StepCounts:
    times = 1 if operation in STREAMED else passes(operation)
    return StepCounts(times * (span.ranks - span.nodes), times * (span.nodes - 1))


def _hierarchical_steps(operation: str, span: GroupSpan) -> StepCounts:
    times = passes(operation)
    return StepCounts(times * (span.fullest - 1), times * (span.nodes - 1))


RING = Algorithm(
    "ring",
    (*HALVES, "broadcast", "reduce", "barrier"),
    _ring_steps,
    ring_edges,
    pipelined=True,
    doubled=True,
    paired=True,
    flows=lambda cluster, group: len(channels(cluster, group)),
)

HIERARCHICAL = Algorithm(
    "hierarchical",
    HALVES,
    _hierarchical_steps,
    hierarchical_edges,
    need=Need(
        "equally many devices, above one, on several nodes",
        lambda groups: groups.spread and groups.span.fullest > 1,
    ),
    pipelined=True,
    doubled=True,
)
