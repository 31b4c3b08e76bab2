"""Max-min fair rates of many flows, updated while flows are added and removed: exact, no clock.

A solve of 20,000 flows on 160,000 crossings takes tens of milliseconds, and the end of each flow
requires one.  Three facts reduce the problem without changing its solution.

*From the level upward.*  Rates below the slowest of the removed flows stay as they are.  Raise all
rates together, as `fairness` does: up to the rate of a removed flow, the links fill the same with
it as without it, as each link on its route that fills up limits it too.  The same is true below the
lowest level that the links of a new flow could offer if they shared equally.

*Tight links only.*  A link with spare capacity limits no flow.  So rates that are fair on the tight
links alone, and leave no other link overloaded, are fair on all links.  A link that is overloaded
joins the tight ones, and the rates are solved again.

*Classes.*  Flows that cross the same tight links with the same cap run at the same rate: one
activity with a weight.
"""

from collections.abc import Sequence
from math import inf

import numpy as np

from clustersim.arrays import Booleans, Hashes, mixed, ranges
from clustersim.engine.network.fairness import Integers, rates_of_crossings
from clustersim.records import dataclass
from clustersim.timeline import Floats

ROUNDING = 1e-12
"""Relative excess of a load over its capacity that counts as equal."""

BELOW = 1 - 1e-9
"""Rates below this share of a level are below it, whatever the rounding."""

NEAR = 0.98
"""Load from which a link counts as tight, as it may soon be."""


@dataclass
class FlowClasses:
    """Rows with equal rates, each class as one activity.

    Attributes
    ----------
    of_row : the class of each row; -1 for removed rows
    count : rows of each class that remain
    rate, cap : of one flow of each class [B/s]
    tight : the links of which classes were made
    activity, link, weight : the crossings of one row of each class with these; `link` is an index
        into `tight`
    """

    of_row: Integers
    count: Floats
    rate: Floats
    cap: Floats
    tight: Integers
    activity: Integers
    link: Integers
    weight: Floats

    def remove(self, row: int) -> None:
        """Remove a row."""
        self.count[self.of_row[row]] -= 1
        self.of_row[row] = -1

    def solve_upward(self, capacity: Floats, level: float) -> None:
        """Solve on the tight links, of these capacities, for all classes not below a level."""
        free = (self.rate >= level) & (self.count > 0)
        weight = self.weight * self.count[self.activity]
        is_free = free[self.activity]
        fixed, open_ = (~is_free).nonzero(), is_free.nonzero()
        used = weight[fixed] * self.rate[self.activity[fixed]]
        spare = capacity - np.bincount(self.link[fixed], used, len(capacity))
        number = np.cumsum(free) - 1
        self.rate[free] = rates_of_crossings(
            spare, number[self.activity[open_]], self.link[open_], weight[open_], self.cap[free]
        )


