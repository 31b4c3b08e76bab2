"""The data of prediction intervals, from graded cases.

outcomes --graded times, measured peaks--> MeasuredRun, MeasuredPeaks --> prediction_intervals.yaml
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
    MeasuredPeaks,
    MeasuredRun,
    parse_interval_data,
    runs_text,
)
from clustersim.validation.measured_runs import measured_runs
from clustersim.validation.outcome import Outcome

CONFIDENT: Final = ("high", "medium")
"""Confidence of sources whose times are evidence: all but numbers that were recalled."""

REMARK: Final = """\
# Measured over predicted times and peaks of memory: the data of prediction intervals.
# Written by `make validation`; do not edit by hand.
"""


def evidence_of(outcomes: Iterable[Outcome]) -> list[MeasuredRun]:
    """Return the measured runs of sources that are evidence."""
    known = [outcome for outcome in outcomes if outcome.confidence in CONFIDENT]
    return measured_runs(known)


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
    runs, peaks = evidence_of(outcomes), measured_peaks(outcomes)
    if earlier is not None:
        groups = {outcome.group for outcome in outcomes}
        cases = {outcome.id for outcome in outcomes}
        runs += [run for run in earlier.runs if run.run not in cases]
        peaks += [peak for peak in earlier.peaks if peak.source not in groups]
    return IntervalFile(
        kind="prediction_intervals",
        version=__version__,
        runs=tuple(sorted(runs, key=lambda run: (run.source, run.run, run.metric))),
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
    head = [f"{REMARK}kind: prediction_intervals", f"version: {data.version}", "runs: |"]
    table = textwrap.indent(runs_text(data.runs), "  ").rstrip()
    return "\n".join([*head, table, *_peaks(data.peaks), ""])


def _peaks(peaks: Sequence[MeasuredPeaks]) -> Iterator[str]:
    yield "peaks:" if peaks else "peaks: []"
    for peak in peaks:
        source = json.dumps(peak.source)  # any text, also one that YAML would read as a number
        yield f"  - source: {source}"
        yield f"    accelerator: {peak.accelerator}"
        yield f"    framework: {peak.framework}"
        ratios = ", ".join(f"{ratio:.4g}" for ratio in peak.ratios)
        yield from textwrap.wrap(
            f"ratios: [{ratios}]", 100, initial_indent=" " * 4, subsequent_indent=" " * 6
        )
