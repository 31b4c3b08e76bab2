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

MOST_SOLUTIONS = 16_384
"""Cached solutions: the same few transfers of a pipeline share links in each microbatch."""

TransferClass = tuple[tuple[tuple[int, float], ...], float]
"""Links of a component with the flows that cross each, and the maximum rate of one flow [B/s]."""

ClassSizes = frozenset[tuple[int, int]]
"""The classes of a component by their numbers, each with the number of its transfers."""


class Solution(NamedTuple):
    """The rates of the classes of a component, and the highest load with its link."""

    rates: dict[int, float]
    worst: tuple[float, int]


class ScalarSolver:
    """Transfers that share links, and the order in which they will complete."""

    def __init__(self, capacities: Sequence[float], grid: TimeGrid) -> None:
        self._capacities = capacities
        self._grid = grid
        self._members: dict[int, Transfer] = {}
        self._ends: list[tuple[float, int]] = []
        self._solutions: dict[ClassSizes, Solution] = {}
        self._classes: list[TransferClass] = []
        self._numbers: dict[TransferClass, int] = {}
        self._of_routes: dict[frozenset[int], dict[TransferRoute, int]] = {}

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

        Transfers that cross its links alike are one class: their weights add up and their rates
        are equal.

        Parameters
        ----------
        links : the contended links of the component
        """
        inside = frozenset(links)
        known = self._of_routes.get(inside)
        if known is None:
            if len(self._of_routes) == MOST_SOLUTIONS:
                self._of_routes.clear()
            known = self._of_routes[inside] = {}
        classes: dict[int, list[Transfer]] = {}
        for transfer in transfers:
            number = known.get(transfer.route, -1)
            if number < 0:
                number = known[transfer.route] = self._class_of(transfer.route, inside)
            classes.setdefault(number, []).append(transfer)
        sizes = frozenset([(number, len(members)) for number, members in classes.items()])
        solution = self._solutions.get(sizes) or self._solve(links, sizes)
        for number, members in classes.items():
            rate = solution.rates[number]
            for transfer in members:
                self.set_rate(transfer, rate, now)
        return solution.worst

    def _class_of(self, route: TransferRoute, inside: frozenset[int]) -> int:
        """Return the number of the class of transfers on a route, by the links inside."""
        crossed = tuple([each for each in route.weight_at.items() if each[0] in inside])
        number = self._numbers.setdefault((crossed, route.rate), len(self._classes))
        if number == len(self._classes):
            self._classes.append((crossed, route.rate))
        return number

    def set_rate(self, transfer: Transfer, rate: float, now: float) -> None:
        """Set the rate of a transfer, and with it its end."""
        if rate != transfer.rate or transfer.end == inf:
            transfer.change_rate(rate, now, self._grid)
            heappush(self._ends, (transfer.end, transfer.number))

    def _solve(self, links: Sequence[int], sizes: ClassSizes) -> "Solution":
        """Return the rates of a component, and cache them for the next one of such classes."""
        classes = [(self._classes[number], size) for number, size in sorted(sizes)]
        index = {link: i for i, link in enumerate(links)}
        capacities = [self._capacities[link] for link in links]
        crossed = [[index[link] for link, _ in crossings] for (crossings, _), _ in classes]
        weights = [[weight * size for _, weight in crossings] for (crossings, _), size in classes]
        caps = [cap for (_, cap), _ in classes]
        rates = max_min_rates(Problem(capacities, crossed, weights, caps))
        worst = _worst_load(links, capacities, crossed, weights, rates)
        if len(self._solutions) == MOST_SOLUTIONS:
            self._solutions.clear()
        of_classes = {number: rate for (number, _), rate in zip(sorted(sizes), rates, strict=True)}
        self._solutions[sizes] = solution = Solution(of_classes, worst)
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
