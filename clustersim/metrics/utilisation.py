"""How much of what the machine could do was used."""

from collections.abc import Iterable
from typing import NamedTuple

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
    used = [(-link.nbytes / link.capacity / duration, link) for link in links]
    kinds: dict[tuple[str, float], HotLink] = {}
    for less, link in sorted(used):
        if len(kinds) == count:
            break
        kind = _kind(link.name), round(-less, 9)
        if kind not in kinds:
            kinds[kind] = HotLink(*link, -less)
    return list(kinds.values())


_DIGITS = dict.fromkeys(map(ord, "0123456789"))


def _kind(name: str) -> str:
    """Return a link's name without numbers: ``"n3.dev1>n3.nic0"`` is a ``"n.dev>n.nic"``."""
    return name.translate(_DIGITS)
