"""Causes of failures of a job, and the mean time between its failures.

A job is a series system: it fails when any of its parts fails, so that rates of independent causes
and parts add up, and twice the parts have half the mean time between failures.

    |-- work t --|C|-- work t --|C|-- work --x-- restart R --|-- work t --|C|
                                  lost ^^^^^^

Letters of the formulas: t useful work between two saves [s], C time for which a save blocks the
work [s], M mean time between failures of the job [s], R restart with detection [s], L time from
the end of a save's block until it is durable [s].  Failures are exponential: they strike at any
time, also during a save and a restart.
"""

from collections.abc import Sequence
from math import exp, expm1, gamma, inf, sqrt
from typing import Final

from clustersim.records import dataclass


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


# --- intervals between saves ----------------------------------------------------------------------

FLAT: Final = 1e-3
"""Loss of efficiency within which intervals count as equally good [unitless]."""

LOWEST: Final = -1.0 / 2.718281828459045
"""Smallest argument of Lambert's W with a real value."""


def best_interval(block: float, mean: float) -> float:
    r"""Return the interval with the highest efficiency for exponential failures [s].

    .. math:: t = M \left(1 + W_0\left(-e^{-1 - C / M}\right)\right)

    with W_0 the principal branch of Lambert's function: the root of dE/dt = 0 of
    `interval_goodput`. It depends neither on the restart nor on the time until a save is durable.
    Infinite without failures.

    >>> round(best_interval(300, 11134), 1)
    2388.6
    """
    if mean == inf:
        return inf
    return mean * (1 + _lambert_w(block / mean))


def _lambert_w(quotient: float) -> float:
    r"""Return :math:`W_0(-e^{-1 - q})`."""
    from scipy.special import lambertw  # imports in 0.1 s

    if quotient < 1e-7:  # cancels in floating point: the series of both around -1 / e
        return -1.0 + sqrt(2 * quotient) - 2 * quotient / 3
    return float(lambertw(max(-exp(-1 - quotient), LOWEST)).real)


def interval_goodput(
    interval: float, block: float, mean: float, restart: float = 0.0, lag: float = 0.0
) -> float:
    r"""Return useful over elapsed time of a run with exponential failures [unitless].

    .. math:: E = \frac{t \, e^{-(R + L) / M}}{M \left(e^{(t + C) / M} - 1\right)}

    with t = `interval`, C = `block`, M = `mean`, R = `restart`, L = `lag` <= t + C. Between two
    failures the job restarts (for R, unless it fails again), and keeps a save if it survives
    until the save is durable. Exact, apart from the end of the run. Without failures t / (t + C).

    >>> round(interval_goodput(2388.6, 300, 11134), 4)
    0.7855
    """
    if mean == inf:
        return interval / (interval + block)
    cycle = (interval + block) / mean
    if cycle + (restart + lag) / mean > 700:  # below the smallest number
        return 0.0
    return interval * exp(-(restart + lag) / mean) / (mean * expm1(cycle))


def first_order_goodput(interval: float, block: float, mean: float, restart: float = 0.0) -> float:
    r"""Return useful over elapsed time to first order in 1 / M [unitless]; 0 where it is negative.

    .. math:: E = \frac{1 - (R + t / 2) / M}{1 + C / t}

    with t = `interval`, C = `block`, M = `mean`, R = `restart`. Kokolis et al. 2024, section 3.3,
    arXiv:2410.21680, with N r_f = 1 / M; its authors state at most 5 % from replications up to
    8,000 devices and for M above 0.1 days.

    >>> per_second = 2000 * 6.5e-3 / 86400
    >>> round(first_order_goodput(3600, 0, 1 / per_second, restart=300), 3)
    0.684
    """
    return max(0.0, 1 - (restart + interval / 2) / mean) / (1 + block / interval)


def flat_range(block: float, mean: float, least: float = 0.0) -> tuple[float, float]:
    """Return the shortest and longest interval whose efficiency is within `FLAT` of the best [s].

    Parameters
    ----------
    least : shortest interval that is allowed [s]
    """
    best = max(best_interval(block, mean), least)
    if best == inf:
        return inf, inf
    bound = interval_goodput(best, block, mean) - FLAT
    low, high = best, best
    while low > least and low > 1e-3 * best and interval_goodput(low, block, mean) >= bound:
        low /= 1.01
    while high < 1e3 * best and interval_goodput(high, block, mean) >= bound:
        high *= 1.01
    return max(low, least), high
