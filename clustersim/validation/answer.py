"""The typed answer of `clustersim validate`, and the function that returns it.

Its prediction intervals are judged by how many measured runs lie within them:

    outcome --the runs of all other sources--> interval --contains the measured value?--> coverage

An interval is judged without the runs of the case's own source: with them it would prove nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache
from os import PathLike
from pathlib import Path
from statistics import median
from typing import NamedTuple, cast

from clustersim.answers import Presentable, record
from clustersim.catalog.finding import shipped
from clustersim.evidence import LEVEL, MeasuredRun, Metric, shipped_interval_data
from clustersim.metrics.prediction_interval import ErrorsByNearness, of_services, of_training
from clustersim.runs.executors import workers
from clustersim.runs.progress import usual_progress
from clustersim.validation.case_runs import run_cases, select_groups
from clustersim.validation.cases.reasons import ReasonCount, count_reasons
from clustersim.validation.cases.rows import Entry, read_entries
from clustersim.validation.curves import CurveErrors, grade_curves, read_curves
from clustersim.validation.measured_runs import measured_runs
from clustersim.validation.outcome import CaseAnswer, Outcome
from clustersim.validation.ranking import JobRanking, job_runs
from clustersim.validation.summary import ErrorSummary, MetricErrors, metric_errors, summarise


@record
class GroupCoverage:
    """How many measured numbers lie within their intervals.

    Attributes
    ----------
    count : graded numbers with an interval, made without the runs of their own source
    inside : those whose measured value lies within it
    share : the second over the first; `null` without any
    without : graded numbers without an interval: no other source measured an accelerator like it
    width : median of the upper end of an interval over its lower end; `null` without any
    """

    count: int
    inside: int
    share: float | None
    without: int
    width: float | None = None


@record
class Coverage:
    """Coverage of the prediction intervals.

    Attributes
    ----------
    level : share of measured runs that intervals are made to contain
    all : of all cases
    groups : of each group with a graded number
    accelerators : of each accelerator with a graded number
    metrics : of each metric of services; empty for steps of training
    """

    level: float
    all: GroupCoverage
    groups: Mapping[str, GroupCoverage]
    accelerators: Mapping[str, GroupCoverage]
    metrics: Mapping[str, GroupCoverage] = field(default_factory=dict)


class Judged(NamedTuple):
    """A measured number next to the interval that other sources give; None without one.

    Attributes
    ----------
    inside : whether it lies within it
    width : the upper over the lower end
    """

    outcome: Outcome
    run: MeasuredRun
    inside: bool | None
    width: float


def coverage_of(outcomes: Sequence[Outcome], errors: ErrorsByNearness) -> Coverage:
    """Return the coverage of all outcomes together, and by group, accelerator and metric."""
    judged = list(_judged(outcomes, errors))
    metrics = _grouped(judged, lambda each: each.run.metric)
    return Coverage(
        level=LEVEL,
        all=_counted(judged),
        groups=_grouped(judged, lambda each: each.outcome.group),
        accelerators=_grouped(judged, lambda each: each.run.accelerator),
        metrics={} if set(metrics) <= {"step_time"} else metrics,
    )


def _grouped(judged: Iterable[Judged], name: Callable[[Judged], str]) -> dict[str, GroupCoverage]:
    groups: defaultdict[str, list[Judged]] = defaultdict(list)
    for each in judged:
        groups[name(each)].append(each)
    return {name: _counted(of) for name, of in sorted(groups.items())}


def _counted(judged: Sequence[Judged]) -> GroupCoverage:
    known = [each for each in judged if each.inside is not None]
    count, inside = len(known), sum(each.inside is True for each in known)
    share = inside / count if count else None
    width = median(each.width for each in known) if known else None
    return GroupCoverage(count, inside, share, len(judged) - count, width)


def _judged(outcomes: Sequence[Outcome], errors: ErrorsByNearness) -> Iterator[Judged]:
    """Yield graded numbers, each with its interval without the runs of its own source."""
    others = cache(errors.without)
    for outcome in outcomes:
        for run in measured_runs([outcome]):
            found = others(run.source).reach(run, cast(Metric, run.metric))
            if found.below is None or found.above is None:
                yield Judged(outcome, run, None, 0.0)
            else:
                inside = 1 / found.below <= run.ratio <= found.above
                yield Judged(outcome, run, inside, found.below * found.above)


FILES = ("cases.yaml", "inference_cases.yaml")
"""Shipped cases: steps of training and whole runs, then inference."""


@record
class Validation(Presentable):
    """Measured cases with their predictions and errors.

    Errors are predicted over measured, less one; figures without a measurement are `null`.

    Attributes
    ----------
    cases : every case, in the order of its file
    groups : errors of each group, by name
    all : errors of all cases together; of training alone, where there are such
    reasons : why cases are not gradable
    layouts : jobs that were measured in several layouts
    curves : measured curves of collectives; with all shipped cases
    coverage : how often prediction intervals of step times hold
    service_coverage : how often those of services hold; null without measured services
    metrics : errors of measured inference, by metric
    """

    cases: tuple[CaseAnswer, ...]
    groups: Mapping[str, ErrorSummary]
    all: ErrorSummary
    reasons: tuple[ReasonCount, ...]
    layouts: tuple[JobRanking, ...]
    curves: tuple[CurveErrors, ...]
    coverage: Coverage
    metrics: tuple[MetricErrors, ...] = ()
    service_coverage: Coverage | None = None

    @property
    def sums(self) -> list[tuple[str, ErrorSummary]]:
        """The errors of each group by name, then those of all cases."""
        return [*self.groups.items(), ("all", self.all)]


def validation_of(
    outcomes: Sequence[Outcome],
    *,
    curves: tuple[CurveErrors, ...] = (),
    interval_data: Sequence[MeasuredRun] | None = None,
) -> Validation:
    """Return the answer for some outcomes.

    Parameters
    ----------
    interval_data : the runs that prediction intervals are made from; the shipped ones without it
    """
    runs = shipped_interval_data().runs if interval_data is None else interval_data
    services = [outcome for outcome in outcomes if outcome.is_inference]
    training = [outcome for outcome in outcomes if not outcome.is_inference]
    steps = training or outcomes
    groups = sorted({outcome.group for outcome in outcomes})
    return Validation(
        cases=tuple(outcome.answer for outcome in outcomes),
        groups={name: summarise([o for o in outcomes if o.group == name]) for name in groups},
        all=summarise(steps),
        reasons=count_reasons(o.reasons for o in outcomes if not o.gradable),
        layouts=tuple(job.ranking for job in job_runs(steps)),
        curves=curves,
        coverage=coverage_of(training, of_training(runs)),
        service_coverage=coverage_of(services, of_services(runs)) if services else None,
        metrics=metric_errors(outcomes),
    )


def validate(
    cases: str | PathLike[str] | None = None,
    groups: Sequence[str] = (),
    *,
    jobs: int | None = None,
    executor: str | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Validation:
    """Predict measured runs and report the errors.

    Without `cases` and `groups`, the answer has the shipped cases and measured curves of
    collectives.

    Parameters
    ----------
    cases : YAML list of measured cases; the shipped ones if None
    groups : names of groups or patterns over them (``vtrain-*``); all if empty
    jobs : number of processes; one per core if None
    executor : address of a Dask cluster to run on instead: ``dask://HOST:PORT``, ``dask:FILE.yaml``
    on_progress : is called after each case with the number of finished cases, and of all

    Returns
    -------
    Validation
        the keys of ``validate --json``; errors are predicted over measured, less one [unitless]

    Raises
    ------
    ScenarioError, CatalogError
        when a file cannot be used, or no case is of a requested group.

    Examples
    --------
    >>> import clustersim
    >>> answer = clustersim.validate(groups=["megatron-h100-weak"], jobs=1)
    >>> [case.metric for case in answer.cases]
    ['tflops_per_gpu', 'tflops_per_gpu']
    >>> answer.all.mean_abs_error < 0.2
    True
    """
    entries = select_groups(case_entries(cases), groups)
    with workers(jobs, tasks=len(entries), executor=executor) as computing:
        outcomes = run_cases(entries, computing, on_progress or usual_progress("validate"))
    everything = cases is None and not groups
    return validation_of(outcomes, curves=grade_curves(read_curves()) if everything else ())


def case_entries(cases: str | PathLike[str] | None = None) -> list[Entry]:
    """Return the cases of a file, or the shipped ones.

    Raises
    ------
    ScenarioError
        when the file does not exist, is not YAML, or is not a list.
    """
    files = [shipped("validation") / name for name in FILES] if cases is None else [Path(cases)]
    return [entry for file in files for entry in read_entries(file)]
