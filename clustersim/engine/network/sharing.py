"""Fair rates of very many flows, kept while flows come and go: exact, and no clock.

A solve of 20,000 flows on 160,000 crossings takes tens of milliseconds, and each of their ends asks
for one.  What follows makes it a small problem without changing its solution.

*Nearby.*  Rates are fair when each flow is held by its cap or by a full link on which nobody is
faster (Bertsekas and Gallager, Data Networks, 1992, section 6.5.2).  So free only those whom a
changed link held, and solve for them with all others fixed.  Free as well whoever was held by a
link whose load that changes, and whoever is faster on the link that now holds one of the free; and
again, until there are none.  Mostly that ends after a few flows; where it does not:

*From the level upward.*  Rates below the slowest of those who left stay as they are.  Raise all
rates together, as `fairness.py` does: up to the rate of the one who left, the links fill the same
with it as without it, for each link on its way that fills up holds it too.  The same is true below
the lowest level that the links of a newcomer could offer if they shared equally.

*Tight links only.*  A link with capacity to spare holds nobody.  So rates that are fair on the
tight links alone, and leave no other link overloaded, are fair on all links.  A link found
overloaded joins the tight ones, and the rates are solved again.

*Alike.*  Flows that cross the same tight links run at the same rate: one activity with a weight.
"""

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from clustersim.engine.network.fairness import Integers, rates_of_crossings
from clustersim.engine.network.flow_classes import Kinds, Marker
from clustersim.engine.network.flow_links import Crossings
from clustersim.timeline import Floats

ROUNDING = 1e-12
"""Relative gap by which rates and loads that are equal may come out different."""

BELOW = 1 - 1e-9
"""What is slower than this share of a level is surely below it, whatever the rounding."""

NEAR = 0.98
"""Links loaded this far count as tight, for they may soon be."""

NEARBY = 300
"""Of more free flows, solving upward from the level is faster, by `benchmarks/network.py tree`."""


