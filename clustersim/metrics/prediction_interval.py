r"""The interval that a measured number is expected in, from runs that were measured before.

    runs --nearness, other sources alone--> usual error of each run --> errors over it, z
    prediction t of a run with traits x --> usual error u(x), quantile q of |z| --> t exp(+-q u(x))

The nearest runs count most: each trait in which a run differs quarters its weight.  With the errors
:math:`e_i` of the measured runs, their weights :math:`w_i` and the mean error :math:`m`,

.. math:: u(x) = \frac{m + \sum_i w_i |e_i|}{1 + W} \left(1 + \frac{1}{1 + W}\right), \qquad
   W = \sum_i w_i

is the mean of the errors of near runs, wider the fewer of them there are.  The quantile is that of
locally weighted conformal prediction (Lei et al. 2018, section 5.2, arXiv:1604.04173): the error of
each run is divided by the usual one that runs of other sources give, so that what is fitted to a
source is no evidence of how well its runs are predicted.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property, lru_cache
from math import exp, inf, isinf, log, log2
from statistics import NormalDist
from typing import Final

import numpy as np

from clustersim.answers import answer_from, record
from clustersim.arrays import Booleans, Floats
from clustersim.evidence import (
    LEVEL,
    Errors,
    MeasuredRun,
    Metric,
    Reach,
    Traits,
    intraclass_correlation,
    quantile,
    share_below,
    shipped_interval_data,
)
from clustersim.units import counted

DIFFERENCES: Final = {
    "accelerator": "accelerator",
    "generation": "generation of accelerators",
    "machine": "machine",
    "software": "software",
    "shape": "model",
    "experts": "dense or experts",
    "task": "task",
    "bits": "number format",
}
"""Traits in which runs differ or not, in words."""

UNLIKE: Final = 0.25
"""Weight of a run that differs in a trait, over that of one that does not.  With 1/2 and 1/3 as
many measured runs lie within their intervals, with which the wide errors of other software on a
machine count for more."""

NEAREST: Final = 5
"""Measured runs that an answer lists."""

SCALE: Final = 6.0
"""Doublings of devices that count as much as another trait; assumed."""

_Trait = tuple[str, Hashable]
"""The name of a trait, and its value."""


@record
class Interval:
    """The step times between which `level` of the measured runs are expected.

    Attributes
    ----------
    low_s : shortest step time of the interval; null without evidence [s]
    high_s : longest step time of the interval; null without evidence [s]
    level : share of measured runs that are expected in it
    rows : number of measured runs that it is based on
    why : which runs these are, or why there is no interval
    """

    low_s: float | None
    high_s: float | None
    level: float
    rows: int
    why: str

    @property
    def bounds(self) -> "Bounds":
        """The interval as that of any measure."""
        return Bounds(self.low_s, self.high_s, self.level, self.rows, self.why)

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the logarithm of a step time, if errors are normal.

        >>> Interval(8.0, 12.5, 0.9, 12, "12 measured runs").deviation
        0.1356...
        """
        if self.low_s is None or self.high_s is None:
            return None
        return log(self.high_s / self.low_s) / (2 * self.quantile)

    @property
    def quantile(self) -> float:
        """Deviations of a normal variable from its mean to either end of the interval."""
        return NormalDist().inv_cdf((1 + self.level) / 2)


@record
class Bounds:
    """The values between which `level` of the measured services are expected.

    Attributes
    ----------
    low : lower end of the interval, in the unit of the measure; null without evidence
    high : upper end of the interval; null without evidence
    level : share of measured services that are expected in it
    rows : number of measured services that it is based on
    why : which services these are, or why there is no interval
    """

    low: float | None
    high: float | None
    level: float
    rows: int
    why: str


def bounds(predicted: float, reach: Reach, *, is_rate: bool) -> Bounds:
    """Return the interval around a predicted time, or around a rate.

    >>> bounds(10.0, Reach(1.25, 2.0, 12, "12 measured runs"), is_rate=True)
    Bounds(low=5, high=12.5, level=0.9, rows=12, why='12 measured runs')
    """
    if reach.below is None or reach.above is None:
        return Bounds(None, None, LEVEL, reach.rows, reach.why)
    lower, upper = (reach.above, reach.below) if is_rate else (reach.below, reach.above)
    return Bounds(predicted / lower, predicted * upper, LEVEL, reach.rows, reach.why)


