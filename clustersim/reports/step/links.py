"""The utilisation of links: the busiest links of the job, and all links of one node.

Utilisation is the mean over the step, so a link that is full for a moment and idle otherwise has a
low one.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from clustersim.render.charts.picture import Column, Table
from clustersim.render.page.page import Section
from clustersim.render.tables import percent
from clustersim.units import format_bandwidth, format_bytes

if TYPE_CHECKING:
    from clustersim.metrics.communication import HotLink
    from clustersim.simulation.step.result import Result

_NODE: Final = re.compile(r"(?:^|>)(n\d+)\.")
"""A node at either end of a link: ``n3.dev0>n3.nic0``, ``leaf7>n3.nic0``."""


class NodeLink(NamedTuple):
    """A link of the node that is drawn.

    Attributes
    ----------
    ends : names in the node, ``("dev0", "nic0")``; for an end outside of it, that in the network
    capacity : payload per second [B/s]
    load : utilisation over the step [unitless]
    """

    ends: tuple[str, str]
    capacity: float
    load: float


@dataclass(frozen=True)
class LinkLoads:
    """The busiest links of a job, and all links of one node.

    Attributes
    ----------
    busiest : the links with the highest utilisation, the highest first
    node : the name of the node that is drawn, ``n0``
    inside, cables : its links in each direction; cables lead to the network
    count : links of the job that carry payload
    """

    busiest: "tuple[HotLink, ...]"
    node: str
    inside: tuple[NodeLink, ...]
    cables: tuple[NodeLink, ...]
    count: int


def link_loads(result: "Result") -> LinkLoads:
    """Return the busiest links, and all links of the node at the busiest one that has a node."""
    matches = (_NODE.search(link.name) for link in result.links)
    node = next((match[1] for match in matches if match), "n0")
    prefix = f"{node}."
    inside: list[NodeLink] = []
    cables: list[NodeLink] = []
    for name, capacity, nbytes in result.program.carried.of_node(int(node[1:])):
        a, _, b = name.partition(">")
        in_node = [end.startswith(prefix) for end in (a, b)]
        ends = a.removeprefix(prefix), b.removeprefix(prefix)
        load = nbytes / capacity / result.step_time
        (inside if all(in_node) else cables).append(NodeLink(ends, capacity, load))
    count = len(result.program.carried)
    return LinkLoads(tuple(result.links), node, tuple(inside), tuple(cables), count)


def links(result: "Result") -> Section:
    """Return the busiest links as a table, and a drawing of a node with the load of its links."""
    from clustersim.render.layouts.node import node
    from clustersim.reports.step.node_drawing import drawing

    cluster, loads = result.scenario.cluster, link_loads(result)
    drawn = drawing(loads, node(cluster.node, cluster.nic))
    text = (
        "Utilisation is payload over capacity, mean of the step, in each direction."
        " Of identical links only the first is listed."
    )
    return Section("Link utilisation", "links", (text,), (_table(loads), drawn))


def _table(loads: LinkLoads) -> Table:
    columns = (
        Column("link"), Column("utilisation", True), Column("capacity", True),
        Column("payload per step", True),
    )  # fmt: skip
    lines = tuple(
        (
            link.name,
            percent(link.utilisation),
            format_bandwidth(link.capacity),
            format_bytes(link.nbytes),
        )
        for link in loads.busiest
    )
    return Table(f"Busiest of {loads.count:,} links in use", columns, lines)
