"""The typed answer of `clustersim validate`, and the function that returns it."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from clustersim.catalog.finding import shipped
from clustersim.errors import ScenarioError
from clustersim.metrics.prediction_interval import MeasuredRuns, shipped_interval_data
from clustersim.runs.executors import workers
from clustersim.units import counted
from clustersim.validation.case_runs import run_cases, select_groups, select_runs
from clustersim.validation.cases.machines import matches
from clustersim.validation.cases.reasons import ReasonCount, count_reasons
from clustersim.validation.cases.rows import Entry, read_entries
from clustersim.validation.claims import ClaimVerdict, judge_claims
from clustersim.validation.curves import CurveErrors, grade_curves, read_curves
from clustersim.validation.explanation.answer import Explanation, check_number, explain
from clustersim.validation.inference_cases import FAMILY as INFERENCE
from clustersim.validation.intervals import (
    Coverage,
    coverage_of,
    read_interval_data,
    updated_runs,
    write_interval_data,
)
from clustersim.validation.layout_ranking import JobRanking, job_runs
from clustersim.validation.metric_errors import MetricErrors, metric_errors
from clustersim.validation.missed_targets import ExplainedMiss, explained_misses, read_targets
from clustersim.validation.outcome import CaseAnswer, Outcome
from clustersim.validation.summary import ErrorSummary, summarise


@dataclass(frozen=True)
class Validation:
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
    claims : claims of papers; with all shipped cases, or on request
    unreached : missed accuracy targets; with shipped cases, and no explanation
    coverage : how often prediction intervals hold
    metrics : errors of measured inference, by metric
    explanations : what the missing time of the requested runs follows
    """

    cases: tuple[CaseAnswer, ...]
    groups: Mapping[str, ErrorSummary]
    all: ErrorSummary
    reasons: tuple[ReasonCount, ...]
    layouts: tuple[JobRanking, ...]
    curves: tuple[CurveErrors, ...]
    claims: tuple[ClaimVerdict, ...]
    unreached: tuple[ExplainedMiss, ...]
    coverage: Coverage
    explanations: tuple[Explanation, ...] = ()
    metrics: tuple[MetricErrors, ...] = ()

    @property
    def sums(self) -> list[tuple[str, ErrorSummary]]:
        """The errors of each group by name, then those of all cases."""
        return [*self.groups.items(), ("all", self.all)]


def validation_of(
    outcomes: Sequence[Outcome],
    *,
    curves: tuple[CurveErrors, ...] = (),
    claims: tuple[ClaimVerdict, ...] = (),
    unreached: tuple[ExplainedMiss, ...] = (),
    interval_data: Sequence[MeasuredRuns] | None = None,
    explanations: tuple[Explanation, ...] = (),
) -> Validation:
    """Return the answer for some outcomes.

    Parameters
    ----------
    interval_data : the runs that prediction intervals are made from; the shipped ones without it
    """
    runs = shipped_interval_data() if interval_data is None else interval_data
    steps = [outcome for outcome in outcomes if not outcome.is_inference] or outcomes
    groups = sorted({outcome.group for outcome in outcomes})
    return Validation(
        cases=tuple(outcome.answer for outcome in outcomes),
        groups={name: summarise([o for o in outcomes if o.group == name]) for name in groups},
        all=summarise(steps),
        reasons=count_reasons(o.reasons for o in outcomes if not o.gradable),
        layouts=tuple(job.answer for job in job_runs(steps)),
        curves=curves,
        claims=claims,
        unreached=unreached,
        coverage=coverage_of(steps, runs),
        explanations=explanations,
        metrics=metric_errors(outcomes),
    )


