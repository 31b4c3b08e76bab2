"""Links, the hottest first, and a node with the hottest link that a node has.

What a link carries is counted over the whole step, so that one that is filled for a moment and
idle else counts little: it is the room that is left, not the longest queue.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from clustersim.render.page.page import Column, Drawing, Section, Table
from clustersim.render.tables import percent
from clustersim.units import format_bandwidth, format_bytes

if TYPE_CHECKING:
    from clustersim.metrics.utilisation import HotLink
    from clustersim.simulation.simulate import Result

_NODE: Final = re.compile(r"(?:^|>)(n\d+)\.")
"""A node at either end of a link: ``n3.dev0>n3.nic0``, ``leaf7>n3.nic0``."""


class Used(NamedTuple):
    """A link of the node that is drawn, and its utilisation [unitless].

    Attributes
    ----------
    ends : as the node calls them, ``("dev0", "nic0")``; outside of it as the network does
    capacity : payload per second [B/s]
    """

    ends: tuple[str, str]
    capacity: float
    load: float


@dataclass(frozen=True)
class LinksPicture:
    """The hottest links of a job, and all links of one node.

    Attributes
    ----------
    hottest : the links with the highest utilisation, the highest first
    node : the name of the node that is drawn, ``n0``
    inside, cables : its links, each direction its own; cables are those to the network
    used : links of the job that carry something
    """

    hottest: "tuple[HotLink, ...]"
    node: str
    inside: tuple[Used, ...]
    cables: tuple[Used, ...]
    used: int


def links_picture(result: "Result") -> LinksPicture:
    """Return the hottest links, and all those of the node at the hottest that ends at one."""
    found = (_NODE.search(link.name) for link in result.links)
    node = next((each[1] for each in found if each), "n0")
    prefix = f"{node}."
    inside: list[Used] = []
    cables: list[Used] = []
    for name, capacity, nbytes in result.program.carried:
        if prefix in name:
            a, _, b = name.partition(">")
            here = [end.startswith(prefix) for end in (a, b)]
            ends = a.removeprefix(prefix), b.removeprefix(prefix)
            load = nbytes / capacity / result.step_time
            if any(here):
                (inside if all(here) else cables).append(Used(ends, capacity, load))
    used = len(result.program.carried)
    return LinksPicture(tuple(result.links), node, tuple(inside), tuple(cables), used)


def links(picture: LinksPicture, node: Drawing) -> Section:
    """Return the hottest links as a table, and the drawing of a node with what its links carry."""
    said = (
        "How much of what a link could carry in the step it did carry, per direction."
        " Of links that are alike only the first is named."
    )
    return Section("Links", "links", (said,), (_table(picture), node))


def _table(picture: LinksPicture) -> Table:
    columns = (
        Column("link"), Column("of its capacity", True), Column("capacity", True),
        Column("carries in a step", True),
    )  # fmt: skip
    lines = tuple(
        (
            link.name,
            percent(link.utilisation),
            format_bandwidth(link.capacity),
            format_bytes(link.nbytes),
        )
        for link in picture.hottest
    )
    return Table(f"The hottest of {picture.used:,} links that are used", columns, lines)


__all__ = ["LinksPicture", "Used", "links", "links_picture"]
