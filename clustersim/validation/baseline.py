"""The best-constant baseline: every device runs at one constant rate, whatever the job.

    measured rates of a group --best_constant--> one rate --errors_of--> errors of the baseline

The constant is the best one for these very runs, chosen with their measured rates.  Where a
simulator is no better than that, its error proves nothing.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustersim.validation.outcome import Outcome


class RatedRun(NamedTuple):
    """The measured rate of a device [FLOP/s], and whether the run is graded by a time."""

    rate: float
    timed: bool


def rated_runs(outcomes: Sequence[Outcome], convention: str) -> list[RatedRun]:
    """Return the runs with a measured speed, in a convention of FLOPs."""
    rates = [(outcome, outcome.measured_rate(convention)) for outcome in outcomes]
    return [
        RatedRun(rate, timed=outcome.grade.is_time)
        for outcome, rate in rates
        if rate is not None and outcome.grade is not None
    ]


def errors_of(constant: float, runs: Sequence[RatedRun]) -> NDArray[np.float64]:
    """Return the absolute errors of a constant rate, each of the metric that grades the run.

    >>> errors_of(100.0, [RatedRun(80.0, timed=True), RatedRun(80.0, timed=False)])
    array([0.2 , 0.25])
    """
    rates, timed = np.array([run.rate for run in runs]), np.array([run.timed for run in runs])
    errors: NDArray[np.float64] = np.abs(np.where(timed, rates / constant, constant / rates) - 1)
    return errors


def best_constant(runs: Sequence[RatedRun]) -> float:
    r"""Return the constant rate with the least mean absolute error [FLOP/s].

    The sum of the errors is :math:`\sum \pm (r / c - 1)` over times and :math:`\sum \pm (c / r -
    1)` over rates.  Between two measured rates it is :math:`A / c + B c` and a constant, so that
    its minimum is at a measured rate or at :math:`\sqrt{A / B}` between two.

    >>> best_constant([RatedRun(rate, timed=False) for rate in (100.0, 140.0, 150.0)])
    140.0
    """
    rates = sorted(run.rate for run in runs)
    between = [_stationary(low, high, runs) for low, high in pairwise(rates)]
    candidates = [*rates, *(rate for rate in between if rate is not None)]
    return min(candidates, key=lambda constant: float(errors_of(constant, runs).sum()))


def _stationary(low: float, high: float, runs: Sequence[RatedRun]) -> float | None:
    """Return the minimum of the sum between two neighbouring rates, if there is one."""
    inverse = sum(run.rate if run.rate >= high else -run.rate for run in runs if run.timed)
    linear = sum(
        1 / run.rate if run.rate <= low else -1 / run.rate for run in runs if not run.timed
    )
    if inverse <= 0 or linear <= 0:
        return None
    rate = sqrt(inverse / linear)
    return rate if low < rate < high else None
