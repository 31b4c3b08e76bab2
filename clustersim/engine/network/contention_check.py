"""Whether transfers that were taken to be alone were ever too many for a link.

A passage is all that one rank class sent by one kind of step: the same traffic again and again,
one after another.  Each claims on a link what it takes there at full rate.  Where the claims of
all senders together stay within a link's capacity nothing can go wrong; else the link is swept
through time.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import isinf
from typing import NamedTuple

import numpy as np

from clustersim.errors import SimulationError
from clustersim.timeline import Floats
from clustersim.traffic import Traffic

ROUNDING = 1e-12
"""Share of a link by which claims that fit exactly may come out above it."""


class Passage(NamedTuple):
    """Times at which one traffic was on its links.

    Attributes
    ----------
    sender : who had at most one of them on its way at any time
    rate : of one flow with its links to itself [B/s]
    begin, end : of its bytes, ascending [s]
    """

    sender: int
    traffic: Traffic
    rate: float
    begin: Floats
    end: Floats


def check_delivered(passages: Iterable[Passage]) -> None:
    """Refuse passages that did not have the time for their bytes, or had too much.

    Raises
    ------
    SimulationError
        naming the traffic, when rate times time differs from its bytes by more than 1e-9 and the
        resolution of the clock.
    """
    for _, traffic, rate, begin, end in passages:
        if isinf(rate):
            continue  # nothing limits it: its bytes take no time
        delivered = (end - begin) * rate
        allowed = ROUNDING * 1e3 * traffic.nbytes + rate * end * 4e-15
        if (abs(delivered - traffic.nbytes) > allowed).any():
            raise SimulationError(f"{traffic.name}: delivered other than the {traffic.nbytes:g} B")


def crowded(passages: Iterable[Passage], capacities: Sequence[float]) -> bool:
    """Return whether passages ever claimed more of a link than it has."""
    crossing: dict[int, list[tuple[Passage, float]]] = {}
    for passage in passages:
        for link, weight in zip(passage.traffic.links, passage.traffic.weights, strict=True):
            claim = weight * passage.rate / capacities[link]
            crossing.setdefault(link, []).append((passage, claim))
    swept = {
        tuple((id(passage), claim) for passage, claim in those): those
        for those in crossing.values()
        if _at_most(those) > 1 + ROUNDING
    }
    return any(
        _any_overlap(those) and most_claimed(those) > 1 + ROUNDING for those in swept.values()
    )


def _any_overlap(those: Sequence[tuple[Passage, float]]) -> bool:
    """Whether transfers of different senders were on the link at once; a fifth of a sweep."""
    pairs = combinations((passage for passage, _ in those), 2)
    return any(_overlap(a, b) for a, b in pairs if a.sender != b.sender)


def _overlap(a: Passage, b: Passage) -> bool:
    following = a.end.searchsorted(b.begin, side="right")
    inside = following < len(a.end)
    return bool((a.begin[following[inside]] < b.end[inside]).any())


def _at_most(those: Iterable[tuple[Passage, float]]) -> float:
    """Return the most that could be claimed at once: one transfer at a time from each sender."""
    largest: dict[int, float] = {}
    for passage, claim in those:
        largest[passage.sender] = max(claim, largest.get(passage.sender, 0.0))
    return sum(largest.values())


def most_claimed(those: Iterable[tuple[Passage, float]]) -> float:
    """Return the most of a link that was claimed at any time, share of it; touching is free."""
    times, changes = [], []
    for passage, claim in those:
        times += [passage.begin, passage.end]
        changes += [np.full(len(passage.begin), claim), np.full(len(passage.end), -claim)]
    change = np.concatenate(changes)
    order = np.lexsort((change, np.concatenate(times)))
    return float(np.cumsum(change[order]).max(initial=0.0))
