"""Reductions in switches: a switch sums what it receives and copies what it sends.

In a node (NVLS): each device owns a share.  It reads the share reduced, so that the switch reads it
from all devices, and writes the result, which the switch copies to all:

    up each link:     the whole buffer read by owners, and the own share written
    down each link:   the own share read reduced, and the whole buffer written by owners

Over nodes (NVLS tree): the same inside, and a double binary tree on every rail.  In the fabric
(SHARP): every NIC sends its share up once and receives the sum once.  Graham et al. 2016,
doi:10.1109/COMHPC.2016.006; NCCL 2.30, ``src/device/all_reduce.h``.
"""

import math
from collections.abc import Iterator, Sequence

from clustersim.cost.closed_form import StepCounts
from clustersim.program.collectives.algorithm import (
    CROSSBAR,
    HALVES,
    Algorithm,
    Edge,
    Need,
    by_node,
)
from clustersim.program.collectives.double_tree import edges_between
from clustersim.program.collectives.ring import ring_edges
from clustersim.topology.cluster import Cluster


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