def validate(
    cases: str | PathLike[str] | None = None,
    groups: Sequence[str] = (),
    *,
    explained: Sequence[str] = (),
    claims: bool = False,
    intervals: str | PathLike[str] | None = None,
    jobs: int | None = None,
    executor: str | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Validation:
    """Predict measured training runs and report the errors.

    Without `cases` and `groups`, the answer has the shipped cases, measured curves of collectives,
    claims of papers and missed accuracy targets.

    Parameters
    ----------
    cases : YAML list of measured cases; the shipped ones if None
    groups : names of groups or patterns over them (``vtrain-*``); all if empty
    explained : names of groups or cases, or patterns over them, to explain the missing time of the
        runs of each by the quantities that it follows
    claims : whether to predict the claims of papers with other cases as well, which takes a minute
    intervals : file of prediction-interval data to update with these runs
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
        when a file cannot be used, no case is of a requested group, or a group to be explained has
        fewer than five runs.

    Examples
    --------
    >>> import clustersim
    >>> answer = clustersim.validate(groups=["megatron-h100-weak"], jobs=1)
    >>> [case.metric for case in answer.cases]
    ['tflops_per_gpu', 'tflops_per_gpu']
    >>> answer.all.mean_abs_error < 0.2
    True
    """
    entries = read_entries(Path(cases) if cases else shipped("validation") / "cases.yaml")
    inference = _inference_entries() if cases is None else []
    selected = {pattern: _explained_runs([*entries, *inference], pattern) for pattern in explained}
    named = [*groups] if cases is not None else _of(groups, entries)
    entries = _entries(entries, named, selected) if named or selected or not groups else []
    everything = cases is None and not groups and not explained
    inference = _served(inference, groups, selected)
    file = None if intervals is None else Path(intervals)
    earlier = [] if file is None else read_interval_data(file)  # before cases run for minutes
    with workers(jobs, tasks=len(entries) + len(inference), executor=executor) as computing:
        outcomes = run_cases([*entries, *inference], computing, on_progress, count=bool(explained))
        steps = outcomes[: len(entries)]
        known = steps if cases is None else ()
        verdicts = judge_claims(computing, known) if claims or everything else ()
    interval_data = None
    if file is not None:
        write_interval_data(file, updated_runs([] if everything else earlier, steps))
        interval_data = read_interval_data(file)
    return validation_of(
        outcomes,
        curves=grade_curves(read_curves()) if everything else (),
        claims=verdicts,
        unreached=explained_misses(read_targets(), steps, all_cases=everything)
        if cases is None and not explained
        else (),
        interval_data=interval_data,
        explanations=tuple(
            explain(pattern, [each for each in outcomes if each.id in names])
            for pattern, names in selected.items()
        ),
    )


def _explained_runs(entries: Sequence[Entry], pattern: str) -> set[str]:
    """Return the names of the cases of a pattern, whose missing time is to be explained.

    Raises
    ------
    ScenarioError
        when there are too few, or some are steps of training and others inference, whose times do
        not follow the same quantities.
    """
    chosen = select_runs(entries, pattern)
    check_number(pattern, len(chosen))
    served = sum(e.row is not None and e.row.family == INFERENCE for e in chosen)
    if 0 < served < len(chosen):
        raise ScenarioError(
            f"--explain: '{pattern}' has {counted(len(chosen) - served, 'step')} of training and"
            f" {counted(served, 'case')} of inference, whose times follow different quantities"
            " (explain them apart)"
        )
    return {entry.id for entry in chosen}


def _served(
    inference: Sequence[Entry], groups: Sequence[str], selected: Mapping[str, Set[str]]
) -> list[Entry]:
    """Return the shipped cases of inference of some groups and selections; all without any."""
    names = set().union(*selected.values())
    return [
        entry
        for entry in inference
        if entry.id in names
        or any(matches(pattern, entry.group) for pattern in groups)
        or not (selected or groups)
    ]


def _of(groups: Sequence[str], entries: Sequence[Entry]) -> list[str]:
    """Return the patterns that are for these cases, or for none: not those for inference alone."""
    own = {entry.group for entry in entries}
    inference = {entry.group for entry in _inference_entries()}
    return [
        pattern
        for pattern in groups
        if any(matches(pattern, name) for name in own)
        or not any(matches(pattern, name) for name in inference)
    ]


def _inference_entries() -> list[Entry]:
    """Return the shipped cases of inference."""
    return read_entries(shipped("validation") / "inference_cases.yaml")


def _entries(
    entries: Sequence[Entry], groups: Sequence[str], selected: Mapping[str, Set[str]]
) -> list[Entry]:
    """Return the cases of some groups and selections, in their order; all without any."""
    if selected and not groups:
        names = set().union(*selected.values())
    else:
        names = {e.id for e in select_groups(entries, groups)}.union(*selected.values())
    return [entry for entry in entries if entry.id in names]
