r"""The share of a run with failures, waits and planned stops that is useful, in closed form.

.. math:: E = E_s(t) \cdot E_r(d) \cdot \frac{U}{U + L + C + W}

with E_s of the causes that lose the work since a save, at the interval t; E_r of those that lose
the work since a step of d, in another replica; U time between planned stops, each of length L after
a save that blocks for C and is durable W later.  A cause that takes a node waits for another one
before it restarts.  The factors are taken as independent, which is exact for one kind of them.
"""

from collections.abc import Iterable
from dataclasses import replace
from math import exp

from clustersim.failures.causes import FailureCause, goodput_of_causes, mean_time_between
from clustersim.failures.renewal import LongRun
from clustersim.records import dataclass


@dataclass(frozen=True)
class ExpectedRun:
    """A run as its closed form expects it.

    Attributes
    ----------
    goodput : useful over elapsed time [unitless]
    failures, stops : number of failures and of planned stops [count]
    accounts : seconds by name in `ACCOUNTS` [s]
    """

    goodput: float
    failures: float
    stops: float
    accounts: dict[str, float]


def expected_run(run: LongRun) -> ExpectedRun:
    """Return the expected run; without any work done its goodput is 0, and it has no accounts."""
    causes = [(cause, node_wait(run, cause)) for cause in run.causes]
    restarting = [replace(cause, restart=wait + cause.restart) for cause, wait in causes]
    by_save = [cause for cause in restarting if not cause.by_step]
    by_step = [replace(cause, lag=0.0) for cause in restarting if cause.by_step]
    goodput = goodput_of_causes(run.interval, run.block, by_save, run.more)
    if by_step:
        goodput *= goodput_of_causes(run.step, 0.0, by_step)
    stop = run.stop
    paused = 0.0 if stop is None else stop.length + run.block + run.lag
    goodput *= 1.0 if stop is None else stop.every / (stop.every + paused)
    if not goodput:
        return ExpectedRun(0.0, 0.0, 0.0, {})
    elapsed, mean = run.work / goodput + run.start, mean_time_between(run.causes)
    stops = 0.0 if stop is None else elapsed / (stop.every + paused)
    waiting = _before_next(((c.rate, 0.0, wait) for c, wait in causes), mean)
    restarts = _before_next(((c.rate, wait, wait + c.restart) for c, wait in causes), mean)
    accounts = {
        "useful": run.work,
        "saving": run.work / run.interval * run.block + stops * (run.block + run.lag),
        "restarting": elapsed * restarts,
        "waiting": elapsed * waiting,
        "planned": run.start + run.work * run.more + stops * (0.0 if stop is None else stop.length),
    }
    lost = max(0.0, elapsed - sum(accounts.values()))
    return ExpectedRun(goodput, elapsed / mean, stops, {**accounts, "lost": lost})


def node_wait(run: LongRun, cause: FailureCause) -> float:
    """Return the time for which a failure of some cause waits for a node [s].

    With k spares, of which one is repaired after r, and with 1 / f between two failures that take
    one, the k-th failure before this one was k / f ago: its node is ready r - k / f later.
    """
    policy = run.replacement
    taken = sum(other.rate for other in run.causes if other.replaces)
    if not cause.replaces:
        return 0.0
    ready = max(0.0, policy.repair - policy.spares / taken)
    return min(ready, policy.provision) * policy.idle


def _before_next(spans: Iterable[tuple[float, float, float]], mean: float) -> float:
    """Return the time between two instants after failures that comes before the next failure.

    Parameters
    ----------
    spans : rate of each cause [1/s], and the instants after it [s]
    mean : time between failures [s]

    Returns
    -------
    The share of the elapsed time [unitless].
    """
    return sum(
        rate * mean * (exp(-first / mean) - exp(-last / mean)) for rate, first, last in spans
    )
