"""The data of prediction intervals, from graded cases of high confidence.

outcomes --graded steps, measured peaks--> MeasuredRuns, MeasuredPeaks --> prediction_intervals.yaml
"""

import json
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from clustersim import __version__
from clustersim.catalog.reading import read_yaml
from clustersim.catalog.writing import write_new
from clustersim.errors import CatalogError
from clustersim.evidence import (
    IntervalFile,
    Measured,
    MeasuredPeaks,
    MeasuredRuns,
    Nodes,
    parse_interval_data,
)
from clustersim.metrics.prediction_interval import size_of
from clustersim.validation.answer import ratio_of
from clustersim.validation.outcome import Outcome

REMARK: Final = """\
# Measured over predicted step times and peaks of memory: the data of prediction intervals.
# Written by `make validation`; do not edit by hand.
"""


def measured_runs(outcomes: Iterable[Outcome]) -> list[MeasuredRuns]:
    """Return the step times of graded cases of high confidence, in order of their names.

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


def measured_peaks(outcomes: Iterable[Outcome]) -> list[MeasuredPeaks]:
    """Return the peaks of memory of cases of high confidence, in order of their names."""
    ratios: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    for outcome in outcomes:
        error, accelerator = outcome.memory_error, outcome.accelerator
        if error is not None and accelerator is not None and outcome.confidence == "high":
            ratios[outcome.group, accelerator, outcome.framework or ""].append(1 / (1 + error))
    return [
        MeasuredPeaks(
            source=source, accelerator=accelerator, framework=software, ratios=tuple(values)
        )
        for (source, accelerator, software), values in sorted(ratios.items())
    ]


def read_interval_data(file: Path) -> IntervalFile:
    """Return the contents of a file of interval data; none where it does not exist.

    Raises
    ------
    CatalogError
        when the file has other contents.
    """
    if file.exists():
        return parse_interval_data(read_yaml(file, CatalogError))
    return interval_data([])


def interval_data(outcomes: Sequence[Outcome], earlier: IntervalFile | None = None) -> IntervalFile:
    """Return the data of outcomes, and earlier data of other groups."""
    groups = {outcome.group for outcome in outcomes}
    runs, peaks = measured_runs(outcomes), measured_peaks(outcomes)
    if earlier is not None:
        runs += [run for run in earlier.runs if run.source not in groups]
        peaks += [peak for peak in earlier.peaks if peak.source not in groups]
    return IntervalFile(
        kind="prediction_intervals",
        version=__version__,
        runs=sorted(runs, key=lambda run: (run.source, run.accelerator, run.nodes)),
        peaks=sorted(peaks, key=lambda peak: (peak.source, peak.accelerator, peak.framework)),
    )


def write_interval_data(file: Path, data: IntervalFile) -> None:
    """Write data to a file, replacing its contents.

    Raises
    ------
    CatalogError
        when the file cannot be written.
    """
    write_new(file, interval_file(data), force=True, error=CatalogError)


def interval_file(data: IntervalFile) -> str:
    """Return data as the text of a file."""
    head = [f"{REMARK}kind: prediction_intervals", f"version: {data.version}"]
    return "\n".join([*head, *_lines("runs", data.runs), *_lines("peaks", data.peaks), ""])


def _lines(key: str, runs: Sequence[Measured]) -> Iterator[str]:
    yield f"{key}:" if runs else f"{key}: []"
    for run in runs:
        source = json.dumps(run.source)  # any text, also one that YAML would read as a number
        yield f"  - source: {source}"
        yield f"    accelerator: {run.accelerator}"
        if isinstance(run, MeasuredRuns):
            yield f"    nodes: {run.nodes}"
        else:
            yield f"    framework: {run.framework}"
        ratios = ", ".join(f"{ratio:.4g}" for ratio in run.ratios)
        yield from textwrap.wrap(
            f"ratios: [{ratios}]", 100, initial_indent=" " * 4, subsequent_indent=" " * 6
        )
