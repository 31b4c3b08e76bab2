"""Whether the best layout would have been chosen: runs of one job in several layouts, ranked.

    outcomes --job_runs--> JobRuns --tau----> rank correlation of measured and predicted throughput
                                   --regret-> throughput lost by the layout predicted fastest

Machine, devices, model, batch and software of a job are the same; its runs may differ in degrees,
schedule, sharding, microbatch, recomputation and offload.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from math import isnan, sqrt
from statistics import fmean
from typing import NamedTuple

import numpy as np

from clustersim.answers import record
from clustersim.metrics.prediction_interval import shipped_reach
from clustersim.validation.outcome import Outcome


class LayoutRun(NamedTuple):
    """A run with its layout and the measured and predicted rate of a device [FLOP/s]."""

    id: str
    layout: str
    measured: float
    predicted: float


@record
class JobRanking:
    """How well the layouts of one job are ranked.

    Attributes
    ----------
    group : of the job
    cases : its runs
    kendall_tau : rank correlation over its pairs of layouts, from -1 to 1
    fastest : the layout that was measured fastest
    chosen : the layout that is predicted fastest
    regret : share of the measured throughput that the chosen layout loses
    blind_regret : the mean loss over all layouts
    tie : whether the fastest layout is predicted within the prediction interval of the chosen one,
        so that predictions do not separate them; null where there is no interval
    """

    group: str
    cases: tuple[str, ...]
    kendall_tau: float | None
    fastest: str
    chosen: str
    regret: float
    blind_regret: float
    tie: bool | None = None


class JobRuns(NamedTuple):
    """Runs of one job in at least two layouts.

    Attributes
    ----------
    rates : measured and predicted rate of each layout [FLOP/s]
    ranking : how well they are ranked
    """

    rates: list[tuple[float, float]]
    ranking: JobRanking


def _ranked(group: str, runs: Sequence[LayoutRun], reach: float | None) -> JobRuns:
    """Return the ranking of the runs of a job, in which each layout counts once, by its means.

    Parameters
    ----------
    reach : measured over predicted step time at most, as in prediction intervals; None without one
    """
    runs_of: defaultdict[str, list[LayoutRun]] = defaultdict(list)
    for run in runs:
        runs_of[run.layout].append(run)
    layouts = [
        same[0]._replace(
            measured=fmean(run.measured for run in same),
            predicted=fmean(run.predicted for run in same),
        )
        for same in runs_of.values()
    ]
    rates = [(run.measured, run.predicted) for run in layouts]
    fastest = max(layouts, key=lambda run: run.measured)
    chosen = max(layouts, key=lambda run: (run.predicted, -run.measured))  # the slowest of several
    ranking = JobRanking(
        group=group,
        cases=tuple(run.id for run in runs),
        kendall_tau=tau_of(rates),
        fastest=fastest.id,
        chosen=chosen.id,
        regret=1 - chosen.measured / fastest.measured,
        blind_regret=1 - fmean(run.measured for run in layouts) / fastest.measured,
        tie=None if reach is None else chosen.predicted <= reach * fastest.predicted,
    )
    return JobRuns(rates, ranking)


def job_runs(outcomes: Sequence[Outcome]) -> list[JobRuns]:
    """Return the jobs that were measured in at least two layouts, in the order of their file."""
    jobs: defaultdict[tuple[str, str], list[LayoutRun]] = defaultdict(list)
    reaches: dict[tuple[str, str], float | None] = {}
    for outcome in outcomes:
        measured = outcome.measured_rate("model")
        if measured is None or outcome.rates is None or outcome.job is None:
            continue
        layout = json.dumps(dict(outcome.layout), sort_keys=True, default=str)
        run = LayoutRun(outcome.id, layout, measured, outcome.rates["model"])
        jobs[outcome.group, outcome.job].append(run)
        if outcome.traits is not None:
            reaches[outcome.group, outcome.job] = shipped_reach(outcome.traits).above
    return [
        _ranked(job[0], runs, reaches.get(job))
        for job, runs in jobs.items()
        if len({run.layout for run in runs}) > 1
    ]


def tau_of(points: Sequence[tuple[float, float]]) -> float | None:
    """Return Kendall's tau-b of measured and predicted numbers; None where it is undefined.

    >>> round(tau_of([(1.0, 10.0), (2.0, 20.0), (3.0, 15.0)]), 6)
    0.333333
    """
    from scipy.stats import kendalltau

    tau = float(kendalltau(*zip(*points, strict=True)).statistic) if len(points) > 1 else np.nan
    return None if isnan(tau) else tau


def pooled_tau(sets: Iterable[Sequence[tuple[float, float]]]) -> float | None:
    r"""Return Kendall's tau-b over the pairs within each set, pooled; None where it is undefined.

    .. math:: \tau_b = \frac{C - D}{\sqrt{(n - t_m) (n - t_p)}}

    with C concordant and D discordant pairs of n; t are ties of the measured or of the predicted
    numbers (Kendall 1945).  Over one set it is `tau_of`.
    """
    pairs = [(a, b) for points in sets for a, b in combinations(points, 2)]
    if not pairs:
        return None
    signs = np.sign([(a[0] - b[0], a[1] - b[1]) for a, b in pairs])
    ranked = np.count_nonzero(signs, axis=0).prod()
    return float(signs.prod(axis=1).sum() / sqrt(ranked)) if ranked else None
