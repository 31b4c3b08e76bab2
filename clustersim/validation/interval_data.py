"""What a validation tells about the next prediction: how far off those were that were graded.

outcomes --graded steps, of high confidence--> MeasuredRuns --> validation/prediction_intervals.yaml
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from clustersim import __version__
from clustersim.catalog.reading import read_yaml
from clustersim.catalog.writing import write_new
from clustersim.errors import CatalogError
from clustersim.metrics.prediction_interval import (
    MeasuredRuns,
    Nodes,
    parse_interval_data,
    size_of,
    to_text,
)
from clustersim.validation.outcomes import Outcome


def ratio_of(outcome: Outcome) -> float | None:
    """Return measured over predicted step time [unitless]; None where no whole step was graded."""
    grade = outcome.grade
    if grade is None or grade.time_error is None or outcome.accelerator is None:
        return None
    return 1 / (1 + grade.time_error)


def measured_runs(outcomes: Iterable[Outcome]) -> list[MeasuredRuns]:
    """Return what graded cases of high confidence tell about the spread, in order of their names.

    A case that leaves out settings counts: whoever simulates a run has to guess as well.
    """
    found: defaultdict[tuple[str, str, Nodes], list[float]] = defaultdict(list)
    for outcome in outcomes:
        ratio = ratio_of(outcome)
        if ratio is not None and outcome.confidence == "high":
            assert outcome.accelerator is not None, "a ratio is that of a whole step"
            assert outcome.nodes is not None, "a ratio is that of a whole step"
            found[outcome.group, outcome.accelerator, size_of(outcome.nodes)].append(ratio)
    return [
        MeasuredRuns(source=source, accelerator=accelerator, nodes=nodes, ratios=tuple(ratios))
        for (source, accelerator, nodes), ratios in sorted(found.items())
    ]


def earlier_runs(file: Path) -> list[MeasuredRuns]:
    """Return what a file holds already; nothing where there is none.

    Raises
    ------
    CatalogError
        when something else stands there.
    """
    return parse_interval_data(read_yaml(file, CatalogError)).runs if file.exists() else []


def renewed(earlier: Iterable[MeasuredRuns], outcomes: Sequence[Outcome]) -> list[MeasuredRuns]:
    """Return earlier runs with those of each group that ran again in their place."""
    again = {outcome.group for outcome in outcomes}
    kept = (run for run in earlier if run.source not in again)
    runs = chain(kept, measured_runs(outcomes))
    return sorted(runs, key=lambda run: (run.source, run.accelerator, run.nodes))


def write_spread(file: Path, runs: Iterable[MeasuredRuns]) -> None:
    """Write runs to a file, in the place of what it holds.

    Raises
    ------
    CatalogError
        when it cannot be written.
    """
    write_new(file, to_text(runs, __version__), force=True, error=CatalogError)
