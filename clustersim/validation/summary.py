"""The errors of many cases in a few numbers: their size, their bias, and two comparisons.

Next to the errors are those of the best-constant baseline (`baseline`) and how well layouts are
ranked (`ranking`): a mean error alone does not show whether a prediction is useful.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from math import sqrt
from statistics import fmean, median
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustersim.answers import record
from clustersim.validation.grading import MEMORY, Grade
from clustersim.validation.outcome import Outcome
from clustersim.validation.ranking import job_runs, pooled_tau, tau_of
from clustersim.validation.robust import half_sample_mode

LEAST_RUNS: Final = 5
"""Fewest runs of which a mode means something."""


@record
class Baseline:
    """Absolute errors of the best-constant baseline on the same runs [unitless].

    Attributes
    ----------
    tflops : throughput of a device with the least mean error [TFLOP/s]; `null` over several groups,
        which have one each
    convention : the convention of its FLOPs, the one with the smaller errors
    count : runs that it is compared with; a group of one run has no baseline
    mean_abs_error : mean of its absolute errors
    median_abs_error : their median
    p90_abs_error : their 90th percentile
    worst : the largest
    """

    tflops: float | None
    convention: str | None
    count: int
    mean_abs_error: float
    median_abs_error: float
    p90_abs_error: float
    worst: float


@record
class RankingSummary:
    """How well layouts are ranked, over the jobs that were measured in several [unitless].

    Attributes
    ----------
    sets : jobs that were measured in several layouts
    runs : their runs
    kendall_tau : rank correlation over pairs of layouts of one job, from -1 to 1
    kendall_tau_group : the same over all pairs of runs, by throughput of a device; `null` over
        several groups
    regret : share of the measured throughput that the layout predicted fastest loses, mean over
        jobs
    worst_regret : the largest
    worst_id : the layout that loses it
    blind_regret : the mean loss over all layouts, mean over jobs
    """

    sets: int
    runs: int
    kendall_tau: float | None
    kendall_tau_group: float | None
    regret: float
    worst_regret: float
    worst_id: str
    blind_regret: float


@record
class ErrorSummary:
    """The errors of some cases [unitless].

    Attributes
    ----------
    count : cases
    gradable : those that were graded
    gating : those of them that are scored
    mean_abs_error : mean of the absolute errors, without those of memory alone
    median_abs_error : their median
    p90_abs_error : their 90th percentile
    gating_mean_abs_error : the mean over scored cases
    worst : the largest
    worst_id : the case of the largest
    bias : mean of the errors of the time, above 0 where predictions are too slow
    mode : half-sample mode of the same errors, which a few slow runs hardly change; `null` for
        fewer than five runs
    constant : errors of the best-constant baseline; `null` where no two runs of a group have a
        throughput
    layouts : how layouts are ranked; `null` where no job was measured in two of them
    memory_count : cases with a measured and a predicted memory
    memory_mean_abs_error : mean of its absolute errors
    memory_bias : mean of its errors
    memory_worst : the largest absolute one
    memory_worst_id : the case of the largest
    called_out_of_memory : runs that took place and are predicted not to fit
    """

    count: int
    gradable: int
    gating: int
    mean_abs_error: float | None
    median_abs_error: float | None
    p90_abs_error: float | None
    gating_mean_abs_error: float | None
    worst: float | None
    worst_id: str | None
    bias: float | None
    mode: float | None
    constant: Baseline | None
    layouts: RankingSummary | None
    memory_count: int
    memory_mean_abs_error: float | None
    memory_bias: float | None
    memory_worst: float | None
    memory_worst_id: str | None
    called_out_of_memory: int


def summarise(outcomes: Sequence[Outcome]) -> ErrorSummary:
    """Return the errors of some outcomes.

    >>> from clustersim.validation.grading import Grade
    >>> slow = Grade("step_time_s", None, measured=1.0, predicted=1.2, error=0.2, time_error=0.2)
    >>> fast = Grade("mfu_pct", "model", measured=40.0, predicted=50.0, error=0.25, time_error=-0.2)
    >>> errors = summarise([Outcome("a", "x", grade=slow), Outcome("b", "x", grade=fast)])
    >>> errors.mean_abs_error, errors.bias, errors.worst_id
    (0.225, 0.0, 'b')
    """
    graded = [(outcome, outcome.grade) for outcome in outcomes if outcome.grade is not None]
    ran = [(outcome, grade) for outcome, grade in graded if grade.metric != MEMORY]
    errors = [abs(grade.error) for _, grade in ran]
    signed = [grade.time_error for _, grade in ran if grade.time_error is not None]
    scored = [abs(grade.error) for outcome, grade in ran if outcome.scored]
    memory = {o.id: o.memory_error for o in outcomes if o.memory_error is not None}
    heaviest = max(memory, key=lambda name: abs(memory[name]), default=None)
    worst = max(range(len(ran)), key=errors.__getitem__, default=None)
    return ErrorSummary(
        count=len(outcomes),
        gradable=len(graded),
        gating=len(scored),
        **_sizes(errors),
        gating_mean_abs_error=_mean(scored),
        worst=None if worst is None else errors[worst],
        worst_id=None if worst is None else ran[worst][0].id,
        bias=_mean(signed),
        mode=half_sample_mode(signed) if len(signed) >= LEAST_RUNS else None,
        constant=_baseline(outcomes),
        layouts=_rankings(outcomes),
        memory_count=len(memory),
        memory_mean_abs_error=_mean([abs(error) for error in memory.values()]),
        memory_bias=_mean(list(memory.values())),
        memory_worst=None if heaviest is None else abs(memory[heaviest]),
        memory_worst_id=heaviest,
        called_out_of_memory=sum(outcome.fits is False for outcome in outcomes),
    )


def _baseline(outcomes: Sequence[Outcome]) -> Baseline | None:
    """Return the errors of the baseline of each group, over all of them."""
    scores = [score for group in _groups(outcomes) if (score := _score(group)) is not None]
    if not scores:
        return None
    single = len(scores) == 1
    errors = list(chain.from_iterable(errors for _, _, errors in scores))
    return Baseline(
        tflops=scores[0][0] / 1e12 if single else None,
        convention=scores[0][1] if single else None,
        count=len(errors),
        **_sizes(errors),
        worst=max(errors),
    )


def _score(outcomes: Sequence[Outcome]) -> tuple[float, str, list[float]] | None:
    """Return the best constant of one group [FLOP/s], its convention and its errors.

    A single run has none: its own throughput would be right by construction.
    """
    scores = []
    for convention in ("model", "hardware"):
        runs = rated_runs(outcomes, convention)
        if len(runs) < 2:
            return None
        constant = best_constant(runs)
        scores.append((constant, convention, errors_of(constant, runs).tolist()))
    return min(scores, key=lambda score: sum(score[2]))


def _rankings(outcomes: Sequence[Outcome]) -> RankingSummary | None:
    """Return how layouts are ranked, over all jobs of all groups."""
    jobs = job_runs(outcomes)
    if not jobs:
        return None
    rankings = [job.ranking for job in jobs]
    worst = max(rankings, key=lambda ranking: ranking.regret)
    rates = [(o.measured_rate("model"), o.rates["model"]) for o in outcomes if o.rates]
    points = [(measured, predicted) for measured, predicted in rates if measured is not None]
    return RankingSummary(
        sets=len(jobs),
        runs=sum(len(ranking.cases) for ranking in rankings),
        kendall_tau=pooled_tau(job.rates for job in jobs),
        kendall_tau_group=tau_of(points) if len(_groups(outcomes)) == 1 else None,
        regret=fmean(ranking.regret for ranking in rankings),
        worst_regret=worst.regret,
        worst_id=worst.chosen,
        blind_regret=fmean(ranking.blind_regret for ranking in rankings),
    )


def _groups(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.group, []).append(outcome)
    return list(groups.values())


def _sizes(errors: Sequence[float]) -> dict[str, Any]:
    """Return mean, median and 90th percentile, interpolated, of absolute errors; None without any.

    The keys are those of the answers.
    """
    return {
        "mean_abs_error": _mean(errors),
        "median_abs_error": median(errors) if errors else None,
        "p90_abs_error": float(np.percentile(errors, 90)) if errors else None,
    }


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


# --- inference ------------------------------------------------------------------------------------


@record
class MetricErrors:
    """The errors of a metric over scored cases: predicted over measured, less one.

    Attributes
    ----------
    metric : a key of the file of cases
    count : scored cases with a measurement of it
    median_abs_error : median of the absolute errors
    mean_abs_error : their mean
    p90_abs_error : their 90th percentile
    bias : median of the errors
    roofline_count : cases that a one-line roofline with a closed queue predicts as well
    roofline_median_abs_error : median of its absolute errors on these; null without any
    same_median_abs_error : median of the absolute errors of clustersim on these; null without any
    """

    metric: str
    count: int
    median_abs_error: float
    mean_abs_error: float
    p90_abs_error: float
    bias: float
    roofline_count: int
    roofline_median_abs_error: float | None
    same_median_abs_error: float | None


def metric_errors(outcomes: Sequence[Outcome]) -> tuple[MetricErrors, ...]:
    """Return the errors of each metric of scored inference cases, in order of appearance."""
    by_metric: dict[str, list[tuple[Grade, float | None]]] = {}
    for outcome in outcomes:
        for grade in _scored(outcome):
            baseline = outcome.baselines.get(grade.metric)
            by_metric.setdefault(grade.metric, []).append((grade, baseline))
    return tuple(_errors(metric, graded) for metric, graded in by_metric.items())


def _scored(outcome: Outcome) -> Iterator[Grade]:
    if outcome.is_inference and outcome.scored and outcome.grade is not None:
        yield from (outcome.grade, *outcome.others)


def _errors(metric: str, graded: Sequence[tuple[Grade, float | None]]) -> MetricErrors:
    errors = [grade.error for grade, _ in graded]
    absolute = [abs(error) for error in errors]
    same = [(abs(grade.error), abs(other)) for grade, other in graded if other is not None]
    return MetricErrors(
        metric=metric,
        count=len(errors),
        **_sizes(absolute),
        bias=median(errors),
        roofline_count=len(same),
        roofline_median_abs_error=median(other for _, other in same) if same else None,
        same_median_abs_error=median(own for own, _ in same) if same else None,
    )


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