class IncrementalRates:
    """Flows, one a row, the links that they cross, and their fair rates.

    Attributes
    ----------
    rate : of each row in the latest solution, 0 for removed rows [B/s]
    load : of each link in that solution [B/s]; links in the order of `add_links`
    """

    def __init__(self) -> None:
        self.rate: Floats = np.zeros(0)
        self.load: Floats = np.zeros(0)
        self.capacity: Floats = np.zeros(0)
        self._cap: Floats = np.zeros(0)
        self._in_use: Booleans = np.zeros(0, dtype=bool)
        self._tight: Booleans = np.zeros(0, dtype=bool)
        # Crossings: rows ascending, and the first crossing of each row with the end of the last.
        self._row: Integers = np.zeros(0, dtype=int)
        self._link: Integers = np.zeros(0, dtype=int)
        self._weight: Floats = np.zeros(0)
        self._hash: Hashes = np.zeros(0, dtype=np.uint64)
        self._first: Integers = np.zeros(1, dtype=int)
        self._classes: FlowClasses | None = None
        # Since the latest solution: whether rows were added, and below which level rates stay.
        self._added = False
        self._level = inf

    def add_links(self, capacities: Sequence[float]) -> None:
        """Add links, which take the next indices."""
        self.capacity = np.append(self.capacity, capacities)
        self.load = np.append(self.load, np.zeros(len(capacities)))
        self._tight = np.append(self._tight, np.zeros(len(capacities), dtype=bool))

    def add(self, counts: Integers, link: Integers, weight: Floats, cap: Floats) -> None:
        """Add rows; `counts` holds the number of crossings of each."""
        rows = np.arange(len(self.rate), len(self.rate) + len(counts))
        self.rate = np.append(self.rate, cap)  # at most, so that they are not below the level
        self._cap = np.append(self._cap, cap)
        self._in_use = np.append(self._in_use, np.ones(len(rows), dtype=bool))
        self._row = np.append(self._row, np.repeat(rows, counts))
        self._link = np.append(self._link, link)
        self._weight = np.append(self._weight, weight)
        hashes = mixed(mixed(link.astype(np.uint64)) ^ weight.view(np.uint64))
        self._hash = np.append(self._hash, hashes)
        self._first = np.append(self._first, self._first[-1] + np.cumsum(counts))
        equal_shares = self.capacity[link] / self._sum_by_link(self._in_use.astype(float))[link]
        self._level = min(self._level, equal_shares.min(initial=inf), cap.min(initial=inf))
        self._added = True
        self._classes = None

    def remove(self, row: int) -> None:
        """Remove a row that was part of the latest solution."""
        rate = float(self.rate[row])
        own = slice(self._first[row], self._first[row + 1])
        self.load[self._link[own]] -= self._weight[own] * rate
        self.rate[row], self._in_use[row] = 0.0, False
        self._level = min(self._level, rate)
        if self._classes is not None:
            self._classes.remove(row)

    def solve(self) -> tuple[float, int]:
        """Update `rate` and `load`; return the highest load of a tight link, and the link.

        The load is a share of the link's capacity.
        """
        classes = self._classes or self._make_classes()
        self._set_rates(classes)
        while (over := (self.load > self.capacity * (1 + ROUNDING)) & ~self._tight).any():
            self._tight |= over
            classes = self._make_classes()
            self._set_rates(classes)
        self._classes = classes
        self._added, self._level = False, inf
        links = classes.tight
        near = self.load >= NEAR * self.capacity
        if np.count_nonzero(near[links]) < 0.7 * len(links):
            self._tight, self._classes = near, None
        if not len(links):
            return 0.0, -1
        share = self.load[links] / self.capacity[links]
        worst = int(share.argmax())
        return float(share[worst]), int(links[worst])

    def _set_rates(self, classes: FlowClasses) -> None:
        """Set the rates that are fair on the tight links, and the loads of all links."""
        classes.solve_upward(self.capacity[classes.tight], self._level * BELOW)
        rate = np.append(classes.rate, 0.0)[classes.of_row]  # of class -1: the last
        (differs,) = (rate != self.rate).nonzero()
        if self._added or 3 * len(differs) > len(rate):
            self.load = self._sum_by_link(rate)
        else:
            crossings = self._crossings_of(differs)
            more = (rate - self.rate)[self._row[crossings]] * self._weight[crossings]
            np.add.at(self.load, self._link[crossings], more)
        self.rate = rate

    def _make_classes(self) -> FlowClasses:
        """Return the classes of rows that cross the same tight links and have the same cap."""
        inside = self._tight[self._link]
        sums = np.append(np.uint64(0), np.cumsum(np.where(inside, self._hash, np.uint64(0))))
        hashes = sums[self._first[1:]] - sums[self._first[:-1]] + mixed(self._cap.view(np.uint64))
        (rows,) = self._in_use.nonzero()
        _, first, class_of = np.unique(hashes[rows], return_index=True, return_inverse=True)
        of_row = np.full(len(hashes), -1)
        of_row[rows] = class_of
        examples = rows[first]
        crossings = self._crossings_of(examples)
        crossings = crossings[inside[crossings]]
        return FlowClasses(
            of_row=of_row,
            count=np.bincount(class_of, minlength=len(examples)).astype(float),
            rate=self.rate[examples],
            cap=self._cap[examples],
            tight=self._tight.nonzero()[0],
            activity=of_row[self._row[crossings]],
            link=(np.cumsum(self._tight) - 1)[self._link[crossings]],
            weight=self._weight[crossings],
        )

    def _crossings_of(self, rows: Integers) -> Integers:
        return ranges(self._first[rows], self._first[rows + 1] - self._first[rows])

    def _sum_by_link(self, amounts: Floats) -> Floats:
        """Return the sum of the amounts of the flows that cross each link."""
        flows = self._weight * amounts[self._row]
        return np.bincount(self._link, flows, len(self.capacity)).astype(float)
