r"""Double binary trees: two trees, half of the buffer each; leaves of one are inner in the other.

        tree one             tree two          in a node, a chain leads from the gateway, which
            4                    3             that communicates with other nodes, to all others:
          /   \                /   \
        2       6            5       1         gateway -> d1 -> d2 -> d3   and back
       / \     / \          / \     / \
      1   3   5   7        6   4   2   0       every member of a node is the gateway of a channel

Sums go up and results come down, both pipelined, so that all links send and receive at once: the
bandwidth of a ring, with latency that grows with the logarithm of the nodes.
Sanders et al. 2009, doi:10.1016/j.parco.2009.09.001; NCCL 2.30, ``src/graph/trees.cc``.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

from clustersim.cost.closed_form import StepCounts
from clustersim.program.collectives.algorithm import Algorithm, Edge, Need, by_node
from clustersim.program.collectives.ring import ring_from_gateway
from clustersim.topology.cluster import Cluster


def tree_edges(cluster: Cluster, group: Sequence[int], operation: str) -> Iterator[Edge]:
    """Yield what is sent up and down both trees and the chains, for each byte of the buffer."""
    nodes = list(by_node(cluster, group).values())
    count = max(len(members) for members in nodes)
    for channel in range(count):
        gateways = []
        for members in nodes:
            chain = ring_from_gateway(cluster, members, channel)
            gateways.append(chain[0])
            yield from _both_ways(zip(chain[1:], chain[:-1], strict=True), 1 / count)
        yield from edges_between(gateways, 1 / count)


def edges_between(gateways: Sequence[int], share: float) -> Iterator[Edge]:
    """Yield what is sent up and down the two trees over devices of different nodes."""
    for parents in double_tree(len(gateways)):
        links = [(gateways[i], gateways[p]) for i, p in enumerate(parents) if p is not None]
        yield from _both_ways(links, share / 2)


def _both_ways(links: Iterable[tuple[int, int]], share: float) -> Iterator[Edge]:
    for a, b in links:
        yield a, b, share
        yield b, a, share


def double_tree(count: int) -> tuple[list[int | None], list[int | None]]:
    """Return each member's parent in two binary trees; None for the root.

    The first is the in-order tree over 0 to count - 1 in which odd numbers are leaves; the second
    is the first in reverse where `count` is even, or shifted by one where it is odd.

    >>> double_tree(4)
    ([None, 2, 0, 2], [1, 3, 1, None])
    """
    first = [_parent(i, count) for i in range(count)]
    if count % 2:
        shifted: list[int | None] = [None] * count
        for i, parent in enumerate(first):
            shifted[(i + 1) % count] = None if parent is None else (parent + 1) % count
        return first, shifted
    last = count - 1
    reversed_ = [None if p is None else last - p for p in reversed(first)]
    return first, reversed_


def _parent(number: int, count: int) -> int | None:
    """Return the parent in the in-order tree whose root is 0 and whose levels are lowest bits."""
    if number == 0:
        return None
    bit = number & -number
    parent = (number ^ bit) | (bit << 1)
    return number ^ bit if parent >= count else parent


TREE = Algorithm(
    "tree",
    ("all-reduce", "barrier"),
    lambda operation, span: StepCounts(
        2 * (span.fullest - 1), 2 * math.ceil(math.log2(span.nodes))
    ),
    tree_edges,
    need=Need("a group over several nodes", lambda groups: groups.span.nodes > 1),
    pipelined=True,
)
