r"""Trees of ranks, and of switches that reduce.

Double binary trees: two trees, half of the buffer each; leaves of one are inner in the other.

        tree one             tree two          in a node, a chain leads from the gateway, which
            4                    3             that communicates with other nodes, to all others:
          /   \                /   \
        2       6            5       1         gateway -> d1 -> d2 -> d3   and back
       / \     / \          / \     / \
      1   3   5   7        6   4   2   0       every member of a node is the gateway of a channel

Sums go up and results come down, both pipelined, so that all links send and receive at once: the
bandwidth of a ring, with latency that grows with the logarithm of the nodes.
Sanders et al. 2009, doi:10.1016/j.parco.2009.09.001; NCCL 2.30, ``src/graph/trees.cc``.

Reductions in switches: a switch sums what it receives and copies what it sends.

In a node (NVLS): each device owns a share.  It reads the share reduced, so that the switch reads it
from all devices, and writes the result, which the switch copies to all:

    up each link:     the whole buffer read by owners, and the own share written
    down each link:   the own share read reduced, and the whole buffer written by owners

Over nodes (NVLS tree): the same inside, and a double binary tree on every rail.  In the fabric
(SHARP): every NIC sends its share up once and receives the sum once.  Graham et al. 2016,
doi:10.1109/COMHPC.2016.006; NCCL 2.30, ``src/device/all_reduce.h``.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

from clustersim.cost.closed_form import StepCounts
from clustersim.program.collectives.algorithm import (
    CROSSBAR,
    HALVES,
    Algorithm,
    Edge,
    Need,
    by_node,
)
from clustersim.program.collectives.ring import ring_edges, ring_from_gateway
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


def nvls_edges(cluster: Cluster, group: Sequence[int], operation: str) -> Iterator[Edge]:
    """Yield what goes to the node's crossbar and comes from it, for each byte of the buffer.

    The rate that is lost in the crossbar counts as additional bytes.
    """
    if len(group) < 2:
        return
    own, reduces = 1 / len(group), cluster.node.reduces
    up = {"all-reduce": 1 + own, "reduce-scatter": 1.0, "all-gather": own}[operation]
    down = {"all-reduce": 1 + own, "reduce-scatter": own, "all-gather": 1.0}[operation]
    for device in group:
        yield device, CROSSBAR, up / reduces
        yield CROSSBAR, device, down / reduces


def nvls_tree_edges(cluster: Cluster, group: Sequence[int], operation: str) -> Iterator[Edge]:
    """Yield what reductions in all nodes send, and the trees between them."""
    nodes = list(by_node(cluster, group).values())
    for members in nodes:
        yield from nvls_edges(cluster, members, operation)
    local = len(nodes[0])
    for index in range(local):
        yield from edges_between([members[index] for members in nodes], 1 / local)


def inside_edges(cluster: Cluster, group: Sequence[int], operation: str) -> Iterator[Edge]:
    """Yield what a reduction in the fabric sends inside nodes: by the crossbar or by rings."""
    for members in by_node(cluster, group).values():
        if cluster.node.reduces:
            yield from nvls_edges(cluster, members, operation)
        else:
            yield from ring_edges(cluster, members, operation)


def shares_in_fabric(cluster: Cluster, group: Sequence[int]) -> Iterator[tuple[int, float]]:
    """Yield the links between nodes that a reduction in the fabric crosses, and its bytes there.

    Every NIC sends its share up once, to the root of a tree of switches, and receives the sum once.
    """
    nodes = list(by_node(cluster, group).values())
    local = len(nodes[0])
    for index in range(local):
        for link in _crossed_links(cluster, [members[index] for members in nodes]):
            yield link, 1 / local


def _crossed_links(cluster: Cluster, gateways: Sequence[int]) -> set[int]:
    """Return the links from one NIC of each node to the root of a tree of switches, and back.

    Each once: where routes of several switches join, one sum continues.
    """
    links: set[int] = set()
    for device in gateways:
        links.update(cluster.to_switch(device), cluster.from_switch(device))
    ports = {port.switch: port for port in map(cluster.port, gateways)}
    root = next(iter(ports.values()))
    for port in ports.values():
        links.update(cluster.between_switches(port, root), cluster.between_switches(root, port))
    return links


NVLS = Algorithm(
    "nvls",
    HALVES,
    lambda operation, span: StepCounts(1, 0),
    nvls_edges,
    need=Need(
        "a group in one node with a switch that reduces",
        lambda groups: groups.cluster.node.reduces > 0 and groups.span.nodes == 1,
    ),
    pipelined=True,
)

NVLS_TREE = Algorithm(
    "nvls-tree",
    ("all-reduce",),
    lambda operation, span: StepCounts(1, 2 * math.log2(span.nodes)),
    nvls_tree_edges,
    need=Need(
        "equally many devices, above one, on several nodes with switches that reduce",
        lambda groups: (
            groups.cluster.node.reduces > 0 and groups.spread and groups.span.fullest > 1
        ),
    ),
    pipelined=True,
)

SHARP = Algorithm(
    "sharp",
    ("all-reduce",),
    lambda operation, span: StepCounts(2 * (span.fullest - 1), 1),
    inside_edges,
    need=Need(
        "equally many devices on several nodes of a fabric with switches that reduce",
        lambda groups: groups.cluster.fabric.reduces and groups.spread,
    ),
    pipelined=True,
    switched=shares_in_fabric,
)