class Sharing:
    """Flows, one a row, and the links that they cross.

    Attributes
    ----------
    rate : of each row in the latest solution, 0 for those who left [B/s]
    load : of each link in that solution [B/s]; links are numbered as they were first seen
    """

    def __init__(self) -> None:
        self.rate: Floats = np.zeros(0)
        self.load: Floats = np.zeros(0)
        self.capacity: Floats = np.zeros(0)
        self._cap: Floats = np.zeros(0)
        self._here = np.zeros(0, dtype=bool)
        self._held = np.zeros(0, dtype=int)  # the link that holds each row; -1 for its cap
        self._crossings = Crossings()
        self._tight = np.zeros(0, dtype=bool)
        self._kinds: Kinds | None = None
        self._marker = Marker()
        self._marks = np.zeros(0, dtype=np.uint64)  # of the crossings
        # What came and left since the latest solution: links, rows, and the level they reach.
        self._touched: list[Integers] = []
        self._new: list[Integers] = []
        self._level = inf

    # --- who is there -----------------------------------------------------------------------------

    def add_links(self, capacities: Sequence[float]) -> None:
        """Number further links."""
        self.capacity = np.append(self.capacity, capacities)
        self.load = np.append(self.load, np.zeros(len(capacities)))
        self._tight = np.append(self._tight, np.zeros(len(capacities), dtype=bool))

    def add(self, counts: Integers, link: Integers, weight: Floats, cap: Floats) -> None:
        """Add a row for each of `counts`, which says how many of the crossings are its own."""
        rows = np.arange(len(self.rate), len(self.rate) + len(counts))
        self.rate = np.append(self.rate, np.zeros(len(rows)))
        self._cap = np.append(self._cap, cap)
        self._here = np.append(self._here, np.ones(len(rows), dtype=bool))
        self._held = np.append(self._held, np.full(len(rows), -1))
        self._crossings.add(counts, link, weight)
        self._marks = np.append(self._marks, self._marker.of(link, weight))
        demand = self._sum_by_link(self._here.astype(float))
        equal_shares = self.capacity[link] / demand[link]
        self._level = min(self._level, equal_shares.min(initial=inf), cap.min(initial=inf))
        self._new.append(rows)
        self._kinds = None

    def leave(self, row: int) -> None:
        """Let a row leave, which was part of the latest solution."""
        rate = float(self.rate[row])
        own = self._crossings.of_row(row)
        links = self._crossings.link[own]
        self.load[links] -= self._crossings.weight[own] * rate
        self.rate[row], self._here[row], self._held[row] = 0.0, False, -1
        self._level = min(self._level, rate)
        self._touched.append(links)
        if self._kinds is not None:
            self._kinds.leave(row)

    def close_ranks(self) -> Integers:
        """Forget the rows that left; return the former numbers of the others."""
        assert not self._new, "between a coming and its solution all rows keep their numbers"
        (stay,) = self._here.nonzero()
        crossings, _ = self._crossings.of_rows(stay)
        self._marks = self._marks[crossings]
        self._crossings.keep(stay)
        self.rate, self._cap = self.rate[stay], self._cap[stay]
        self._here, self._held = self._here[stay], self._held[stay]
        self.load = self._sum_by_link(self.rate)
        self._kinds = None
        return stay

    # --- solving ----------------------------------------------------------------------------------

    def solve(self) -> tuple[float, int]:
        """Bring `rate` and `load` up to date; return the worst load and its link.

        The load is a share of the link's capacity; of links that nobody touched it is not told.
        """
        links = self._solve_nearby()
        if links is None:
            links = self._solve_upward()
        self._touched, self._new, self._level = [], [], inf
        if not len(links):
            return 0.0, -1
        share = self.load[links] / self.capacity[links]
        worst = int(share.argmax())
        return float(share[worst]), int(links[worst])

    def _solve_nearby(self) -> Integers | None:
        """Solve for those whom the changes reach; return their links, or None if they are many."""
        touched = np.concatenate([np.zeros(0, dtype=int), *self._touched])
        free = np.concatenate([self._held_at(touched), *self._new])
        while len(free) <= NEARBY:
            crossings, activity = self._crossings.of_rows(free)
            links, place = np.unique(self._crossings.link[crossings], return_inverse=True)
            weight = self._crossings.weight[crossings]
            flows = weight * self.rate[free][activity]
            spare = self.capacity[links] - self.load[links]
            spare += np.bincount(place, flows, len(links))
            rates, holder = rates_of_crossings(spare, activity, place, weight, self._cap[free])
            gap = np.abs(rates - self.rate[free])
            moved = gap > ROUNDING * rates
            reached = links[place[moved[activity]]]
            wider = np.unique(
                np.concatenate([free, self._held_at(reached), self._faster(links, holder, rates)])
            )
            if len(wider) == len(free):
                self._move(free[moved], rates[moved])
                self._hold(free, np.append(links, -1)[holder])
                if self._kinds is not None:
                    self._kinds.take_over(free, self.rate[free], self._held[free])
                return links
            free = wider
        return None

    def _held_at(self, links: Integers) -> Integers:
        """Return the rows that are held by some links."""
        among = np.zeros(len(self.capacity) + 1, dtype=bool)  # the last is for those held by none
        among[links] = True
        rows: Integers = among[self._held].nonzero()[0]
        return rows

    def _faster(self, links: Integers, holder: Integers, rates: Floats) -> Integers:
        """Return the rows faster than those that a link now holds, on any such link.

        `holder` and `rates` are of the free, as places in `links`; some of the free are returned.
        """
        (held,) = (holder >= 0).nonzero()
        level = np.zeros(len(links))
        level[holder[held]] = rates[held]
        holders = np.unique(holder[held])
        rows, of = self._crossings.rows_on(links[holders])
        return rows[self.rate[rows] > level[holders][of] * (1 + ROUNDING)]

    def _move(self, rows: Integers, rates: Floats) -> None:
        """Give some rows their rates, and add up what that changes."""
        crossings, of = self._crossings.of_rows(rows)
        more = (rates - self.rate[rows])[of] * self._crossings.weight[crossings]
        np.add.at(self.load, self._crossings.link[crossings], more)
        self.rate[rows] = rates

    def _hold(self, rows: Integers, links: Integers) -> None:
        """Note which links hold some rows from now on; links that hold somebody are tight."""
        self._held[rows] = links
        holding = links[links >= 0]
        if not self._tight[holding].all():
            self._tight[holding] = True
            self._kinds = None

    def _solve_upward(self) -> Integers:
        """Solve for all who are not below the level; return the tight links."""
        for rows in self._new:
            self.rate[rows] = self._cap[rows]  # at most, so that they are not below the level
        if self._kinds is None:
            self._kinds = self._sort_by_kind()
        kinds = self._kinds
        while True:
            self._solve_kinds(kinds)
            over = (self.load > self.capacity * (1 + ROUNDING)) & ~self._tight
            if not over.any():
                break
            self._tight |= over
            self._kinds = kinds = self._sort_by_kind()
        if np.count_nonzero(self._is_near(kinds.tight)) < 0.7 * len(kinds.tight):
            self._tight = self._is_near(np.arange(len(self.load)))
            self._kinds = None
        return kinds.tight

    def _solve_kinds(self, kinds: Kinds) -> None:
        """Give all rows the rates that are fair on the tight links."""
        kinds.solve_upward(self.capacity[kinds.tight], self._level * BELOW)
        rate = np.append(kinds.rate, 0.0)[kinds.of_row]  # of kind -1: the last
        (moved,) = (rate != self.rate).nonzero()
        if self._new or 3 * len(moved) > len(rate):
            self.rate = rate
            self.load = self._sum_by_link(rate)
        else:
            self._move(moved, rate[moved])
        self._held = np.append(kinds.held, -1)[kinds.of_row]

    def _sort_by_kind(self) -> Kinds:
        """Put together the rows that cross the same tight links and have the same cap."""
        inside = self._tight[self._crossings.link]
        sums = self._crossings.sum_by_row(np.where(inside, self._marks, np.uint64(0)))
        names = sums + self._marker.of_caps(self._cap)
        (here,) = self._here.nonzero()
        _, first, kind = np.unique(names[here], return_index=True, return_inverse=True)
        of_row = np.full(len(names), -1)
        of_row[here] = kind
        example = here[first]
        own, activity = self._crossings.of_rows(example)
        (tight_own,) = inside[own].nonzero()
        crossings = own[tight_own]
        place = np.cumsum(self._tight) - 1
        return Kinds(
            of_row=of_row,
            count=np.bincount(kind, minlength=len(example)).astype(float),
            rate=self.rate[example],
            cap=self._cap[example],
            held=self._held[example],
            tight=self._tight.nonzero()[0],
            activity=activity[tight_own],
            link=place[self._crossings.link[crossings]],
            weight=self._crossings.weight[crossings],
        )

    def _is_near(self, links: Integers) -> NDArray[np.bool_]:
        """Tell which of some links are nearly full, or full."""
        near: NDArray[np.bool_] = self.load[links] >= NEAR * self.capacity[links]
        return near

    def _sum_by_link(self, amounts: Floats) -> Floats:
        """Return the sum over the flows that cross each link of what their rows amount to."""
        table = self._crossings
        flows = table.weight * amounts[table.row]
        return np.bincount(table.link, flows, len(self.capacity)).astype(float)
