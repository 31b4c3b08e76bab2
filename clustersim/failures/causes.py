"""Causes of failures of a job, and the mean time between its failures.

A job is a series system: it fails when any of its parts fails, so that rates of independent causes
and parts add up, and twice the parts have half the mean time between failures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, expm1, gamma, inf


@dataclass(frozen=True)
class FailureCause:
    """One cause of failures of a job.

    Attributes
    ----------
    name : in the answer
    rate : failures of the whole job [1/s]
    restart : from the failure until work resumes, with detection, without waiting for nodes [s]
    shape : of the Weibull distribution of the time between two of them; 1 is exponential
    replaces : whether a node has to be replaced
    lag : time from the end of a save's block until it can be restarted from [s]
    by_step : whether the work up to the last step survives, in another replica
    """

    name: str
    rate: float
    restart: float = 0.0
    shape: float = 1.0
    replaces: bool = False
    lag: float = 0.0
    by_step: bool = False

    @property
    def scale(self) -> float:
        """Scale of the Weibull distribution, whose mean is 1 / rate [s]."""
        return 1 / (self.rate * gamma(1 + 1 / self.shape))


def mean_time_between(causes: Sequence[FailureCause]) -> float:
    """Return the mean time between failures of a job; infinite without causes [s].

    >>> mean_time_between([FailureCause("a", 0.25), FailureCause("b", 0.25)])
    2.0
    """
    rate = sum(cause.rate for cause in causes)
    return 1 / rate if rate else inf


def goodput_of_causes(
    interval: float, block: float, causes: Sequence[FailureCause], more: float = 0.0
) -> float:
    r"""Return useful over elapsed time of a job whose causes restart differently [unitless].

    .. math:: E = \frac{t \sum_c p_c e^{-R_c / M} \sum_c p_c e^{-L_c / M}}
              {M \left(e^{((1 + e) t + C) / M} - 1\right)}

    with t = `interval`, C = `block`, e = `more`, M the mean time between failures of all causes,
    p_c = `rate` M, R_c = `restart` and L_c = `lag` of a cause: `interval_goodput` with means over
    the causes.  Exact for exponential causes, without waiting for nodes.

    Parameters
    ----------
    more : planned time for each second of useful work, such as evaluations [unitless]
    """
    mean, work = mean_time_between(causes), interval * (1 + more)
    if mean == inf:
        return interval / (work + block)
    shares = [cause.rate * mean for cause in causes]
    survived = [exp(-cause.restart / mean) for cause in causes]
    durable = [exp(-cause.lag / mean) for cause in causes]
    if (work + block) / mean > 700:  # below the smallest number
        return 0.0
    started = sum(p * s for p, s in zip(shares, survived, strict=True))
    kept = sum(p * s for p, s in zip(shares, durable, strict=True))
    return interval * started * kept / (mean * expm1((work + block) / mean))
