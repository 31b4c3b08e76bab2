"""How much of what the machine could do was used."""

from collections.abc import Iterable
from typing import NamedTuple

from clustersim.program.link_traffic import most_used
from clustersim.program.ops import LinkUse


class HotLink(NamedTuple):
    """One link and the share of the step that its payload would fill it [unitless]."""

    name: str
    capacity: float
    nbytes: float
    utilisation: float


def hottest(links: Iterable[LinkUse], duration: float, count: int = 10) -> list[HotLink]:
    """Return the links that are used most, by share of the step time, then by name.

    Of links that differ in nothing but their number, the first stands for all.
    """
    return [
        HotLink(*link, link.nbytes / link.capacity / duration) for link in most_used(links, count)
    ]
