"""Causes of failures of a job, and the mean time between its failures.

A job is a series system: it fails when any of its parts fails, so that rates of independent causes
and parts add up, and twice the parts have half the mean time between failures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, expm1, gamma, inf
from typing import Final


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
    saved = sum(p * s for p, s in zip(shares, durable, strict=True))
    return interval * started * saved / (mean * expm1((work + block) / mean))


# --- spare nodes ----------------------------------------------------------------------------------

CONFIDENCE: Final = 0.99
"""Probability with which the spares of a job suffice [unitless]."""


def spares_needed(nodes: int, probability: float, confidence: float = CONFIDENCE) -> int:
    r"""Return the fewest spares that suffice with some confidence [count].

    .. math:: \min \{k : P(\mathrm{Binomial}(n, p) \le k) \ge c\}

    with n = `nodes`, p = `probability` that a node is being replaced, c = `confidence`.
    Wan et al. 2025 (ByteRobust), section 5.2, arXiv:2509.16293.

    >>> [spares_needed(nodes, 0.0012) for nodes in (128, 256, 512, 1024)]
    [2, 2, 3, 4]
    """
    term = (1 - probability) ** nodes
    cumulative, spares = term, 0
    while cumulative < confidence and spares < nodes:
        term *= (nodes - spares) / (spares + 1) * probability / (1 - probability)
        spares += 1
        cumulative += term
    return spares
