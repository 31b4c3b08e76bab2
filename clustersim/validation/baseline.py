"""The rival that knows nothing: every device runs at one constant rate, whatever it is asked.

    measured rates of a group --best_constant--> one rate --errors_of--> what it scores

It is given the best constant there is for these very runs, looked up in their answers.  A group on
which a simulator is no better than that proves nothing about the simulator.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustersim.validation.outcomes import Outcome


class Run(NamedTuple):
    """What a run reached on each device [FLOP/s], and whether it is graded by a time."""

    rate: float
    timed: bool


def runs_of(outcomes: Sequence[Outcome], convention: str) -> list[Run]:
    """Return the runs among outcomes whose speed was measured, in a convention of FLOPs."""
    rated = [(outcome, outcome.measured_rate(convention)) for outcome in outcomes]
    return [
        Run(rate, timed=outcome.grade.is_time)
        for outcome, rate in rated
        if rate is not None and outcome.grade is not None
    ]


def errors_of(constant: float, runs: Sequence[Run]) -> NDArray[np.float64]:
    """Return the absolute errors of a constant rate, each of the metric that a run is graded by.

    >>> errors_of(100.0, [Run(80.0, timed=True), Run(80.0, timed=False)])
    array([0.2 , 0.25])
    """
    rates, timed = np.array([run.rate for run in runs]), np.array([run.timed for run in runs])
    found: NDArray[np.float64] = np.abs(np.where(timed, rates / constant, constant / rates) - 1)
    return found


def best_constant(runs: Sequence[Run]) -> float:
    r"""Return the constant rate with the least mean absolute error [FLOP/s].

    The sum of the errors is :math:`\sum \pm (r / c - 1)` over times and :math:`\sum \pm (c / r -
    1)` over rates.  Between two measured rates it is :math:`A / c + B c` and a constant, so that
    its least is at a measured rate or at :math:`\sqrt{A / B}` between two.

    >>> best_constant([Run(rate, timed=False) for rate in (100.0, 140.0, 150.0)])
    140.0
    """
    rates = sorted(run.rate for run in runs)
    between = [_stationary(low, high, runs) for low, high in pairwise(rates)]
    candidates = [*rates, *(found for found in between if found is not None)]
    return min(candidates, key=lambda constant: float(errors_of(constant, runs).sum()))


def _stationary(low: float, high: float, runs: Sequence[Run]) -> float | None:
    """Return where the sum is least between two neighbouring rates, if it is there."""
    inverse = sum(run.rate if run.rate >= high else -run.rate for run in runs if run.timed)
    linear = sum(
        1 / run.rate if run.rate <= low else -1 / run.rate for run in runs if not run.timed
    )
    if inverse <= 0 or linear <= 0:
        return None
    found = sqrt(inverse / linear)
    return found if low < found < high else None
