"""Checks of transfers: contention on links, and conservation of bytes and capacity.

A transfer series is all that one rank class sent by one kind of step: the same traffic repeatedly,
one transfer after another.  The demand of a transfer on a link is the share of the capacity that it
takes there at full rate.  Where the demands of all senders together stay within the capacity of a
link there is no contention; else the demand on the link is summed over time.

Bytes delivered through the network are integrated from rates and times, never copied from the
traffic; the load of every solved link is summed independently from the rates.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations, islice
from math import isinf
from typing import NamedTuple

import numpy as np

from clustersim.engine.network.transfer import FULL, Transfer
from clustersim.errors import SimulationError
from clustersim.timeline import Floats
from clustersim.traffic import Traffic

ROUNDING = 1e-12
"""Share of a link by which demands that fit exactly may exceed it."""

FEW_SENDERS = 6
"""Up to this number of senders on a link, all pairs are compared before the demands are summed."""


class TransferSeries(NamedTuple):
    """Times at which one traffic was on its links.

    Attributes
    ----------
    sender : that had at most one of these transfers in flight at any time
    rate : of one flow with its links to itself [B/s]
    begin, end : of its bytes, ascending [s]
    """

    sender: int
    traffic: Traffic
    rate: float
    begin: Floats
    end: Floats


LinkDemands = Sequence[tuple[TransferSeries, float]]
"""The series that cross a link, each with the demand of one of its transfers."""


def check_delivered(transfers: Iterable[TransferSeries], resolution: float = 0.0) -> None:
    """Check that the duration of every transfer fits its bytes.

    Parameters
    ----------
    resolution : step of the grid of their instants [s]

    Raises
    ------
    SimulationError
        naming the traffic, when rate times duration differs from its bytes by more than 1e-9 and
        the resolution of the clock.
    """
    # Nothing limits a transfer of infinite rate: its bytes take no time.
    limited = [series for series in transfers if not isinf(series.rate)]
    counts = [len(series.end) for series in limited]
    begin, end = (
        np.concatenate([np.zeros(0), *(getattr(series, name) for series in limited)])
        for name in ("begin", "end")
    )
    rate = np.repeat([series.rate for series in limited], counts)
    sent = np.repeat([series.traffic.nbytes for series in limited], counts)
    delivered = (end - begin) * rate
    allowed = ROUNDING * 1e3 * sent + rate * (end * 4e-15 + resolution)
    for wrong in np.flatnonzero(np.abs(delivered - sent) > allowed)[:1].tolist():
        series = limited[int(np.searchsorted(np.cumsum(counts), wrong, side="right"))]
        raise SimulationError(
            f"{series.traffic.name}: byte count mismatch: {delivered[wrong]:g} B delivered,"
            f" {series.traffic.nbytes:g} B sent"
        )


def overloaded_links(
    transfers: Iterable[TransferSeries], capacities: Sequence[float]
) -> frozenset[int]:
    """Return the links on which the demand ever exceeded the capacity."""
    crossing = defaultdict[int, list[tuple[TransferSeries, float]]](list)
    for series in transfers:
        for link, weight in series.traffic.crossings():
            crossing[link].append((series, weight * series.rate / capacities[link]))
    overlaps = _Overlaps()
    return frozenset(
        link
        for link, demands in crossing.items()
        if _upper_bound(demands) > 1 + ROUNDING and overlaps.exceed(demands)
    )


Times = tuple[Floats, Floats]
"""Begin and end of transfers one after another, ascending [s]."""


class _Overlaps:
    """Whether transfers of different senders overlap; each pair of senders is compared once.

    A link is crossed by the same transfers as many others.
    """

    def __init__(self) -> None:
        self._times: dict[tuple[int, ...], Times] = {}
        self._overlapping: dict[tuple[tuple[int, ...], tuple[int, ...]], bool] = {}

    def exceed(self, demands: LinkDemands) -> bool:
        """Return whether the demands of a link ever exceeded its capacity."""
        senders: dict[int, list[TransferSeries]] = {}
        for series, _ in demands:
            if len(series.begin):
                senders.setdefault(series.sender, []).append(series)
        if len(senders) <= FEW_SENDERS:
            keys = [self._key(of_sender) for of_sender in senders.values()]
            if not any(self._overlap(a, b) for a, b in combinations(keys, 2)):
                return False
        return peak_demand(demands) > 1 + ROUNDING

    def _key(self, series: Sequence[TransferSeries]) -> tuple[int, ...]:
        """Return the key of the times of a sender."""
        key = tuple(map(id, series))
        if key not in self._times:  # in order of their ends as well, since one ends before the next
            begin, end = series[0].begin, series[0].end
            if len(series) > 1:
                begin = np.sort(np.concatenate([part.begin for part in series]), kind="stable")
                end = np.sort(np.concatenate([part.end for part in series]), kind="stable")
            self._times[key] = begin, end
        return key

    def _overlap(self, a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        if (a, b) not in self._overlapping:
            self._overlapping[a, b] = overlap(self._times[a], self._times[b])
        return self._overlapping[a, b]


def overlap(a: Times, b: Times) -> bool:
    """Return whether transfers of two senders overlap; touching intervals do not."""
    (begin_a, end_a), (begin_b, end_b) = a, b
    if end_a[-1] <= begin_b[0] or end_b[-1] <= begin_a[0]:
        return False
    following = end_a.searchsorted(begin_b, side="right")
    inside = following < len(end_a)
    return bool((begin_a[following[inside]] < end_b[inside]).any())


def _upper_bound(demands: LinkDemands) -> float:
    """Return the maximum possible demand: one transfer at a time from each sender."""
    largest: dict[int, float] = {}
    for series, demand in demands:
        largest[series.sender] = max(demand, largest.get(series.sender, 0.0))
    return sum(largest.values())


def peak_demand(demands: LinkDemands) -> float:
    """Return the maximum demand over time, as a share of the link; touching intervals add nothing.

    All ends of an instant come before its starts.
    """
    every, each = zip(*demands, strict=True)
    more = np.repeat(each, [len(series.begin) for series in every])
    change = np.concatenate([more, -more])
    times = [series.begin for series in every] + [series.end for series in every]
    order = np.lexsort((change, np.concatenate(times)))
    return float(np.cumsum(change[order]).max(initial=0.0))


# --- conservation ---------------------------------------------------------------------------------

TOLERANCE = 1e-9
"""Relative error of bytes or capacity that is reported."""


class Conservation:
    """Totals of one network; `resolution` is the step of the grid of its instants [s].

    Attributes
    ----------
    sent, delivered : bytes of one flow, summed over the activities [B]
    solves : times that the rates of contended links were solved [count]
    worst_load : highest load of a solved link, share of its capacity
    """

    def __init__(self, resolution: float = 0.0) -> None:
        self._resolution = resolution
        self.sent = 0.0
        self.delivered = 0.0
        self.solves = 0
        self.worst_load = 0.0
        self._worst_link = -1
        self._allowance = 0.0
        self._mismatches: list[Transfer] = []

    def count_end(self, transfer: Transfer, now: float) -> None:
        """Add the bytes of a transfer that has completed."""
        nbytes, rate = transfer.traffic.nbytes, transfer.rate
        delivered = transfer.delivered + rate * (now - transfer.since)
        # The clock has a finite resolution, and each change of the rate is on its grid.
        allowance = TOLERANCE * nbytes + rate * (now * 4e-15 + 4 * self._resolution)
        if not -allowance <= delivered - nbytes <= allowance:
            self._mismatches.append(transfer)
        transfer.delivered = delivered
        self.delivered += delivered
        self._allowance += allowance

    def count_solve(self, load: float, link: int) -> None:
        """Count a solve, and keep the highest load of all."""
        self.solves += 1
        if load > self.worst_load:
            self.worst_load, self._worst_link = load, link

    def counted(self) -> tuple[float, ...]:
        """Return the totals that grow with each activity."""
        return self.sent, self.delivered, self._allowance, self.solves

    def count_repeated(self, before: tuple[float, ...], times: int) -> None:
        """Add what was counted since earlier totals a number of times."""
        sent, delivered, allowance, solves = before
        self.sent += times * (self.sent - sent)
        self.delivered += times * (self.delivered - delivered)
        self._allowance += times * (self._allowance - allowance)
        self.solves += times * (self.solves - int(solves))

    def violations(
        self, in_flight: Collection[Transfer], demands: Sequence[int], now: float
    ) -> Iterator[str]:
        """Yield a sentence for each law that is violated after a run."""
        if in_flight:
            names = ", ".join(f"{t.traffic.name!r}" for t in islice(in_flight, 5))
            more = f" and {len(in_flight) - 5} more" if len(in_flight) > 5 else ""
            yield f"network: still in flight at {now:.9g} s: {names}{more}"
        if self._mismatches:
            first = self._mismatches[0]
            yield (
                f"network: {first.traffic.name!r} delivered {first.delivered:.12g} B "
                f"of {first.traffic.nbytes:.12g} B ({len(self._mismatches)} such)"
            )
        if abs(self.sent - self.delivered) > self._allowance:
            yield (
                f"network: all activities together delivered {self.delivered:.12g} B "
                f"of {self.sent:.12g} B"
            )
        if self.worst_load > 1 + TOLERANCE:
            yield f"network: link {self._worst_link} ran at {self.worst_load:.9g} of its capacity"
        for link, demand in enumerate(demands):
            if demand:
                yield f"network: link {link} is idle but {demand / FULL:.3g} of it is in use"
                return
