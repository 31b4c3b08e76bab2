"""Array solver: many transfers that share links, in rows of arrays.

Taken by `network` for components in which the end of one transfer changes the rates of hundreds;
`scalar_solver` and `local_rates` solve the others.
Training steps rarely have such components; random traffic and several jobs on one fabric do.
`benchmarks/network.py tree` shows what it is for: 3,000 flows on a fat tree of 8,192 devices take
0.3 s with it and 14 s with the scalar solver alone; for 300 flows it is three times as slow.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from math import inf

import numpy as np

from clustersim.engine.clock import TimeGrid
from clustersim.engine.network.fairness import Integers
from clustersim.engine.network.incremental_fairness import IncrementalRates
from clustersim.engine.network.transfer import Transfer

SPARSE = 0.7
"""Rows are compacted when fewer than this share of them are in use."""


class ArraySolver:
    """Transfers that share links, in rows in the order in which they were added.

    `now`, where a method takes it, is the present instant [s].

    Attributes
    ----------
    size : transfers [count]
    changed : whether transfers were added or removed since the last `solve`
    """

    def __init__(self, capacities: Sequence[float], grid: TimeGrid) -> None:
        self._capacities = capacities
        self._grid = grid
        self._index: dict[int, int] = {}
        self._links: list[int] = []
        self._reset()

    def _reset(self) -> None:
        """Start without transfers; links keep their indices."""
        self._members: list[Transfer] = []
        self._rates = IncrementalRates()
        self._rates.add_links([self._capacities[link] for link in self._links])
        self._nbytes, self._delivered = np.zeros(0), np.zeros(0)
        self._rate, self._since, self._end = np.zeros(0), np.zeros(0), np.zeros(0)
        self.size = 0
        self.changed = False

    def add(self, transfers: Sequence[Transfer]) -> None:
        """Add transfers with their present rates and delivered bytes."""
        for row, transfer in enumerate(transfers, len(self._members)):
            transfer.row = row
        self._members += transfers
        self.size += len(transfers)
        self._nbytes = np.append(self._nbytes, [t.traffic.nbytes for t in transfers])
        self._delivered = np.append(self._delivered, [t.delivered for t in transfers])
        self._rate = np.append(self._rate, [t.rate for t in transfers])
        self._since = np.append(self._since, [t.since for t in transfers])
        self._end = np.append(self._end, [t.end for t in transfers])
        routes = [transfer.route for transfer in transfers]
        self._add_links(route.links for route in routes)
        self._rates.add(
            np.array([len(route.links) for route in routes]),
            self._indices(route.links for route in routes),
            np.array(list(chain.from_iterable(route.weights for route in routes))),
            np.array([route.rate for route in routes]),
        )
        self.changed = True

    def _add_links(self, links: Iterable[tuple[int, ...]]) -> None:
        """Give an index to each link that has none."""
        new = [x for x in dict.fromkeys(chain.from_iterable(links)) if x not in self._index]
        self._index |= {link: i for i, link in enumerate(new, len(self._links))}
        self._links += new
        self._rates.add_links([self._capacities[link] for link in new])

    def _indices(self, links: Iterable[tuple[int, ...]]) -> Integers:
        index = self._index
        return np.array([index[link] for link in chain.from_iterable(links)])

    def solve(self, now: float) -> tuple[float, int]:
        """Update all rates; return the highest load and its link."""
        if 0 < self.size < SPARSE * len(self._members):
            self.add(self.release_all())
        worst, link = self._rates.solve()
        rate = self._rates.rate
        rows = np.flatnonzero((rate != self._rate) | ((self._end == inf) & (rate > 0)))
        self._delivered[rows] += self._rate[rows] * (now - self._since[rows])
        self._since[rows] = now
        remaining = np.maximum(0.0, self._nbytes[rows] - self._delivered[rows])
        magnitude = self._grid.magnitude
        self._end[rows] = now + (remaining / rate[rows] + magnitude - magnitude)
        self._rate = rate.copy()
        self.changed = False
        return worst, self._links[link]

    def next_end(self) -> float:
        """Return when the first transfer will complete, or infinity [s]."""
        return float(self._end.min(initial=inf)) if self.size else inf

    def take_ended(self, until: float) -> list[Transfer]:
        """Remove and return the transfers that complete by an instant, in order of their ends."""
        rows = np.flatnonzero(self._end <= until)
        ended = [self._members[row] for row in rows[np.argsort(self._end[rows], kind="stable")]]
        for transfer in ended:
            self._rates.remove(transfer.row)
            self._release(transfer)
        return ended

    def _release(self, transfer: Transfer) -> None:
        """Copy the values of its row to a transfer, and free the row."""
        row = transfer.row
        transfer.rate, transfer.since = self.rate(transfer), float(self._since[row])
        transfer.delivered, transfer.end = float(self._delivered[row]), float(self._end[row])
        transfer.row = -1
        self._rate[row], self._end[row] = 0.0, inf
        self.size -= 1
        self.changed = True

    def rate(self, transfer: Transfer) -> float:
        """Return the rate of one flow of a transfer [B/s]."""
        return float(self._rate[transfer.row])

    def release_all(self) -> list[Transfer]:
        """Remove and return all transfers, in the order in which they were added."""
        members = [transfer for transfer in self._members if transfer.row >= 0]
        for transfer in members:
            self._release(transfer)
        self._reset()
        return members