def interval(step_time: float, reach: Reach) -> Interval:
    """Return the interval around a predicted step time [s].

    >>> interval(10.0, Reach(1.25, 1.5, 12, "12 measured runs"))
    Interval(low_s=8, high_s=15, level=0.9, rows=12, why='12 measured runs')
    """
    if reach.below is None or reach.above is None:
        return Interval(None, None, LEVEL, reach.rows, reach.why)
    low, high = step_time / reach.below, step_time * reach.above
    return Interval(low, high, LEVEL, reach.rows, reach.why)


@record
class NearRun:
    """A measured run that is like a predicted one.

    Attributes
    ----------
    run : name of the case, as `clustersim validate` lists it
    model : name of its model
    machine : its cluster
    accelerator : its accelerator
    software : its framework or engine
    layout : degrees of its layout
    devices : number of its devices
    errors : predicted over measured number, less one, by metric
    differs : traits in which the two differ
    """

    run: str
    model: str
    machine: str
    accelerator: str
    software: str
    layout: str
    devices: int
    errors: Mapping[str, float]
    differs: tuple[str, ...]


def near_run(runs: Sequence[MeasuredRun], traits: Traits | None = None) -> NearRun:
    """Return the metrics of one measured run, and what distinguishes it from some traits."""
    first = runs[0]
    return answer_from(
        NearRun,
        first,
        errors={run.metric: run.error for run in runs},
        differs=() if traits is None else differences(first, traits),
    )


# --- nearness -------------------------------------------------------------------------------------


class TraitTable:
    """The traits of runs as numbers, with which those of another run are compared."""

    def __init__(self, runs: Sequence[Traits]) -> None:
        self._numbers: dict[_Trait, int] = {}
        rows = [
            [self._numbers.setdefault(trait, len(self._numbers)) for trait in _traits(run)]
            for run in runs
        ]
        self._table = np.array(rows, dtype=int).reshape(len(rows), len(DIFFERENCES) + 1)
        self._doublings = np.log2([run.devices for run in runs])

    def unlikeness(self, others: Sequence[Traits]) -> Floats:
        """Return in how many traits each of the runs differs from each of others, a row for each.

        Whether a job has several nodes is a trait, and the number of devices counts up to one.
        """
        table = np.array([self._row(traits) for traits in others])
        doublings = np.array([log2(traits.devices) for traits in others])
        unlike: Floats = np.minimum(1.0, np.abs(self._doublings - doublings[:, None]) / SCALE)
        columns = zip(self._table.T, table.T, strict=True)
        unlike += sum((own != other[:, None]).view(np.int8) for own, other in columns)
        return unlike

    def have(self, name: str, traits: Traits) -> Booleans:
        """Return which of the runs have one of these traits."""
        column = list(DIFFERENCES).index(name)
        equal: Booleans = self._table[:, column] == self._row(traits)[column]
        return equal

    def _row(self, traits: Traits) -> list[int]:
        return [self._numbers.get(trait, -1) for trait in _traits(traits)]


def _traits(run: Traits) -> list[_Trait]:
    several = ("several nodes", run.nodes > 1)
    return [*((name, getattr(run, name)) for name in DIFFERENCES), several]


def differences(run: Traits, other: Traits) -> tuple[str, ...]:
    """Return the traits in which two runs differ, in words."""
    return tuple(
        text for name, text in DIFFERENCES.items() if getattr(run, name) != getattr(other, name)
    )


# --- the error of predictions ---------------------------------------------------------------------


