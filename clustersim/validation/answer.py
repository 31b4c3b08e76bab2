"""The typed answer of `clustersim validate`, and the function that returns it.

Its prediction intervals are judged by how many measured runs lie within them:

    outcome --the runs of all other sources--> interval --contains the measured value?--> coverage

An interval is judged without the runs of the case's own source: with them it would prove nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from os import PathLike
from pathlib import Path

from clustersim.answers import Presentable, record
from clustersim.catalog.finding import shipped
from clustersim.evidence import LEVEL, MeasuredRuns, Nodes, Reach, shipped_interval_data
from clustersim.metrics.prediction_interval import reach_of, size_of
from clustersim.runs.executors import workers
from clustersim.runs.progress import usual_progress
from clustersim.validation.case_runs import run_cases, select_groups
from clustersim.validation.cases.reasons import ReasonCount, count_reasons
from clustersim.validation.cases.rows import Entry, read_entries
from clustersim.validation.curves import CurveErrors, grade_curves, read_curves
from clustersim.validation.outcome import CaseAnswer, Outcome
from clustersim.validation.ranking import JobRanking, job_runs
from clustersim.validation.summary import ErrorSummary, MetricErrors, metric_errors, summarise


def ratio_of(outcome: Outcome) -> float | None:
    """Return measured over predicted step time [unitless]; None where no whole step was graded."""
    grade = outcome.grade
    if grade is None or grade.time_error is None or outcome.accelerator is None:
        return None
    return 1 / (1 + grade.time_error)


@record
class GroupCoverage:
    """How many graded steps lie within their intervals.

    Attributes
    ----------
    count : graded steps with an interval, made without the runs of their own source
    inside : those whose measured value lies within it
    share : the second over the first; `null` without any
    without : graded steps without an interval: only their own source measured the accelerator
    """

    count: int
    inside: int
    share: float | None
    without: int


@record
class Coverage:
    """Coverage of the prediction intervals.

    Attributes
    ----------
    level : share of measured runs that intervals are made to contain
    all : of all cases
    groups : of each group with a graded step
    accelerators : of each accelerator with a graded step
    """

    level: float
    all: GroupCoverage
    groups: Mapping[str, GroupCoverage]
    accelerators: Mapping[str, GroupCoverage]


def coverage_of(outcomes: Sequence[Outcome], runs: Iterable[MeasuredRuns]) -> Coverage:
    """Return the coverage of all outcomes together, of each group and of each accelerator."""
    judged = list(_judged(outcomes, tuple(runs)))
    groups: defaultdict[str, list[bool | None]] = defaultdict(list)
    accelerators: defaultdict[str, list[bool | None]] = defaultdict(list)
    for outcome, inside in judged:
        groups[outcome.group].append(inside)
        accelerators[outcome.accelerator or ""].append(inside)
    return Coverage(
        level=LEVEL,
        all=_counted([inside for _, inside in judged]),
        groups={name: _counted(inside) for name, inside in sorted(groups.items())},
        accelerators={name: _counted(inside) for name, inside in sorted(accelerators.items())},
    )


def _counted(verdicts: Sequence[bool | None]) -> GroupCoverage:
    without, inside = verdicts.count(None), verdicts.count(True)
    count = len(verdicts) - without
    return GroupCoverage(count, inside, inside / count if count else None, without)


def _judged(
    outcomes: Sequence[Outcome], runs: tuple[MeasuredRuns, ...]
) -> Iterator[tuple[Outcome, bool | None]]:
    """Yield graded steps, and whether each lies within its interval; None without an interval."""

    @cache
    def reach(source: str, accelerator: str, nodes: Nodes) -> Reach:
        return reach_of((run for run in runs if run.source != source), accelerator, nodes)

    for outcome in outcomes:
        ratio = ratio_of(outcome)
        if ratio is None or outcome.accelerator is None or outcome.nodes is None:
            continue
        reached = reach(outcome.group, outcome.accelerator, size_of(outcome.nodes))
        if reached.below is None or reached.above is None:
            yield outcome, None
        else:
            yield outcome, 1 / reached.below <= ratio <= reached.above


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
    coverage : how often prediction intervals hold
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

    @property
    def sums(self) -> list[tuple[str, ErrorSummary]]:
        """The errors of each group by name, then those of all cases."""
        return [*self.groups.items(), ("all", self.all)]


def validation_of(
    outcomes: Sequence[Outcome],
    *,
    curves: tuple[CurveErrors, ...] = (),
    interval_data: Sequence[MeasuredRuns] | None = None,
) -> Validation:
    """Return the answer for some outcomes.

    Parameters
    ----------
    interval_data : the runs that prediction intervals are made from; the shipped ones without it
    """
    runs = shipped_interval_data().runs if interval_data is None else interval_data
    steps = [outcome for outcome in outcomes if not outcome.is_inference] or outcomes
    groups = sorted({outcome.group for outcome in outcomes})
    return Validation(
        cases=tuple(outcome.answer for outcome in outcomes),
        groups={name: summarise([o for o in outcomes if o.group == name]) for name in groups},
        all=summarise(steps),
        reasons=count_reasons(o.reasons for o in outcomes if not o.gradable),
        layouts=tuple(job.ranking for job in job_runs(steps)),
        curves=curves,
        coverage=coverage_of(steps, runs),
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
