r"""What each neighbour costs a job: the Shapley value of its time, over sets of other jobs.

    \phi_j = \sum_S \frac{|S|! (n - |S| - 2)!}{(n - 1)!} (T(S + j) - T(S))

over the sets S of jobs without both, with T the time of the job next to S.  Of many jobs some sets
are drawn, each with the set of all others, and the values are those of the least squares

    \min \sum_S w(S) (T(S) - T(\{\}) - \sum_{j \in S} \phi_j)^2     \sum_j \phi_j = T(all) - T(\{\})

with the weights w of the Shapley value.  Lundberg and Lee, A unified approach to interpreting model
predictions, 2017, arXiv:1705.07874, theorem 2; pairs of sets: Covert and Lee, Improving KernelSHAP,
2021, arXiv:2012.01536.
"""

import random
from collections.abc import Callable, Sequence
from itertools import combinations
from math import factorial, fsum
from typing import Final, NamedTuple

import numpy as np

from clustersim.arrays import Floats

Jobs = tuple[int, ...]
TimeNextTo = Callable[[Jobs], float]
"""Time of a step of a job next to some others [s]."""

MOST_EXACT: Final = 4
"""Jobs up to which all sets are replayed."""

PAIRS: Final = 2
"""Pairs of sets that are drawn for each of more jobs."""

MOST_PAIRS: Final = 32
"""Pairs of sets that are drawn at most; each takes as long as a replay of all jobs."""


class Cost(NamedTuple):
    """What a neighbour costs a job.

    Attributes
    ----------
    seconds : of each step [s]
    error : its standard error; None where all sets were replayed [s]
    """

    seconds: float
    error: float | None


def shapley_values(others: Sequence[int], time: TimeNextTo) -> dict[int, Cost]:
    """Return what each of the others costs, by replays next to all sets of them."""
    count = len(others)
    costs = {}
    for other in others:
        rest = [each for each in others if each != other]
        seconds = fsum(
            factorial(size) * factorial(count - size - 1) / factorial(count)
            * (time((*some, other)) - time(some))
            for size in range(len(rest) + 1)
            for some in combinations(rest, size)
        )  # fmt: skip
        costs[other] = Cost(seconds, None)
    return costs


def drawn_sets(jobs: Sequence[int], seed: int) -> list[tuple[Jobs, Jobs]]:
    """Return pairs of sets of jobs, the second with all that the first is without.

    First each job without all others, so that each has a value of its own; others are drawn.

    >>> drawn_sets(range(5), seed=0)[4:6]
    [((4,), (0, 1, 2, 3)), ((1, 2, 3), (0, 4))]
    """
    generator = random.Random(f"blame {seed}")
    count = min(PAIRS * len(jobs), MOST_PAIRS)
    chosen = [{job} for job in jobs][:count]
    while len(chosen) < count:
        chosen.append({*generator.sample(jobs, generator.randint(2, len(jobs) - 2))})
    return [
        (tuple(j for j in jobs if j in some), tuple(j for j in jobs if j not in some))
        for some in chosen
    ]


def estimated_values(
    job: int, others: Sequence[int], pairs: Sequence[tuple[Jobs, Jobs]], time: TimeNextTo
) -> dict[int, Cost]:
    """Return what each of the others costs, by replays next to the sets that were drawn."""
    sets = [tuple(j for j in (a if job in a else b) if j != job) for a, b in pairs]
    alone, total = time(()), time(tuple(others)) - time(())
    some = [each for each in sets if each]
    inside = np.array([[other in each for other in others] for each in some], dtype=np.float64)
    excess = np.array([time(each) - alone for each in some])
    values = _fitted(inside, excess, total, len(others))
    left_out = [
        _fitted(np.delete(inside, n, axis=0), np.delete(excess, n), total, len(others))
        for n in range(len(some))
    ]
    errors = _jackknife(np.array(left_out).reshape(len(some), len(others)))
    each = zip(others, values.tolist(), errors.tolist(), strict=True)
    return {other: Cost(seconds, error) for other, seconds, error in each}


def _fitted(inside: Floats, excess: Floats, total: float, count: int) -> Floats:
    """Return the values of least squares that add up to the total.

    Equal shares are subtracted first, so that what is not determined is shared equally.
    """
    equal = np.full(count, total / count)
    if not len(excess):
        return equal
    weights = np.sqrt(_weights(inside.sum(axis=1), count))
    centred = inside - inside.mean(axis=1, keepdims=True)  # the rest then adds up to nothing
    rows, rest = centred * weights[:, None], (excess - inside @ equal) * weights
    values = np.linalg.lstsq(rows, rest, rcond=1e-9)[0]
    fitted: Floats = equal + values - values.mean()
    return fitted


def _weights(sizes: Floats, count: int) -> Floats:
    """Return the weights of sets by their sizes: all without one other, and drawn ones.

    All sets of a size have the weight of the Shapley value for it together.
    """
    of_size = (count - 1) / (sizes * (count - sizes))
    drawn = sizes < count - 1
    share = np.where(drawn, (count - 2) / max(1, int(drawn.sum())), 1 / count)
    weights: Floats = of_size * share
    return weights


def _jackknife(left_out: Floats) -> Floats:
    """Return standard errors from the values without each of the sets in turn."""
    count = len(left_out)
    if count < 2:
        return np.zeros(left_out.shape[1])
    errors: Floats = np.sqrt((count - 1) * left_out.var(axis=0))
    return errors
