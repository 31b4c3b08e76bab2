"""The data of prediction intervals, from graded cases.

outcomes --graded steps, of high confidence--> MeasuredRuns --> prediction_intervals.yaml
"""

import json
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from clustersim import __version__
from clustersim.catalog.reading import read_yaml
from clustersim.catalog.writing import write_new
from clustersim.errors import CatalogError
from clustersim.metrics.prediction_interval import MeasuredRuns, Nodes, parse_interval_data, size_of
from clustersim.validation.answer import ratio_of
from clustersim.validation.outcome import Outcome

REMARK: Final = """\
# Measured over predicted step times of measured runs: the data of prediction intervals.
# Written by `make validation`; do not edit by hand.
"""


def measured_runs(outcomes: Iterable[Outcome]) -> list[MeasuredRuns]:
    """Return the interval data of graded cases of high confidence, in order of their names.

    A case with assumed settings counts: the user of a prediction has to assume settings as well.
    """
    ratios: defaultdict[tuple[str, str, Nodes], list[float]] = defaultdict(list)
    for outcome in outcomes:
        ratio = ratio_of(outcome)
        if ratio is not None and outcome.confidence == "high":
            assert outcome.accelerator is not None, "a ratio is that of a whole step"
            assert outcome.nodes is not None, "a ratio is that of a whole step"
            ratios[outcome.group, outcome.accelerator, size_of(outcome.nodes)].append(ratio)
    return [
        MeasuredRuns(source=source, accelerator=accelerator, nodes=nodes, ratios=tuple(values))
        for (source, accelerator, nodes), values in sorted(ratios.items())
    ]


def read_interval_data(file: Path) -> list[MeasuredRuns]:
    """Return the runs of a file of interval data; none where it does not exist.

    Raises
    ------
    CatalogError
        when the file has other contents.
    """
    return parse_interval_data(read_yaml(file, CatalogError)).runs if file.exists() else []


def updated_runs(
    earlier: Iterable[MeasuredRuns], outcomes: Sequence[Outcome]
) -> list[MeasuredRuns]:
    """Return earlier runs, with those of each group of the outcomes replaced."""
    groups = {outcome.group for outcome in outcomes}
    kept = (run for run in earlier if run.source not in groups)
    runs = chain(kept, measured_runs(outcomes))
    return sorted(runs, key=lambda run: (run.source, run.accelerator, run.nodes))


def write_interval_data(file: Path, runs: Iterable[MeasuredRuns]) -> None:
    """Write runs to a file, replacing its contents.

    Raises
    ------
    CatalogError
        when the file cannot be written.
    """
    write_new(file, interval_file(runs), force=True, error=CatalogError)


def interval_file(runs: Iterable[MeasuredRuns]) -> str:
    """Return runs as the text of a file."""
    head = [f"{REMARK}kind: prediction_intervals", f"version: {__version__}", "runs:"]
    return "\n".join([*head, *_lines(runs), ""])


def _lines(runs: Iterable[MeasuredRuns]) -> Iterator[str]:
    for run in runs:
        source = json.dumps(run.source)  # any text, also one that YAML would read as a number
        yield f"  - source: {source}"
        yield f"    accelerator: {run.accelerator}"
        yield f"    nodes: {run.nodes}"
        ratios = ", ".join(f"{ratio:.4g}" for ratio in run.ratios)
        yield from textwrap.wrap(
            f"ratios: [{ratios}]", 100, initial_indent=" " * 4, subsequent_indent=" " * 6
        )
