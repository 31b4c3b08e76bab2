"""Validate all measured cases, and print them as tables or write the pages of the repository.

    python -m tools.validation --pages docs/validation
    python -m tools.validation --explain 'bloom*'

The tables have the answer of `clustersim validate`, claims of papers, missed accuracy targets, and
the explanation of missing time that is requested.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from clustersim.errors import ClustersimError, ScenarioError
from clustersim.runs.executors import workers
from clustersim.units import counted
from clustersim.validation.answer import case_entries, validation_of
from clustersim.validation.case_runs import run_cases, select_groups
from clustersim.validation.cases.machines import matches
from clustersim.validation.cases.rows import Entry
from clustersim.validation.curves import grade_curves, read_curves
from clustersim.validation.inference.cases import FAMILY as INFERENCE
from tools.claims.claims import judge_claims
from tools.explanation.answer import check_number, explain
from tools.explanation.quantities import count_quantities
from tools.interval_data import interval_data, read_interval_data, write_interval_data
from tools.missed_targets import explained_misses, read_targets
from tools.page import Report, to_markdown
from tools.validation_pages import write_pages


def validate_repository(
    cases: Path | None = None,
    groups: Sequence[str] = (),
    *,
    explained: Sequence[str] = (),
    claims: bool = False,
    intervals: Path | None = None,
    jobs: int | None = None,
) -> Report:
    """Predict measured runs, and judge claims, targets and explanations by them.

    Parameters
    ----------
    cases : YAML list of measured cases; the shipped ones if None
    groups : names of groups or patterns over them; all if empty
    explained : names of groups or cases, or patterns over them, to explain the missing time of
    claims : whether to judge the claims of papers with some groups or other cases as well
    intervals : file of prediction-interval data to update with these runs
    jobs : number of processes; one per core if None

    Raises
    ------
    ScenarioError, CatalogError
        when a file cannot be used, no case is of a requested group, or a group to be explained has
        fewer than five runs.
    """
    everything = cases is None and not groups and not explained
    entries = case_entries(cases)
    selected = {pattern: explained_cases(entries, pattern) for pattern in explained}
    chosen = {entry.id for entry in select_groups(entries, groups)} if groups else set()
    if groups or explained:
        chosen = chosen.union(*selected.values())
        entries = [entry for entry in entries if entry.id in chosen]
    earlier = None if intervals is None else read_interval_data(intervals)  # before cases run
    with workers(jobs, tasks=len(entries)) as computing:
        observe = count_quantities if explained else None
        outcomes = run_cases(entries, computing, observe=observe)
        steps = [outcome for outcome in outcomes if not outcome.is_inference]
        known = steps if cases is None else ()
        verdicts = judge_claims(computing, known) if claims or everything else ()
    runs = None
    if intervals is not None:
        write_interval_data(intervals, interval_data(outcomes, None if everything else earlier))
        runs = read_interval_data(intervals).runs
    misses = explained_misses(read_targets(), steps, all_cases=everything)
    return Report(
        validation_of(
            outcomes,
            curves=grade_curves(read_curves()) if everything else (),
            interval_data=runs,
        ),
        claims=verdicts,
        misses=misses if cases is None and not explained else (),
        explanations=tuple(
            explain(pattern, [outcome for outcome in outcomes if outcome.id in names])
            for pattern, names in selected.items()
        ),
    )


def explained_cases(entries: Sequence[Entry], pattern: str) -> set[str]:
    """Return the names of the cases of a pattern, whose missing time is to be explained.

    Raises
    ------
    ScenarioError
        when there are too few, or some are steps of training and others inference, whose times do
        not follow the same quantities.
    """
    chosen = [entry for entry in entries if matches(pattern, entry.id)]
    if not chosen or any(matches(pattern, entry.group) for entry in entries):
        chosen = select_groups(entries, [pattern], "--explain")
    check_number(pattern, len(chosen))
    served = sum(entry.row is not None and entry.row.family == INFERENCE for entry in chosen)
    if 0 < served < len(chosen):
        raise ScenarioError(
            f"--explain: '{pattern}' has {counted(len(chosen) - served, 'step')} of training and"
            f" {counted(served, 'case')} of inference, whose times follow different quantities"
            " (explain them apart)"
        )
    return {entry.id for entry in chosen}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print or write a validation."""
    parser = argparse.ArgumentParser(prog="python -m tools.validation", description=__doc__)
    add = parser.add_argument
    add("--cases", type=Path, metavar="PATH", help="YAML list of measured cases [the shipped ones]")
    add("--group", action="append", default=[], metavar="PATTERN", help="only cases of this group")
    add("--explain", action="append", default=[], metavar="PATTERN",
        help="explain the missing time of this group, or of these cases")  # fmt: skip
    add("--claims", action="store_true", help="claims of papers as well, for --cases or --group")
    add("--intervals", type=Path, metavar="PATH", help="update prediction-interval data in PATH")
    add("--pages", type=Path, metavar="FOLDER", help="write pages to FOLDER instead of printing")
    add("--jobs", type=int, metavar="N", help="number of processes [one per core]")
    given = parser.parse_args(arguments)
    try:
        report = validate_repository(
            given.cases,
            given.group,
            explained=given.explain,
            claims=given.claims,
            intervals=given.intervals,
            jobs=given.jobs,
        )
    except ClustersimError as error:
        parser.exit(2, f"{error}\n")
    if given.pages is None:
        sys.stdout.write(to_markdown(report))
    else:
        write_pages(report, given.pages)


if __name__ == "__main__":
    main()
