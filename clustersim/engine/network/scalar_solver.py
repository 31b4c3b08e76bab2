"""Scalar solver: few transfers that share links, one connected component at a time.

For two to ten transfers plain Python is ten times as fast as arrays; see `array_solver` for more.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from clustersim.engine.clock import TimeGrid
from clustersim.engine.network.fairness import Problem, max_min_rates
from clustersim.engine.network.transfer import Transfer, TransferRoute

MOST_SOLUTIONS = 4096
"""Cached solutions: the same few transfers of a pipeline share links in each microbatch."""


class Solution(NamedTuple):
    """The rates of the classes of a component, and the highest load with its link."""

    rates: list[float]
    worst: tuple[float, int]


class ScalarSolver:
    """Transfers that share links, and the order in which they will complete."""

    def __init__(self, capacities: Sequence[float], grid: TimeGrid) -> None:
        self._capacities = capacities
        self._grid = grid
        self._members: dict[int, Transfer] = {}
        self._ends: list[tuple[float, int]] = []
        self._solutions: dict[tuple[object, ...], Solution] = {}

    def add(self, transfer: Transfer) -> None:
        """Add a transfer at its present rate and end."""
        self._members[transfer.number] = transfer
        if transfer.end < inf:
            heappush(self._ends, (transfer.end, transfer.number))

    def remove(self, transfers: Iterable[Transfer]) -> None:
        """Remove transfers that the array solver takes over."""
        for transfer in transfers:
            del self._members[transfer.number]

    def solve(
        self, transfers: Sequence[Transfer], links: Sequence[int], now: float
    ) -> tuple[float, int]:
        """Set the rates of one connected component; return the highest load and its link.

        Transfers of one route are one class: their weights add up and their rates are equal.

        Parameters
        ----------
        links : the contended links of the component
        """
        classes: dict[TransferRoute, list[Transfer]] = {}
        for transfer in transfers:
            classes.setdefault(transfer.route, []).append(transfer)
        key = (*links, *classes, *map(len, classes.values()))
        solution = self._solutions.get(key) or self._solve(classes, links, key)
        for rate, members in zip(solution.rates, classes.values(), strict=True):
            for transfer in members:
                self.set_rate(transfer, rate, now)
        return solution.worst

    def set_rate(self, transfer: Transfer, rate: float, now: float) -> None:
        """Set the rate of a transfer, and with it its end."""
        if rate != transfer.rate or transfer.end == inf:
            transfer.change_rate(rate, now, self._grid)
            heappush(self._ends, (transfer.end, transfer.number))

    def _solve(
        self,
        classes: dict[TransferRoute, list[Transfer]],
        links: Sequence[int],
        key: tuple[object, ...],
    ) -> "Solution":
        """Return the rates of a component, and cache them for the next one of its transfers."""
        index = {link: i for i, link in enumerate(links)}
        capacities = [self._capacities[link] for link in links]
        crossed, weights = _crossings(classes, index)
        caps = [route.rate for route in classes]
        rates = max_min_rates(Problem(capacities, crossed, weights, caps))
        worst = _worst_load(links, capacities, crossed, weights, rates)
        if len(self._solutions) == MOST_SOLUTIONS:
            self._solutions.clear()
        self._solutions[key] = solution = Solution(rates, worst)
        return solution

    def postpone(self, seconds: float) -> None:
        """Move the ends of all transfers, which are moved themselves, to a later time."""
        self._ends = [(end + seconds, number) for end, number in self._ends]

    def next_end(self) -> float:
        """Return when the first transfer will complete, or infinity [s]."""
        ends, members = self._ends, self._members
        while ends and (ends[0][1] not in members or members[ends[0][1]].end != ends[0][0]):
            heappop(ends)
        return ends[0][0] if ends else inf

    def take_ended(self, until: float) -> list[Transfer]:
        """Remove and return the transfers that complete by an instant, in order of their ends."""
        ended = []
        while self.next_end() <= until:
            ended.append(self._members.pop(heappop(self._ends)[1]))
        return ended


def _crossings(
    classes: dict[TransferRoute, list[Transfer]], index: dict[int, int]
) -> tuple[list[list[int]], list[list[float]]]:
    """Return for each class the indices of its contended links, and how many flows cross them."""
    links: list[list[int]] = []
    weights: list[list[float]] = []
    for route, members in classes.items():
        count = len(members)
        link_indices: list[int] = []
        link_weights: list[float] = []
        for link, weight in zip(route.links, route.weights, strict=True):
            if link in index:
                link_indices.append(index[link])
                link_weights.append(weight * count)
        links.append(link_indices)
        weights.append(link_weights)
    return links, weights


def _worst_load(
    links: Sequence[int],
    capacities: Sequence[float],
    crossed: Sequence[Sequence[int]],
    weights: Sequence[Sequence[float]],
    rates: Sequence[float],
) -> tuple[float, int]:
    """Sum the load of each link; return the largest share of a capacity and its link."""
    loads = [0.0] * len(links)
    for rate, link_indices, link_weights in zip(rates, crossed, weights, strict=True):
        for i, weight in zip(link_indices, link_weights, strict=True):
            loads[i] += weight * rate
    worst, worst_link = 0.0, -1
    for link, capacity, load in zip(links, capacities, loads, strict=True):
        if load > worst * capacity:
            worst, worst_link = load / capacity, link
    return worst, worst_link
