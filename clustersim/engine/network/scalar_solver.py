"""The few transfers that share links, solved component by component: plain Python, no arrays.

Where two or ten transfers meet this is ten times as fast as arrays; see `crowd.py` for the rest.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from math import inf

from clustersim.engine.network.fairness import max_min_rates
from clustersim.engine.network.transfer import Route, Transfer


class Handful:
    """Transfers that share links, and the order in which they will be through."""

    def __init__(self, capacities: Sequence[float]) -> None:
        self._capacities = capacities
        self._members: dict[int, Transfer] = {}
        self._ends: list[tuple[float, int]] = []

    def join(self, transfer: Transfer) -> None:
        """Take a transfer in, at the rate and end that it has."""
        self._members[transfer.number] = transfer
        if transfer.end < inf:
            heappush(self._ends, (transfer.end, transfer.number))

    def hand_over(self, transfers: Iterable[Transfer]) -> None:
        """Let transfers go on elsewhere."""
        for transfer in transfers:
            del self._members[transfer.number]

    def solve(
        self, transfers: Sequence[Transfer], crowded: Sequence[int], now: float
    ) -> tuple[float, int]:
        """Give one connected component the rates it now has; return the worst load and its link.

        Transfers of one route are one class: their weights add up and their rates are equal.
        """
        classes: dict[Route, list[Transfer]] = {}
        for transfer in transfers:
            classes.setdefault(transfer.route, []).append(transfer)
        place = {link: i for i, link in enumerate(crowded)}
        capacities = [self._capacities[link] for link in crowded]
        links, weights = _crossings(classes, place)
        rates = max_min_rates(capacities, links, weights, [route.rate for route in classes])
        for rate, members in zip(rates, classes.values(), strict=True):
            for transfer in members:
                if rate != transfer.rate or transfer.end == inf:
                    transfer.flow_at(rate, now)
                    heappush(self._ends, (transfer.end, transfer.number))
        return _worst_load(crowded, capacities, links, weights, rates)

    def next_end(self) -> float:
        """Return when the first of them will be through, or infinity [s]."""
        ends, members = self._ends, self._members
        while ends and (ends[0][1] not in members or members[ends[0][1]].end != ends[0][0]):
            heappop(ends)
        return ends[0][0] if ends else inf

    def take_ended(self, until: float) -> list[Transfer]:
        """Take out who is through by an instant, the first first."""
        ended = []
        while self.next_end() <= until:
            ended.append(self._members.pop(heappop(self._ends)[1]))
        return ended


def _crossings(
    classes: dict[Route, list[Transfer]], place: dict[int, int]
) -> tuple[list[list[int]], list[list[float]]]:
    """Return for each class the places of its crowded links, and how many flows cross them."""
    links: list[list[int]] = []
    weights: list[list[float]] = []
    for route, members in classes.items():
        count = len(members)
        its_links: list[int] = []
        its_weights: list[float] = []
        for link, weight in zip(route.links, route.weights, strict=True):
            if link in place:
                its_links.append(place[link])
                its_weights.append(weight * count)
        links.append(its_links)
        weights.append(its_weights)
    return links, weights


def _worst_load(
    crowded: Sequence[int],
    capacities: Sequence[float],
    links: Sequence[Sequence[int]],
    weights: Sequence[Sequence[float]],
    rates: Sequence[float],
) -> tuple[float, int]:
    """Add up what rates put on each link; return the largest share of a capacity and its link."""
    loads = [0.0] * len(crowded)
    for rate, its_links, its_weights in zip(rates, links, weights, strict=True):
        for i, weight in zip(its_links, its_weights, strict=True):
            loads[i] += weight * rate
    worst, worst_link = 0.0, -1
    for link, capacity, load in zip(crowded, capacities, loads, strict=True):
        if load > worst * capacity:
            worst, worst_link = load / capacity, link
    return worst, worst_link
