"""Whether the best layout would have been chosen: runs of one job in several layouts, ranked.

    outcomes --job_runs--> JobRuns --tau----> rank correlation of measured and predicted throughput
                                   --regret-> throughput lost by the layout predicted fastest

Machine, devices, model, batch and software of a job are the same; its runs may differ in degrees,
schedule, sharding, microbatch, recomputation and offload.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import isnan, sqrt
from statistics import fmean
from typing import NamedTuple

import numpy as np

from clustersim.metrics.prediction_interval import reach_of, shipped_interval_data, size_of
from clustersim.validation.outcome import Outcome


class LayoutRun(NamedTuple):
    """A run with its layout and the measured and predicted rate of a device [FLOP/s]."""

    id: str
    layout: str
    measured: float
    predicted: float


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class JobRuns:
    """Runs of one job in at least two layouts.

    Attributes
    ----------
    reach : measured over predicted step time at most, as in prediction intervals; None without one
    """

    group: str
    runs: tuple[LayoutRun, ...]
    reach: float | None = None

    @property
    def layouts(self) -> list[LayoutRun]:
        """Each layout once, with the means of its runs."""
        runs_of: defaultdict[str, list[LayoutRun]] = defaultdict(list)
        for run in self.runs:
            runs_of[run.layout].append(run)
        return [
            runs[0]._replace(
                measured=fmean(run.measured for run in runs),
                predicted=fmean(run.predicted for run in runs),
            )
            for runs in runs_of.values()
        ]

    @property
    def rates(self) -> list[tuple[float, float]]:
        """Measured and predicted rate of each layout [FLOP/s]."""
        return [(run.measured, run.predicted) for run in self.layouts]

    @property
    def fastest(self) -> LayoutRun:
        """The layout that was measured fastest."""
        return max(self.layouts, key=lambda run: run.measured)

    @property
    def chosen(self) -> LayoutRun:
        """The layout that is predicted fastest; of several the one that was measured slowest."""
        return max(self.layouts, key=lambda run: (run.predicted, -run.measured))

    @property
    def regret(self) -> float:
        """Share of the measured throughput that the chosen layout loses [unitless]."""
        return 1 - self.chosen.measured / self.fastest.measured

    @property
    def blind_regret(self) -> float:
        """The mean loss over all layouts [unitless]."""
        return 1 - fmean(run.measured for run in self.layouts) / self.fastest.measured

    @property
    def tie(self) -> bool | None:
        """Whether the fastest layout is predicted within the interval of the chosen one."""
        if self.reach is None:
            return None
        return self.chosen.predicted <= self.reach * self.fastest.predicted

    @property
    def answer(self) -> JobRanking:
        """The ranking as ``validate --json`` prints it."""
        return JobRanking(
            group=self.group,
            cases=tuple(run.id for run in self.runs),
            kendall_tau=tau_of(self.rates),
            fastest=self.fastest.id,
            chosen=self.chosen.id,
            regret=self.regret,
            blind_regret=self.blind_regret,
            tie=self.tie,
        )


def job_runs(outcomes: Sequence[Outcome]) -> list[JobRuns]:
    """Return the jobs that were measured in at least two layouts, in the order of their file."""
    jobs: defaultdict[tuple[str, str], list[LayoutRun]] = defaultdict(list)
    machines: dict[tuple[str, str], tuple[str, int]] = {}
    for outcome in outcomes:
        measured = outcome.measured_rate("model")
        if measured is None or outcome.rates is None or outcome.job is None:
            continue
        layout = json.dumps(dict(outcome.layout), sort_keys=True, default=str)
        run = LayoutRun(outcome.id, layout, measured, outcome.rates["model"])
        jobs[outcome.group, outcome.job].append(run)
        if outcome.accelerator is not None and outcome.nodes is not None:
            machines[outcome.group, outcome.job] = outcome.accelerator, outcome.nodes
    return [
        JobRuns(job[0], tuple(runs), _reach(*machines[job]) if job in machines else None)
        for job, runs in jobs.items()
        if len({run.layout for run in runs}) > 1
    ]


@lru_cache
def _reach(accelerator: str, nodes: int) -> float | None:
    """Return measured over predicted step time at most on an accelerator; None without evidence."""
    return reach_of(shipped_interval_data(), accelerator, size_of(nodes)).above


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
