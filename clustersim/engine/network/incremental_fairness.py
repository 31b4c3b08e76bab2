"""Max-min fair rates of many flows, updated while flows are added and removed: exact, no clock.

A solve of 20,000 flows on 160,000 crossings takes tens of milliseconds, and the end of each flow
requires one.  Four facts reduce the problem without changing its solution.

*Nearby.*  Rates are fair when each flow is limited by its cap or by a full link on which no flow is
faster (Bertsekas and Gallager, Data Networks, 1992, section 6.5.2).  So free only the flows that a
changed link limited, and solve for them with all others fixed.  Free as well the flows limited by a
link whose load that changes, and those that are faster on the link that now limits one of the free;
and repeat until there are none.  Mostly that ends after a few flows; where it does not:

*From the level upward.*  Rates below the slowest of the removed flows stay as they are.  Raise all
rates together, as `fairness` does: up to the rate of a removed flow, the links fill the same with
it as without it, as each link on its route that fills up limits it too.  The same is true below the
lowest level that the links of a new flow could offer if they shared equally.

*Tight links only.*  A link with spare capacity limits no flow.  So rates that are fair on the tight
links alone, and leave no other link overloaded, are fair on all links.  A link that is overloaded
joins the tight ones, and the rates are solved again.

*Classes.*  Flows that cross the same tight links run at the same rate: one activity with a weight.
"""

from collections.abc import Sequence
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

from clustersim.engine.network.fairness import Integers, rates_of_crossings
from clustersim.engine.network.flow_classes import Crossings, FlowClasses, Hasher
from clustersim.timeline import Floats

ROUNDING = 1e-12
"""Relative difference of rates and loads that count as equal."""

BELOW = 1 - 1e-9
"""Rates below this share of a level are below it, whatever the rounding."""

NEAR = 0.98
"""Load from which a link counts as tight, as it may soon be."""

