"""The public function `clustersim.validate`: measured cases, claims, curves, targets, intervals."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path

from clustersim.catalog.finding import shipped
from clustersim.runs.executors import cores, workers
from clustersim.validation.answer import Validation, validation_of
from clustersim.validation.case_runs import run_cases, select_groups
from clustersim.validation.cases.rows import read_cases
from clustersim.validation.claims import judge_claims
from clustersim.validation.curves import grade_curves, read_curves
from clustersim.validation.intervals import (
    read_interval_data,
    updated_runs,
    write_interval_data,
)
from clustersim.validation.missed_targets import explained_misses, read_targets


def validate(
    cases: str | PathLike[str] | None = None,
    groups: Sequence[str] = (),
    *,
    claims: bool = False,
    intervals: str | PathLike[str] | None = None,
    jobs: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Validation:
    """Predict measured training runs and report the errors.

    Without `cases` and `groups`, the answer has the shipped cases, measured curves of collectives,
    claims of papers and missed accuracy targets.

    Parameters
    ----------
    cases : YAML list of measured cases; the shipped ones if None
    groups : names of groups or patterns over them (``vtrain-*``); all if empty
    claims : whether to predict the claims of papers with other cases as well, which takes a minute
    intervals : file of prediction-interval data to update with these runs
    jobs : number of processes; one per core if None
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
    ['mfu_pct', 'mfu_pct']
    >>> answer.all.mean_abs_error < 0.2
    True
    """
    entries = read_cases(Path(cases) if cases else shipped("validation") / "cases.yaml")
    entries = select_groups(entries, groups)
    everything = cases is None and not groups
    file = None if intervals is None else Path(intervals)
    earlier = [] if file is None else read_interval_data(file)  # before cases run for minutes
    with workers(min(jobs or cores(), max(len(entries), 1))) as executor:
        outcomes = run_cases(entries, executor, on_progress)
        verdicts = judge_claims(executor) if claims or everything else ()
    interval_data = None
    if file is not None:
        write_interval_data(file, updated_runs([] if everything else earlier, outcomes))
        interval_data = read_interval_data(file)
    return validation_of(
        outcomes,
        curves=grade_curves(read_curves()) if everything else (),
        claims=verdicts,
        unreached=explained_misses(read_targets(), outcomes, all_cases=not groups)
        if cases is None
        else (),
        interval_data=interval_data,
    )
