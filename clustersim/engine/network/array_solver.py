"""The many transfers that share links: thousands, whose rates all change when one of them ends.

What `handful.py` does transfer by transfer happens here in arrays, a transfer a row.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from math import inf

import numpy as np

from clustersim.engine.network.fairness import Integers
from clustersim.engine.network.sharing import Sharing
from clustersim.engine.network.transfer import Transfer

SPARSE = 0.7
"""Rows are closed up when fewer than this share of them are still there."""


class Crowd:
    """Transfers that share links, in rows in the order of their coming.

    `now`, where a method takes it, is the present instant [s].

    Attributes
    ----------
    size : members [count]
    changed : whether some came or left since the last `settle`
    """

    def __init__(self, capacities: Sequence[float]) -> None:
        self._capacities = capacities
        self._place: dict[int, int] = {}
        self._links: list[int] = []
        self._clear()

    def _clear(self) -> None:
        """Start without members; links keep their numbers."""
        self._members: list[Transfer] = []
        self._sharing = Sharing()
        self._sharing.add_links([self._capacities[link] for link in self._links])
        self._nbytes, self._delivered = np.zeros(0), np.zeros(0)
        self._rate, self._since, self._end = np.zeros(0), np.zeros(0), np.zeros(0)
        self.size = 0
        self.changed = False

    def join(self, transfers: Sequence[Transfer]) -> None:
        """Take transfers in, with the bytes and the rates that they have."""
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
        self._number(route.links for route in routes)
        self._sharing.add(
            np.array([len(route.links) for route in routes]),
            self._numbers(route.links for route in routes),
            np.array(list(chain.from_iterable(route.weights for route in routes))),
            np.array([route.rate for route in routes]),
        )
        self.changed = True

    def _number(self, links: Iterable[tuple[int, ...]]) -> None:
        """Number the links that were not seen before."""
        new = [x for x in dict.fromkeys(chain.from_iterable(links)) if x not in self._place]
        self._place |= {link: i for i, link in enumerate(new, len(self._links))}
        self._links += new
        self._sharing.add_links([self._capacities[link] for link in new])

    def _numbers(self, links: Iterable[tuple[int, ...]]) -> Integers:
        place = self._place
        return np.array([place[link] for link in chain.from_iterable(links)])

    def settle(self, now: float) -> tuple[float, int]:
        """Give all the rates they now have; return the worst load and its link."""
        worst, link = self._sharing.solve()
        rate = self._sharing.rate
        rows = np.flatnonzero((rate != self._rate) | ((self._end == inf) & (rate > 0)))
        self._delivered[rows] += self._rate[rows] * (now - self._since[rows])
        self._since[rows] = now
        left = np.maximum(0.0, self._nbytes[rows] - self._delivered[rows])
        self._end[rows] = now + left / rate[rows]
        self._rate = rate.copy()
        self.changed = False
        if self.size < SPARSE * len(self._members):
            self._close_ranks()
        return worst, self._links[link]

    def _close_ranks(self) -> None:
        stay = self._sharing.close_ranks()
        self._members = [self._members[row] for row in stay]
        for row, transfer in enumerate(self._members):
            transfer.row = row
        self._nbytes, self._delivered = self._nbytes[stay], self._delivered[stay]
        self._rate, self._since, self._end = self._rate[stay], self._since[stay], self._end[stay]

    def next_end(self) -> float:
        """Return when the first of them will be through, or infinity [s]."""
        return float(self._end.min(initial=inf)) if self.size else inf

    def take_ended(self, until: float) -> list[Transfer]:
        """Take out who is through by an instant, the first first."""
        rows = np.flatnonzero(self._end <= until)
        ended = [self._members[row] for row in rows[np.argsort(self._end[rows], kind="stable")]]
        for transfer in ended:
            self._sharing.leave(transfer.row)
            self._dismiss(transfer)
        return ended

    def _dismiss(self, transfer: Transfer) -> None:
        """Tell a transfer what its row knows, and forget it."""
        row = transfer.row
        transfer.rate, transfer.since = self.rate(transfer), float(self._since[row])
        transfer.delivered, transfer.end = float(self._delivered[row]), float(self._end[row])
        transfer.row = -1
        self._rate[row], self._end[row] = 0.0, inf
        self.size -= 1
        self.changed = True

    def rate(self, transfer: Transfer) -> float:
        """Return the rate of one flow of a member [B/s]."""
        return float(self._rate[transfer.row])

    def dissolve(self) -> list[Transfer]:
        """Let all go on elsewhere, in the order of their coming."""
        members = [transfer for transfer in self._members if transfer.row >= 0]
        for transfer in members:
            self._dismiss(transfer)
        self._clear()
        return members