NEARBY = 300
"""With more free flows the solution upward from the level is faster, by
`benchmarks/network.py tree`."""


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
        self._in_use = np.zeros(0, dtype=bool)
        self._bottleneck = np.zeros(0, dtype=int)  # the link that limits each row; -1 for its cap
        self._crossings = Crossings()
        self._tight = np.zeros(0, dtype=bool)
        self._classes: FlowClasses | None = None
        self._hashes = np.zeros(0, dtype=np.uint64)  # of the crossings
        # Changes since the latest solution: links of removed rows, new rows, and their level.
        self._changed_links: list[Integers] = []
        self._new_rows: list[Integers] = []
        self._level = inf

    @cached_property
    def _hasher(self) -> Hasher:
        return Hasher()

    # --- rows -------------------------------------------------------------------------------------

    def add_links(self, capacities: Sequence[float]) -> None:
        """Add links, which take the next indices."""
        self.capacity = np.append(self.capacity, capacities)
        self.load = np.append(self.load, np.zeros(len(capacities)))
        self._tight = np.append(self._tight, np.zeros(len(capacities), dtype=bool))

    def add(self, counts: Integers, link: Integers, weight: Floats, cap: Floats) -> None:
        """Add rows; `counts` holds the number of crossings of each."""
        rows = np.arange(len(self.rate), len(self.rate) + len(counts))
        self.rate = np.append(self.rate, np.zeros(len(rows)))
        self._cap = np.append(self._cap, cap)
        self._in_use = np.append(self._in_use, np.ones(len(rows), dtype=bool))
        self._bottleneck = np.append(self._bottleneck, np.full(len(rows), -1))
        self._crossings.add(counts, link, weight)
        self._hashes = np.append(self._hashes, self._hasher.of(link, weight))
        demand = self._sum_by_link(self._in_use.astype(float))
        equal_shares = self.capacity[link] / demand[link]
        self._level = min(self._level, equal_shares.min(initial=inf), cap.min(initial=inf))
        self._new_rows.append(rows)
        self._classes = None

    def remove(self, row: int) -> None:
        """Remove a row that was part of the latest solution."""
        rate = float(self.rate[row])
        own = self._crossings.of_row(row)
        links = self._crossings.link[own]
        self.load[links] -= self._crossings.weight[own] * rate
        self.rate[row], self._in_use[row], self._bottleneck[row] = 0.0, False, -1
        self._level = min(self._level, rate)
        self._changed_links.append(links)
        if self._classes is not None:
            self._classes.remove(row)

    def compact(self) -> Integers:
        """Drop the removed rows; return the former indices of the others."""
        assert not self._new_rows, "rows keep their indices until they are part of a solution"
        (kept,) = self._in_use.nonzero()
        crossings, _ = self._crossings.of_rows(kept)
        self._hashes = self._hashes[crossings]
        self._crossings.keep(kept)
        self.rate, self._cap = self.rate[kept], self._cap[kept]
        self._in_use, self._bottleneck = self._in_use[kept], self._bottleneck[kept]
        self.load = self._sum_by_link(self.rate)
        self._classes = None
        return kept

    # --- solving ----------------------------------------------------------------------------------

    def solve(self) -> tuple[float, int]:
        """Update `rate` and `load`; return the highest load among changed links, and its link.

        The load is a share of the link's capacity.
        """
        links = self._solve_nearby()
        if links is None:
            links = self._solve_upward()
        self._changed_links, self._new_rows, self._level = [], [], inf
        if not len(links):
            return 0.0, -1
        share = self.load[links] / self.capacity[links]
        worst = int(share.argmax())
        return float(share[worst]), int(links[worst])

    def _solve_nearby(self) -> Integers | None:
        """Solve for the rows that the changes reach; return their links, or None for many rows."""
        changed = np.concatenate([np.zeros(0, dtype=int), *self._changed_links])
        free = np.concatenate([self._limited_by(changed), *self._new_rows])
        while len(free) <= NEARBY:
            crossings, activity = self._crossings.of_rows(free)
            links, index = np.unique(self._crossings.link[crossings], return_inverse=True)
            weight = self._crossings.weight[crossings]
            flows = weight * self.rate[free][activity]
            spare = self.capacity[links] - self.load[links]
            spare += np.bincount(index, flows, len(links))
            rates, bottleneck = rates_of_crossings(spare, activity, index, weight, self._cap[free])
            gap = np.abs(rates - self.rate[free])
            differs = gap > ROUNDING * rates
            reached = links[index[differs[activity]]]
            faster = self._faster(links, bottleneck, rates)
            wider = np.unique(np.concatenate([free, self._limited_by(reached), faster]))
            if len(wider) == len(free):
                self._set_rates(free[differs], rates[differs])
                self._set_bottleneck(free, np.append(links, -1)[bottleneck])
                if self._classes is not None:
                    self._classes.update(free, self.rate[free], self._bottleneck[free])
                return links
            free = wider
        return None

    def _limited_by(self, links: Integers) -> Integers:
        """Return the rows that some links limit."""
        # The last element is for rows that are limited by their caps.
        among = np.zeros(len(self.capacity) + 1, dtype=bool)
        among[links] = True
        rows: Integers = among[self._bottleneck].nonzero()[0]
        return rows

    def _faster(self, links: Integers, bottleneck: Integers, rates: Floats) -> Integers:
        """Return the rows faster than those that a link now limits, on any such link.

        `bottleneck` and `rates` are of the free rows, `bottleneck` as indices into `links`; some
        of the free rows are returned.
        """
        (limited,) = (bottleneck >= 0).nonzero()
        level = np.zeros(len(links))
        level[bottleneck[limited]] = rates[limited]
        bottlenecks = np.unique(bottleneck[limited])
        rows, of = self._crossings.rows_on(links[bottlenecks])
        return rows[self.rate[rows] > level[bottlenecks][of] * (1 + ROUNDING)]

    def _set_rates(self, rows: Integers, rates: Floats) -> None:
        """Set the rates of some rows, and update the loads of their links."""
        crossings, of = self._crossings.of_rows(rows)
        more = (rates - self.rate[rows])[of] * self._crossings.weight[crossings]
        np.add.at(self.load, self._crossings.link[crossings], more)
        self.rate[rows] = rates

    def _set_bottleneck(self, rows: Integers, links: Integers) -> None:
        """Record which links limit some rows; a link that limits a row is tight."""
        self._bottleneck[rows] = links
        limiting = links[links >= 0]
        if not self._tight[limiting].all():
            self._tight[limiting] = True
            self._classes = None

    def _solve_upward(self) -> Integers:
        """Solve for all rows that are not below the level; return the tight links."""
        for rows in self._new_rows:
            self.rate[rows] = self._cap[rows]  # at most, so that they are not below the level
        if self._classes is None:
            self._classes = self._make_classes()
        classes = self._classes
        while True:
            self._solve_classes(classes)
            over = (self.load > self.capacity * (1 + ROUNDING)) & ~self._tight
            if not over.any():
                break
            self._tight |= over
            self._classes = classes = self._make_classes()
        if np.count_nonzero(self._is_near(classes.tight)) < 0.7 * len(classes.tight):
            self._tight = self._is_near(np.arange(len(self.load)))
            self._classes = None
        return classes.tight

    def _solve_classes(self, classes: FlowClasses) -> None:
        """Set the rates that are fair on the tight links."""
        classes.solve_upward(self.capacity[classes.tight], self._level * BELOW)
        rate = np.append(classes.rate, 0.0)[classes.of_row]  # of class -1: the last
        (differs,) = (rate != self.rate).nonzero()
        if self._new_rows or 3 * len(differs) > len(rate):
            self.rate = rate
            self.load = self._sum_by_link(rate)
        else:
            self._set_rates(differs, rate[differs])
        self._bottleneck = np.append(classes.bottleneck, -1)[classes.of_row]

    def _make_classes(self) -> FlowClasses:
        """Return the classes of rows that cross the same tight links and have the same cap."""
        inside = self._tight[self._crossings.link]
        sums = self._crossings.sum_by_row(np.where(inside, self._hashes, np.uint64(0)))
        hashes = sums + self._hasher.of_caps(self._cap)
        (rows,) = self._in_use.nonzero()
        _, first, class_of = np.unique(hashes[rows], return_index=True, return_inverse=True)
        of_row = np.full(len(hashes), -1)
        of_row[rows] = class_of
        example = rows[first]
        own, activity = self._crossings.of_rows(example)
        (tight_own,) = inside[own].nonzero()
        crossings = own[tight_own]
        index = np.cumsum(self._tight) - 1
        return FlowClasses(
            of_row=of_row,
            count=np.bincount(class_of, minlength=len(example)).astype(float),
            rate=self.rate[example],
            cap=self._cap[example],
            bottleneck=self._bottleneck[example],
            tight=self._tight.nonzero()[0],
            activity=activity[tight_own],
            link=index[self._crossings.link[crossings]],
            weight=self._crossings.weight[crossings],
        )

    def _is_near(self, links: Integers) -> NDArray[np.bool_]:
        """Return which of some links are full or nearly so."""
        near: NDArray[np.bool_] = self.load[links] >= NEAR * self.capacity[links]
        return near

    def _sum_by_link(self, amounts: Floats) -> Floats:
        """Return the sum of the amounts of the flows that cross each link."""
        table = self._crossings
        flows = table.weight * amounts[table.row]
        return np.bincount(table.link, flows, len(self.capacity)).astype(float)
