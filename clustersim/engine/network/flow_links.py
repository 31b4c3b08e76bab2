"""Which rows cross which links, as arrays: looked up by row or by link.

A row is one activity.  Its crossings lie side by side; their order by link is made when asked for.
"""

import numpy as np
from numpy.typing import NDArray

from clustersim.engine.network.fairness import Integers
from clustersim.timeline import Floats

Marks = NDArray[np.uint64]


class Crossings:
    """A table of crossings.

    Attributes
    ----------
    row, link : of each crossing, rows ascending
    weight : how many flows of the row cross the link [flows]
    """

    def __init__(self) -> None:
        self.row = np.zeros(0, dtype=int)
        self.link = np.zeros(0, dtype=int)
        self.weight = np.zeros(0)
        self._first = np.zeros(1, dtype=int)  # crossing of each row, and one behind the last
        self._by_link: tuple[Integers, Integers] | None = None

    def add(self, counts: Integers, link: Integers, weight: Floats) -> None:
        """Add a row for each of `counts`, which says how many of the crossings are its own."""
        rows = np.arange(len(self._first) - 1, len(self._first) - 1 + len(counts))
        self.row = np.append(self.row, np.repeat(rows, counts))
        self.link = np.append(self.link, link)
        self.weight = np.append(self.weight, weight)
        self._first = np.append(self._first, self._first[-1] + np.cumsum(counts))
        self._by_link = None

    def keep(self, rows: Integers) -> None:
        """Forget all other rows; these are numbered anew."""
        crossings, of = self.of_rows(rows)
        self.row, self.link, self.weight = of, self.link[crossings], self.weight[crossings]
        self._first = np.append(0, np.cumsum(self._counts(rows)))
        self._by_link = None

    def of_row(self, row: int) -> slice:
        """Return where the crossings of one row lie."""
        return slice(self._first[row], self._first[row + 1])

    def of_rows(self, rows: Integers) -> tuple[Integers, Integers]:
        """Return the numbers of the crossings of some rows, and which of these each is of."""
        return _ranges(self._first[rows], self._counts(rows))

    def sum_by_row(self, marks: Marks) -> Marks:
        """Return the sum over the crossings of each row, which may wrap around."""
        sums = np.append(np.uint64(0), np.cumsum(marks))
        by_row: Marks = sums[self._first[1:]] - sums[self._first[:-1]]
        return by_row

    def rows_on(self, links: Integers) -> tuple[Integers, Integers]:
        """Return the rows that cross some links, and which of these links each crosses."""
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
    """Return the numbers of all ranges one after another, and which range each is of."""
    of = np.repeat(np.arange(len(counts)), counts)
    behind = np.cumsum(counts)
    return np.arange(len(of)) + (first - behind + counts)[of], of
