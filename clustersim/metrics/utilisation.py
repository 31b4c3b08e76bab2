"""How much of what the machine could do was used."""

from collections.abc import Iterable
from dataclasses import dataclass

from clustersim.program.link_usage import most_used
from clustersim.program.program import LinkUse


@dataclass(frozen=True)
class HotLink:
    """A link and how busy it is.

    Attributes
    ----------
    name : of the link; of links that are alike, the first
    capacity : payload that it can carry [B/s]
    nbytes : payload and protocol that it carries in the step [B]
    utilisation : `nbytes` over `capacity`, over step time
    """

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
