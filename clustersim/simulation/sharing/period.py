"""The periodic steady state of jobs that repeat their steps next to each other.

    job a   |----|----|----|----|----|----|      2 steps of a and 3 of b take one period:
    job b   |--|--|---|--|--|---|--|--|---|      then all end as in the last one

A replay is deterministic, so jobs whose steps end at the same offsets for two periods go on so.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.records import dataclass

SAME: Final = 1e-9
"""Difference of offsets, as a share of the period, up to which they are the same."""


@dataclass(frozen=True)
class Period:
    """The last period of a replay.

    Attributes
    ----------
    seconds : its length [s]
    times : by job, of each pass in it [s]
    """

    seconds: float
    times: Mapping[int, Floats]


def find_period(ends: Mapping[int, Floats]) -> Period | None:
    """Return the shortest period with which the ends of all passes repeat; None if they do not.

    Parameters
    ----------
    ends : by job, when its passes ended, while all jobs were running [s]

    >>> period = find_period({0: np.array([0.0, 4, 8]), 1: np.array([1.0, 4, 5, 8])})
    >>> period.seconds, period.times[1].tolist()
    (4.0, [1.0, 3.0])
    """
    slowest = min(ends, key=lambda job: len(ends[job]))
    last = float(ends[slowest][-1])
    known = {job: times[times <= last * (1 + SAME)] for job, times in ends.items()}
    for passes in range(1, (len(known[slowest]) - 1) // 2 + 1):
        seconds = last - float(known[slowest][-1 - passes])
        counts = {job: _repeated(times, last, seconds) for job, times in known.items()}
        if all(counts.values()):
            times = {job: np.diff(known[job])[-count:] for job, count in counts.items()}
            return Period(seconds, times)
    return None


def _repeated(ends: Floats, last: float, seconds: float) -> int:
    """Return the passes of a job in the last period; 0 if they do not repeat those before."""
    edge = SAME * seconds
    count, both = (int(n) for n in _later(ends, [last - seconds + edge, last - 2 * seconds + edge]))
    if not count or both != 2 * count:
        return 0
    now, before = ends[-count:], ends[-both:-count]
    return count if np.abs(now - before - seconds).max() <= edge else 0


def _later(ends: Floats, instants: list[float]) -> Integers:
    """Return how many passes ended after each of some instants."""
    later: Integers = len(ends) - np.searchsorted(ends, instants, side="right")
    return later
