"""Max-min fair rates of flows that share links: a pure function, no clock.

The system, in the notation of SimGrid's linear max-min solver (`src/kernel/lmm/System.hpp`):

    for every link l:      sum over activities a of  weight[a, l] * rate[a]  <=  capacity[l]
    for every activity a:  rate[a] <= cap[a]

and among all rates that obey it, the one whose smallest rate is largest, then the second
smallest, and so on.  `rate[a]` is the rate of one flow of the activity and `weight[a, l]` the
number of its flows that cross the link: an activity of weight 2 is two flows, not one flow of
twice the demand.

The solution is unique, and is computed by raising all rates together.  A link that offers each of
its remaining flows the level

    level[l] = (capacity[l] - load of its frozen flows) / (weights of its remaining flows)

freezes its flows once no other link and no cap limits one of them lower.  Levels never fall while
others freeze, so every link that is the tightest for all its flows may freeze in the same round
(Bertsekas and Gallager, Data Networks, 1992, section 6.5.2).
"""

from collections.abc import Sequence
from itertools import chain
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustersim.timeline import Floats

Integers = NDArray[np.intp]

FEW_CROSSINGS = 80
"""Up to this number of (activity, link) pairs plain Python is faster than arrays, as measured by
`benchmarks/network.py`."""


class Problem(NamedTuple):
    """Activities that share links.

    Attributes
    ----------
    capacities : of each link [B/s]
    links : for each activity, the links its flows cross, as indices into `capacities`
    weights : for each activity, how many of its flows cross each of those links [flows]
    caps : maximum rate of one flow of each activity [B/s]; may be infinite
    """

    capacities: Sequence[float]
    links: Sequence[Sequence[int]]
    weights: Sequence[Sequence[float]]
    caps: Sequence[float]


def max_min_rates(problem: Problem) -> list[float]:
    """Return the rate of one flow of each activity [B/s].

    An activity that crosses no link runs at its cap.

    >>> max_min_rates(Problem([10.0, 6.0], [[0], [0, 1], [1]], [[1], [1, 1], [1]], [inf] * 3))
    [7.0, 3.0, 3.0]
    """
    few = sum(map(len, problem.links)) <= FEW_CROSSINGS
    return rates_level_by_level(problem) if few else rates_in_rounds(problem)


def rates_level_by_level(problem: Problem) -> list[float]:
    """Freeze one level after the other, the lowest first: the textbook method, for few flows."""
    capacities, links, weights, caps = problem
    if len(links) == 1:
        crossings = zip(links[0], weights[0], strict=True)
        return [min([caps[0], *(capacities[link] / weight for link, weight in crossings)])]
    rates = [0.0] * len(links)
    spare = list(capacities)
    active = list(range(len(links)))
    level = 0.0
    while active:
        demand: dict[int, float] = {}
        for a in active:
            for link, weight in zip(links[a], weights[a], strict=True):
                demand[link] = demand.get(link, 0.0) + weight
        levels = {link: spare[link] / total for link, total in demand.items()}
        lowest = min(min(levels.values(), default=inf), min([caps[a] for a in active]))
        level = max(level, lowest)  # never falls, whatever the rounding
        tight = {link for link, offered in levels.items() if offered <= level}
        remaining = []
        for a in active:
            if caps[a] <= level or not tight.isdisjoint(links[a]):
                rates[a] = rate = min(level, caps[a])
                for link, weight in zip(links[a], weights[a], strict=True):
                    spare[link] -= weight * rate
            else:
                remaining.append(a)
        active = remaining
    return rates


def rates_in_rounds(problem: Problem) -> list[float]:
    """Freeze every link that is the tightest for all its flows at once, in arrays."""
    capacities, links, weights, caps = problem
    counts = np.fromiter(map(len, links), int, len(links))
    activity = np.repeat(np.arange(len(links)), counts)
    link = np.fromiter(chain.from_iterable(links), int, len(activity))
    weight = np.fromiter(chain.from_iterable(weights), float, len(activity))
    capacity, cap = np.asarray(capacities, dtype=float), np.asarray(caps, dtype=float)
    return list(rates_of_crossings(capacity, activity, link, weight, cap).tolist())


def rates_of_crossings(
    capacity: Floats, activity: Integers, link: Integers, weight: Floats, cap: Floats
) -> Floats:
    """Return the rate of one flow of each activity [B/s], as `max_min_rates`.

    One row of `activity`, `link`, `weight` is one crossing; rows of frozen
    activities are dropped.
    """
    rates = cap.copy()
    links = len(capacity)
    used = np.zeros(links)
    level = np.zeros(links)
    while len(link):
        demand = np.bincount(link, weight, links)
        offered = np.divide(capacity - used, demand, np.full(links, inf), where=demand > 0)
        level = np.maximum(level, offered)  # never falls, whatever the rounding
        level_there = level[link]
        limit = cap.copy()  # of each activity, by the tightest of its links or by its cap
        np.minimum.at(limit, activity, level_there)
        limit_there = limit[activity]
        tightest = np.ones(links, dtype=bool)
        tightest[link[(limit_there < level_there).nonzero()]] = False
        frozen = limit == cap
        frozen[activity[tightest[link].nonzero()]] = True
        # Rows by index: a boolean mask takes NumPy five times as long.
        freezes = frozen[activity]
        done, open_ = freezes.nonzero(), (~freezes).nonzero()
        rates[activity[done]] = limit_there[done]
        used += np.bincount(link[done], weight[done] * limit_there[done], links)
        activity, link, weight = activity[open_], link[open_], weight[open_]
    return rates