class ErrorsByNearness:
    """The errors of measured runs, the nearest of which count most.

    Parameters
    ----------
    runs : of training alone, or of services alone
    """

    def __init__(self, runs: Sequence[MeasuredRun]) -> None:
        self.runs = tuple(runs)
        self._table = TraitTable(self.runs)

    def without(self, source: str) -> "ErrorsByNearness":
        """Return the errors of all other sources."""
        return ErrorsByNearness([run for run in self.runs if run.source != source])

    def reach(self, traits: Traits, metric: Metric = "step_time") -> Reach:
        """Return the error of the prediction of a metric of a run."""
        known = self._of(metric)
        own = int((known & self._table.have("accelerator", traits)).sum())
        if not (known & self._table.have("generation", traits)).any():
            text = f"no evidence: no measured runs on {traits.accelerator}, or like it"
            return Reach(None, None, 0, text)
        rows = int(known.sum())
        text = f"{counted(rows, 'measured run')} by nearness, {own} on {traits.accelerator}"
        if isinf(self._quantile):
            return Reach(None, None, rows, f"{text}, which are too few")
        factor = exp(self._quantile * self._usual_error(traits, metric))
        return Reach(factor, factor, rows, text)

    def share_faster(self, traits: Traits, ratio: float) -> float | None:
        """Return the share of runs whose ratio to their prediction is at most one, as errors go.

        None where there is no interval.
        """
        if self.reach(traits).above is None:
            return None
        score = log(ratio) / self._usual_error(traits, "step_time")
        return share_below(self._scores, self._correlation, score, ahead=0.0)

    def nearest(self, traits: Traits, count: int = NEAREST) -> tuple["NearRun", ...]:
        """Return the runs that are most like one with some traits, the nearest first."""
        order = np.argsort(self._table.unlikeness([traits])[0], kind="stable")
        found: dict[str, list[MeasuredRun]] = {}
        for run in (self.runs[i] for i in order):
            if run.run in found or len(found) < count:
                found.setdefault(run.run, []).append(run)
        return tuple(near_run(runs, traits) for runs in found.values())

    @cached_property
    def _errors(self) -> Floats:
        """log(measured / predicted) of the times."""
        return np.log([run.ratio for run in self.runs])

    @cached_property
    def _weights(self) -> Floats:
        """The weight of each run among those of its source: n of them count less than n."""
        rho = intraclass_correlation(self._by_source(self._errors))
        sizes = Counter(run.source for run in self.runs)
        return np.array([1 / (1 + (sizes[run.source] - 1) * rho) for run in self.runs])

    def _usual_error(self, traits: Traits, metric: Metric) -> float:
        same = self._of(metric)
        near = UNLIKE ** self._table.unlikeness([traits])[0] * same
        return float(self._usual(near, self._mean(same)))

    def _usual(self, near: Floats, mean: float | Floats) -> Floats:
        """Return the mean error of near runs, wider the fewer they are."""
        weights = near * self._weights
        whole = 1 + weights.sum(axis=-1)
        usual: Floats = (mean + weights @ np.abs(self._errors)) / whole * (1 + 1 / whole)
        return usual

    def _mean(self, chosen: Booleans) -> float:
        return float(np.average(np.abs(self._errors[chosen]), weights=self._weights[chosen]))

    def _of(self, metric: str) -> Booleans:
        return np.array([run.metric == metric for run in self.runs], dtype=bool)

    @cached_property
    def _scores(self) -> Errors:
        """Each error over the usual one by runs of other sources, by source."""
        if not self.runs:
            return {}
        sources = np.unique([run.source for run in self.runs], return_inverse=True)[1]
        near = UNLIKE ** self._table.unlikeness(self.runs) * (sources[:, None] != sources)
        usual = np.zeros(len(self.runs))
        for metric in sorted({run.metric for run in self.runs}):
            same = self._of(metric)
            usual[same] = self._usual(near[same] * same, self._mean(same))
        return self._by_source(self._errors / np.maximum(usual, 1e-12))

    @cached_property
    def _correlation(self) -> float:
        return intraclass_correlation(self._scores)

    @cached_property
    def _quantile(self) -> float:
        sizes = {name: [abs(score) for score in of] for name, of in self._scores.items()}
        return quantile(sizes, self._correlation, LEVEL) if sizes else inf

    def _by_source(self, numbers: Floats) -> Errors:
        found: defaultdict[str, list[float]] = defaultdict(list)
        for run, number in zip(self.runs, numbers, strict=True):
            found[run.source].append(float(number))
        return found


def of_training(runs: Sequence[MeasuredRun]) -> ErrorsByNearness:
    """Return the errors of step times."""
    return ErrorsByNearness([run for run in runs if run.metric == "step_time"])


def of_services(runs: Sequence[MeasuredRun]) -> ErrorsByNearness:
    """Return the errors of times and rates of services."""
    return ErrorsByNearness([run for run in runs if run.metric != "step_time"])


@lru_cache
def shipped_errors(*, services: bool = False) -> ErrorsByNearness:
    """Return the errors of the measured runs of the shipped file."""
    runs = shipped_interval_data().runs
    return of_services(runs) if services else of_training(runs)


@lru_cache
def shipped_reach(traits: Traits, metric: Metric = "step_time") -> Reach:
    """Return the error of the prediction of a metric, by the shipped file."""
    return shipped_errors(services=metric != "step_time").reach(traits, metric)


@lru_cache
def shipped_nearest(traits: Traits, *, services: bool = False) -> tuple[NearRun, ...]:
    """Return the measured runs of the shipped file that are most like one with some traits."""
    return shipped_errors(services=services).nearest(traits)
