"""Routes of many messages at once, as arrays.

    route = from the device to its NIC and switch, between two switches, from there to the device

The parts are shared by many routes, so each is numbered once, and routes are put together from them
without a loop over messages.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from clustersim.arrays import Booleans, Floats, Integers, ranges, ranked
from clustersim.records import dataclass

Number = TypeVar("Number", np.int64, np.float64)

Walks = tuple[Integers, Integers, Floats]
"""Number of links of each route, the numbers of all links, and the latency of each route [s]."""


@dataclass(frozen=True, eq=False)
class Routes:
    """The links of many messages, one message after another.

    Attributes
    ----------
    counts : links of each message
    links : of all messages, in the order of each route
    latency : of each message, sum over its links [s]
    network : whether each message leaves its node
    shares : of each entry of `links`, the share of the message that crosses it
    """

    counts: Integers
    links: Integers
    latency: Floats
    network: Booleans
    shares: Floats

    @property
    def message(self) -> Integers:
        """The message of each entry of `links`."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def gathered(self, parts: Integers) -> "Routes":
        """Return the routes of messages that were divided into equal parts, each with a route."""
        first = np.cumsum(parts) - parts
        return Routes(
            np.add.reduceat(self.counts, first),
            self.links,
            np.maximum.reduceat(self.latency, first),
            self.network[first],
            self.shares / np.repeat(np.repeat(parts, parts), self.counts),
        )


Part = tuple[Sequence[int], float]
"""Numbers of links, and the sum of their latencies [s]."""


class Parts:
    """Parts of routes, each made once by its key and taken for many keys at once."""

    def __init__(self, make: Callable[[int], Part]) -> None:
        self._make = make
        self._row: dict[int, int] = {}
        self._starts: list[int] = [0]
        self._links: list[int] = []
        self._latency: list[float] = []
        self._arrays = np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0)

    def take(self, keys: Integers) -> Walks:
        """Return the number of links of each part, all their links, and their latencies."""
        different, inverse = ranked(keys)
        known = self._row
        rows = np.array([known.get(key, -1) for key in different.tolist()], dtype=np.int64)
        for index in np.flatnonzero(rows < 0).tolist():
            rows[index] = self._add(int(different[index]))
        if len(self._arrays[2]) < len(self._latency):
            links = np.array(self._links, dtype=np.int64)
            self._arrays = np.array(self._starts), links, np.array(self._latency)
        starts, links, latency = self._arrays
        chosen = rows[inverse]
        first = starts[chosen]
        counts = starts[chosen + 1] - first
        return counts, links[ranges(first, counts)], latency[chosen]

    def _add(self, key: int) -> int:
        links, latency = self._make(key)
        self._row[key] = len(self._latency)
        self._links += links
        self._latency.append(latency)
        self._starts.append(len(self._links))
        return self._row[key]


def joined(parts: Sequence[tuple[Integers, NDArray[Number]]]) -> tuple[Integers, NDArray[Number]]:
    """Return sequences put together row by row: the counts of each row, and all entries.

    >>> one, two = (np.array([1, 2]), np.array([7, 8, 9])), (np.array([1, 0]), np.array([4]))
    >>> [array.tolist() for array in joined([one, two])]
    [[2, 2], [7, 4, 8, 9]]
    """
    total = np.sum([counts for counts, _ in parts], axis=0)
    entries = np.empty(int(total.sum()), dtype=parts[0][1].dtype)
    first = np.cumsum(total) - total
    for counts, links in parts:
        entries[ranges(first, counts)] = links
        first = first + counts
    return total, entries


def interleaved_routes(chosen: Booleans, yes: Routes, no: Routes) -> Routes:
    """Return the routes of all messages: of the chosen ones from `yes`, of the others from `no`."""
    order = np.argsort(np.concatenate([np.flatnonzero(chosen), np.flatnonzero(~chosen)]))
    counts = np.concatenate([yes.counts, no.counts])
    first = np.cumsum(counts) - counts
    entries = ranges(first[order], counts[order])
    return Routes(
        counts[order],
        np.concatenate([yes.links, no.links])[entries],
        np.concatenate([yes.latency, no.latency])[order],
        np.concatenate([yes.network, no.network])[order],
        np.concatenate([yes.shares, no.shares])[entries],
    )
