"""Traffic: the load of one communication on the links, without a clock.

A communication is one fluid activity, not many messages.  A ring all-reduce over four
devices is one `Traffic` of four equal flows, each link crossed by one of them:

    d0 --l0--> d1 --l1--> d2 --l2--> d3 --l3--> d0      links (0, 1, 2, 3), weights (1, 1, 1, 1)

Point-to-point is the case of a single flow: every weight is 1.

Before replicas are folded, the same communication of thousands of them is one `TrafficRows`: a row
for each replica, its links and weights in arrays.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import Final, Literal, NamedTuple

import numpy as np

from clustersim.arrays import SPARSE, Booleans, Floats, Integers, ranges
from clustersim.records import dataclass

Name = tuple[Hashable, ...]
"""Name of a communication, the same for every replica: ``("send", "F", 3, 4)``."""


BELOW: Final = 0.99
"""Share of the rate of the links below which the library limits a collective, not rounding."""

LimitedBy = Literal["link", "library", "latency"]
"""What limits a communication without other traffic."""


def limiting(latency: float, nbytes: float, cap: float, free: float) -> LimitedBy:
    """Return what limits a communication.

    It is ``library`` where a measured limit of the library is below the rate of the links, so that
    faster links change nothing, and ``latency`` where that is more than half of the time.

    Parameters
    ----------
    latency, nbytes : before the first byte [s], and bytes of a flow [B]
    cap, free : highest rate of a flow, and that on its links without such a limit [B/s]
    """
    if not nbytes or latency > nbytes / min(cap, free):
        return "latency"
    return "library" if cap < BELOW * free else "link"


def link_text(link: str, by: LimitedBy | None) -> str:
    """Return a link in words, with what limits communication over it where the link does not.

    >>> link_text("n0.nic0>leaf0", "link"), link_text("n0.nic0>leaf0", "library")
    ('n0.nic0>leaf0', 'n0.nic0>leaf0 (limited by the library)')
    """
    words = {"library": " (limited by the library)", "latency": " (limited by latency)"}
    return link + words.get(by or "", "")


class Traffic(NamedTuple):
    """Equal flows that start at the same time, share links as one activity, and end together.

    Parameters
    ----------
    name : of the communication, as errors quote it
    links : the links that its flows cross, each once, as indices into the network's capacities
    weights : for each of `links`, how many of the flows cross it [flows]; above 0, may be
        fractional where a flow spreads over several paths
    nbytes : payload of each flow [B]
    latency : before the first byte, without use of bandwidth [s]
    cap : maximum rate of one flow, whatever the links allow [B/s]
    """

    name: str
    links: tuple[int, ...]
    weights: tuple[float, ...]
    nbytes: float
    latency: float
    cap: float = inf

    def crossings(self) -> Iterator[tuple[int, float]]:
        """Yield each link with the number of flows that cross it."""
        return zip(self.links, self.weights, strict=True)

    def uncontended_rate(self, capacities: Sequence[float] | Floats) -> float:
        """Return the rate of one flow with its links to itself [B/s]."""
        return min([self.cap, *(capacities[link] / weight for link, weight in self.crossings())])

    def limited_by(self, capacities: Floats) -> LimitedBy:
        """Return what limits it without other traffic."""
        free = self._replace(cap=inf).uncontended_rate(capacities)
        return limiting(self.latency, self.nbytes, self.cap, free)


@dataclass(frozen=True, eq=False)
class LinkRows:
    """Rows of links with a value each, in arrays: a sparse matrix of rows and links.

    Attributes
    ----------
    starts : the first entry of each row, and the number of entries
    links, values : of each entry; the links of a row differ, and ascend
    """

    starts: Integers
    links: Integers
    values: Floats

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def counts(self) -> Integers:
        """Entries of each row."""
        return self.starts[1:] - self.starts[:-1]

    @cached_property
    def row(self) -> Integers:
        """The row of each entry."""
        return np.repeat(np.arange(len(self)), self.counts)

    def of_row(self, row: int) -> dict[int, float]:
        """Return the links of a row with their values."""
        own = slice(self.starts[row], self.starts[row + 1])
        return dict(zip(self.links[own].tolist(), self.values[own].tolist(), strict=True))

    def take(self, rows: "Sequence[int] | Integers | slice") -> "LinkRows":
        """Return some of the rows, in their order."""
        chosen = np.arange(len(self))[rows]
        counts = self.counts[chosen]
        entries = ranges(self.starts[chosen], counts)
        before = np.concatenate([[0], np.cumsum(counts)])
        return LinkRows(before, self.links[entries], self.values[entries])

    def part(self, rows: slice) -> "LinkRows":
        """Return adjacent rows, whose entries are not copied."""
        starts = self.starts[rows.start : rows.stop + 1]
        entries = slice(starts[0], starts[-1])
        return LinkRows(starts - starts[0], self.links[entries], self.values[entries])

    def only(self, kept: Booleans) -> "LinkRows":
        """Return the entries for which `kept` is true."""
        before = np.concatenate([[0], np.cumsum(kept)])
        return LinkRows(before[self.starts], self.links[kept], self.values[kept])

    def scaled(self, factors: Floats) -> "LinkRows":
        """Return the rows, each multiplied by its factor."""
        return LinkRows(self.starts, self.links, self.values * np.repeat(factors, self.counts))

    def with_values(self, values: Floats) -> "LinkRows":
        """Return the same links with other values."""
        return LinkRows(self.starts, self.links, values)

    def alike(self, other: "LinkRows") -> bool:
        """Whether another one has the same links in each row."""
        return np.array_equal(self.starts, other.starts) and np.array_equal(self.links, other.links)

    def largest(self, values: Floats) -> Floats:
        """Return for each row the largest of the values of its entries; 0 for an empty row."""
        return self._reduced(np.maximum, values, 0.0)

    def smallest(self, values: Floats) -> Floats:
        """Return for each row the smallest of the values of its entries; infinity without any."""
        return self._reduced(np.minimum, values, inf)

    def _reduced(self, ufunc: np.ufunc, values: Floats, empty: float) -> Floats:
        found = np.full(len(self), empty)
        filled = self.counts > 0
        if filled.all():
            return ufunc.reduceat(values, self.starts[:-1]) if len(self) else found
        if filled.any():
            found[filled] = ufunc.reduceat(values, self.starts[:-1][filled])
        return found

    def add_to(self, totals: Floats, times: float = 1.0) -> None:
        """Add all values, times a number, to the totals of their links."""
        np.add.at(totals, self.links, self.values * times)

    def totals(self, links: int) -> Floats:
        """Return the sum of each link over all rows."""
        return np.bincount(self.links, self.values, minlength=links).astype(np.float64, copy=False)


def link_rows(row: Integers, links: Integers, values: Floats, rows: int) -> LinkRows:
    """Return rows from entries in any order; values of the same row and link are added."""
    width = int(links.max(initial=0)) + 1
    filled, sums = _summed(row * width + links, values, rows * width)
    of_row, link = np.divmod(filled, width)
    return LinkRows(np.searchsorted(of_row, np.arange(rows + 1)), link, sums)


def _summed(keys: Integers, values: Floats, most: int) -> tuple[Integers, Floats]:
    """Return the different keys below `most` in ascending order, and the sum of each."""
    if most <= SPARSE * len(keys):
        occurs = np.zeros(most, dtype=np.bool_)
        occurs[keys] = True
        different = np.flatnonzero(occurs)
        totals = np.bincount(keys, values, minlength=most).astype(np.float64, copy=False)
        return different, totals[different]
    order = np.argsort(keys, kind="stable")  # merges: keys ascend by parts
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    sums = np.add.reduceat(values[order], first) if len(first) else np.zeros(0)
    return keys[first], sums.astype(np.float64, copy=False)


def stacked(parts: Sequence[LinkRows]) -> LinkRows:
    """Return the rows of several parts one after another."""
    counts = np.concatenate([np.zeros(1, np.int64), *(part.counts for part in parts)])
    links = np.concatenate([np.zeros(0, np.int64), *(part.links for part in parts)])
    values = np.concatenate([np.zeros(0), *(part.values for part in parts)])
    return LinkRows(np.cumsum(counts), links, values)


def added(parts: Iterable[LinkRows], rows: int) -> LinkRows:
    """Return the sum of several parts of `rows` rows each."""
    listed = [part for part in parts if len(part.links)]
    first = listed[0] if listed else None
    if first is not None and all(first.alike(part) for part in listed[1:]):
        return first.with_values(sum((part.values for part in listed[1:]), first.values))
    return link_rows(*_entries(listed), rows)


def largest_of(parts: Iterable[LinkRows], rows: int) -> LinkRows:
    """Return the largest values of several parts of `rows` rows each."""
    listed = [part for part in parts if len(part.links)]
    if len(listed) == 1:
        return listed[0]
    row, links, values = _entries(listed)
    largest = link_rows(row, links, values, rows)
    order = np.lexsort((links, row))
    before = np.stack([row, links])[:, order]
    first = np.flatnonzero(np.diff(before, axis=1, prepend=-1).any(axis=0))
    return largest.with_values(
        np.maximum.reduceat(values[order], first) if len(first) else largest.values
    )


def _entries(parts: Sequence[LinkRows]) -> tuple[Integers, Integers, Floats]:
    """Return row, link and value of all entries."""
    row = np.concatenate([np.zeros(0, np.int64), *(part.row for part in parts)])
    links = np.concatenate([np.zeros(0, np.int64), *(part.links for part in parts)])
    return row, links, np.concatenate([np.zeros(0), *(part.values for part in parts)])


@dataclass(frozen=True, eq=False)
class TrafficRows:
    """The traffic of one name of many replicas, a row each; attributes as those of `Traffic`.

    Attributes
    ----------
    crossings : how many flows of each row cross each link [flows]
    """

    name: str
    crossings: LinkRows
    nbytes: Floats
    latency: Floats
    cap: Floats

    def __len__(self) -> int:
        return len(self.crossings)

    def of_row(self, row: int) -> Traffic:
        """Return the traffic of one replica."""
        weights = self.crossings.of_row(row)
        amounts = float(self.nbytes[row]), float(self.latency[row]), float(self.cap[row])
        return Traffic(self.name, tuple(weights), tuple(weights.values()), *amounts)

    @property
    def carried(self) -> tuple[Integers, Floats]:
        """A link and the bytes that a row sends over it, for each entry [B]."""
        crossed = self.crossings
        return crossed.links, crossed.values * np.repeat(self.nbytes, crossed.counts)

    def part(self, name: str, rows: slice) -> "TrafficRows":
        """Return the traffic of adjacent rows, by another name."""
        crossings = self.crossings.part(rows)
        return TrafficRows(name, crossings, self.nbytes[rows], self.latency[rows], self.cap[rows])

    def uncontended_rates(self, capacities: Floats) -> Floats:
        """Return the rate of one flow of each row with its links to itself [B/s]."""
        crossed = self.crossings
        return np.minimum(self.cap, crossed.smallest(capacities[crossed.links] / crossed.values))


def bytes_by_link(parts: Iterable[tuple[Integers, Floats]]) -> tuple[Integers, Floats]:
    """Return each link once, with the sum of its bytes in all parts [B].

    >>> links, nbytes = bytes_by_link([(np.array([7, 3]), np.ones(2)), (np.array([3]), np.ones(1))])
    >>> links.tolist(), nbytes.tolist()
    ([3, 7], [2.0, 1.0])
    """
    listed = [*parts]
    links = np.concatenate([np.zeros(0, np.int64), *(each for each, _ in listed)])
    nbytes = np.concatenate([np.zeros(0), *(each for _, each in listed)])
    numbers, place = np.unique(links, return_inverse=True)
    sums = np.bincount(place, nbytes, len(numbers))
    return numbers, sums.astype(np.float64, copy=False)


Transfers = Mapping[Name, TrafficRows]
"""Communications of all replicas, by name."""
