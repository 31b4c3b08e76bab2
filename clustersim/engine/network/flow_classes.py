"""Tables of the array solver: which flows cross which links, and classes of equal flows.

A row is one activity.  Its crossings are adjacent; their order by link is computed on demand.
Rows that cross the same tight links with the same cap have the same rate and form a class.
"""

from dataclasses import dataclass

import numpy as np

from clustersim.arrays import Hashes, mixed
from clustersim.engine.network.fairness import Integers, rates_of_crossings
from clustersim.timeline import Floats


class Crossings:
    """Which rows cross which links.

    Attributes
    ----------
    row, link : of each crossing, rows ascending
    weight : how many flows of the row cross the link [flows]
    """

    def __init__(self) -> None:
        self.row = np.zeros(0, dtype=int)
        self.link = np.zeros(0, dtype=int)
        self.weight = np.zeros(0)
        self._first = np.zeros(1, dtype=int)  # crossing of each row, and the end of the last
        self._by_link: tuple[Integers, Integers] | None = None

    def add(self, counts: Integers, link: Integers, weight: Floats) -> None:
        """Add rows; `counts` holds the number of crossings of each."""
        rows = np.arange(len(self._first) - 1, len(self._first) - 1 + len(counts))
        self.row = np.append(self.row, np.repeat(rows, counts))
        self.link = np.append(self.link, link)
        self.weight = np.append(self.weight, weight)
        self._first = np.append(self._first, self._first[-1] + np.cumsum(counts))
        self._by_link = None

    def keep(self, rows: Integers) -> None:
        """Drop all other rows, and renumber these."""
        crossings, of = self.of_rows(rows)
        self.row, self.link, self.weight = of, self.link[crossings], self.weight[crossings]
        self._first = np.append(0, np.cumsum(self._counts(rows)))
        self._by_link = None

    def of_row(self, row: int) -> slice:
        """Return the range of the crossings of one row."""
        return slice(self._first[row], self._first[row + 1])

    def of_rows(self, rows: Integers) -> tuple[Integers, Integers]:
        """Return the crossings of some rows, and the index in `rows` of each."""
        return _ranges(self._first[rows], self._counts(rows))

    def sum_by_row(self, hashes: Hashes) -> Hashes:
        """Return the sum over the crossings of each row, which may wrap around."""
        sums = np.append(np.uint64(0), np.cumsum(hashes))
        by_row: Hashes = sums[self._first[1:]] - sums[self._first[:-1]]
        return by_row

    def rows_on(self, links: Integers) -> tuple[Integers, Integers]:
        """Return the rows that cross some links, and the index in `links` of each."""
        if self._by_link is None:
            ascending = np.append(0, np.cumsum(np.bincount(self.link)))
            self._by_link = self.row[np.argsort(self.link, kind="stable")], ascending
        rows, first = self._by_link
        crossings, of = _ranges(first[links], first[links + 1] - first[links])
        return rows[crossings], of

    def _counts(self, rows: Integers) -> Integers:
        counts: Integers = self._first[rows + 1] - self._first[rows]
        return counts


def _ranges(first: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Return the numbers of all ranges one after another, and the range of each."""
    of = np.repeat(np.arange(len(counts)), counts)
    stop = np.cumsum(counts)
    return np.arange(len(of)) + (first - stop + counts)[of], of


@dataclass
class FlowClasses:
    """Rows with equal rates, each class as one activity.

    Attributes
    ----------
    of_row : the class of each row; -1 for removed rows
    count : rows of each class that remain
    rate, cap : of one flow of each class [B/s]
    bottleneck : the link that limits each class; -1 where its cap does
    tight : the links of which classes were made
    activity, link, weight : the crossings of one row of each class with these; `link` is an index
        into `tight`
    """

    of_row: Integers
    count: Floats
    rate: Floats
    cap: Floats
    bottleneck: Integers
    tight: Integers
    activity: Integers
    link: Integers
    weight: Floats

    def remove(self, row: int) -> None:
        """Remove a row."""
        self.count[self.of_row[row]] -= 1
        self.of_row[row] = -1

    def update(self, rows: Integers, rate: Floats, bottleneck: Integers) -> None:
        """Take over the solution of some rows: all of a class have the same rate."""
        self.rate[self.of_row[rows]] = rate
        self.bottleneck[self.of_row[rows]] = bottleneck

    def solve_upward(self, capacity: Floats, level: float) -> None:
        """Solve on the tight links, of these capacities, for all classes not below a level."""
        free = (self.rate >= level) & (self.count > 0)
        weight = self.weight * self.count[self.activity]
        is_free = free[self.activity]
        fixed, open_ = (~is_free).nonzero(), is_free.nonzero()
        used = weight[fixed] * self.rate[self.activity[fixed]]
        spare = capacity - np.bincount(self.link[fixed], used, len(capacity))
        number = np.cumsum(free) - 1
        rates, bottleneck = rates_of_crossings(
            spare, number[self.activity[open_]], self.link[open_], weight[open_], self.cap[free]
        )
        self.rate[free] = rates
        self.bottleneck[free] = np.append(self.tight, -1)[bottleneck]


class Hasher:
    """A random number of 64 bits for each link and weight, and for each cap.

    Sums of them distinguish sets of crossings.
    """

    def __init__(self) -> None:
        self._random = np.random.default_rng(20261121)  # any seed: no result depends on it
        self._of_a_cap = self._draw(1)
        self._of_link = self._draw(0)

    def _draw(self, count: int) -> Hashes:
        return self._random.integers(0, 2**64, count, dtype=np.uint64)

    def of(self, link: Integers, weight: Floats) -> Hashes:
        """Return the hashes of crossings."""
        missing = int(link.max(initial=-1)) + 1 - len(self._of_link)
        if missing > 0:
            self._of_link = np.append(self._of_link, self._draw(missing))
        return mixed(self._of_link[link] ^ weight.view(np.uint64))

    def of_caps(self, cap: Floats) -> Hashes:
        """Return the hashes of caps."""
        return mixed(cap.view(np.uint64) ^ self._of_a_cap)
