r"""What logs of one's own machine determine of the factors on the catalogue's values.

    logs: y = ln(measured / predicted), slopes J  --ridge--> ln(factors), their spreads

With the spread s of a factor before any log, and the scatter :math:`\sigma` of the error that two
runs of one job do not share, the logarithms x of the factors are the mean of their distribution
given the logs (Bishop 2006, Pattern Recognition and Machine Learning, section 3.3):

.. math:: \hat x = \Sigma J^T W y, \qquad \Sigma = (s^{-2} I + J^T W J)^{-1}, \qquad
   W_{ii} = \frac{1}{\sigma^2 + e_i^2}

with the standard error :math:`e_i` of each log.  One log with several factors has one equation:
each factor is shifted in proportion to its effect on the step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from clustersim.evidence import Reach
from clustersim.records import dataclass

SPREAD: Final = 0.06
"""Standard deviation of the logarithm of a factor over jobs.  Twice `SCATTER`: of the ratios 1/2,
1, 2 and 4 the one with the least median error on development rows (python -m tools.anchoring)."""

SCATTER: Final = 0.03
"""Standard deviation of the error that two runs of one job do not share: about that of anchored
development rows, 1.48 times their median absolute error over the root of 2 (same command)."""

NARROWED: Final = 0.5
"""Share of the interval, on a logarithmic scale, that has nine of ten anchored development rows
near their anchor: 0.48, and 0.43 to 0.50 without one source each (same command)."""

NEAR: Final = 0.1
"""Sum of differences of the shares of a step's parts up to which a job is like its anchor.  Up to
0.2 the share above would be 0.81, and 0.48 also up to 0.05 (same command)."""


@dataclass(frozen=True)
class Observation:
    """A log next to the prediction with all factors 1.

    Attributes
    ----------
    residual : ln(measured / predicted)
    error : standard error of the measured median, a share of it
    slopes : derivative of the logarithm of the step time by that of each factor
    """

    residual: float
    error: float
    slopes: Mapping[str, float]


@dataclass(frozen=True)
class Shift:
    """The logarithm of a factor, with its standard deviation."""

    mean: float
    spread: float


def shifts_of(
    names: Sequence[str], observations: Sequence[Observation], spread: float = SPREAD
) -> dict[str, Shift]:
    """Return the logarithms of factors by some logs; `spread` is that before any log.

    >>> log = Observation(0.06, 0.0, {"products": -1.0, "host": 0.0})
    >>> shifts = shifts_of(["products", "host"], [log])
    >>> round(shifts["products"].mean, 3), shifts["host"].mean
    (-0.048, 0.0)
    >>> round(shifts["products"].spread, 3), round(shifts["host"].spread, 3)
    (0.027, 0.06)
    """
    slopes = np.array([[log.slopes.get(name, 0.0) for name in names] for log in observations])
    weights = np.array([1 / (SCATTER**2 + log.error**2) for log in observations])
    weighted = slopes.T * weights
    covariance = np.linalg.inv(np.eye(len(names)) / spread**2 + weighted @ slopes)
    means = covariance @ weighted @ np.array([log.residual for log in observations])
    spreads = np.sqrt(np.diag(covariance))
    return {
        name: Shift(float(mean) + 0.0, float(deviation))
        for name, mean, deviation in zip(names, means, spreads, strict=True)
    }


def shares_of(attribution: Mapping[str, float]) -> dict[str, float]:
    """Return the parts of a step over their sum."""
    whole = sum(attribution.values())
    return {part: seconds / whole for part, seconds in attribution.items()}


def difference(shares: Mapping[str, float], others: Mapping[str, float]) -> float:
    """Return the sum of differences of the parts of two steps, from 0 to 2.

    >>> difference({"matmul": 0.9, "dispatch": 0.1}, {"matmul": 0.75, "optimiser": 0.25})
    0.5
    """
    parts = {*shares, *others}
    return sum(abs(shares.get(part, 0.0) - others.get(part, 0.0)) for part in sorted(parts))


def narrowed(reach: Reach, why: str | None) -> Reach:
    """Return the error of predictions of an anchored job.

    Parameters
    ----------
    why : why the job is unlike the logs of its anchor; None where it is like one
    """
    if reach.below is None or reach.above is None:
        return reach
    if why is not None:
        return replace(reach, why=f"{reach.why}; not narrowed by the anchor: {why}")
    text = f"{reach.why}, narrowed to {100 * NARROWED:g} % by the anchor"
    below, above = reach.below**NARROWED, reach.above**NARROWED
    return replace(reach, below=below, above=above, why=text)
