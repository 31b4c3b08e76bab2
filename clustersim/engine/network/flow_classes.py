"""Flows that are alike: those that cross the same tight links run at the same rate."""

from dataclasses import dataclass

import numpy as np

from clustersim.engine.network.fairness import Integers, rates_of_crossings
from clustersim.engine.network.flow_links import Marks
from clustersim.timeline import Floats


@dataclass
class Kinds:
    """Rows that are alike, as one activity each.

    Attributes
    ----------
    of_row : the kind of each row; -1 for those who left
    count : rows of each kind that are still there
    rate, cap : of one flow of each kind [B/s]
    held : the link that holds each kind; -1 where that is its cap
    tight : links that were tight
    activity, link, weight : the crossings of one row of each kind with them, `link` being the
        place in `tight`
    """

    of_row: Integers
    count: Floats
    rate: Floats
    cap: Floats
    held: Integers
    tight: Integers
    activity: Integers
    link: Integers
    weight: Floats

    def leave(self, row: int) -> None:
        """Let a row leave."""
        self.count[self.of_row[row]] -= 1
        self.of_row[row] = -1

    def take_over(self, rows: Integers, rate: Floats, held: Integers) -> None:
        """Note what was found for some rows one by one: all of a kind have the same rate."""
        self.rate[self.of_row[rows]] = rate
        self.held[self.of_row[rows]] = held

    def solve_upward(self, capacity: Floats, level: float) -> None:
        """Solve on the tight links, of these capacities, for all that are not below a level."""
        free = (self.rate >= level) & (self.count > 0)
        weight = self.weight * self.count[self.activity]
        is_free = free[self.activity]
        fixed, open_ = (~is_free).nonzero(), is_free.nonzero()
        taken = weight[fixed] * self.rate[self.activity[fixed]]
        spare = capacity - np.bincount(self.link[fixed], taken, len(capacity))
        number = np.cumsum(free) - 1
        rates, holder = rates_of_crossings(
            spare, number[self.activity[open_]], self.link[open_], weight[open_], self.cap[free]
        )
        self.rate[free] = rates
        self.held[free] = np.append(self.tight, -1)[holder]


class Marker:
    """A number of 64 random bits for each link and weight, and for each cap.

    Sums of them tell sets of crossings apart, as hashes do.
    """

    def __init__(self) -> None:
        self._random = np.random.default_rng(20261121)  # any seed: names, not quantities
        self._of_a_cap = self._draw(1)
        self._of_link = self._draw(0)

    def _draw(self, count: int) -> Marks:
        return self._random.integers(0, 2**64, count, dtype=np.uint64)

    def of(self, link: Integers, weight: Floats) -> Marks:
        """Return the marks of crossings."""
        missing = int(link.max(initial=-1)) + 1 - len(self._of_link)
        if missing > 0:
            self._of_link = np.append(self._of_link, self._draw(missing))
        return _mixed(self._of_link[link] ^ weight.view(np.uint64))

    def of_caps(self, cap: Floats) -> Marks:
        """Return the marks of caps."""
        return _mixed(cap.view(np.uint64) ^ self._of_a_cap)


def _mixed(bits: Marks) -> Marks:
    """Spread every bit over all others: the finaliser of SplitMix64 (Steele et al. 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Marks = bits ^ (bits >> np.uint64(31))
    return mixed
