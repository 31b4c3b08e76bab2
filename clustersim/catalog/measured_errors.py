"""Errors of predicted step times on measured runs: ``validation/prediction_intervals.yaml``.

    clustersim validate --intervals PATH --writes--> runs by source, accelerator and size of the job

The validation writes the file; prediction intervals are computed from it.
"""

import json
import textwrap
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Annotated, Final, Literal

from pydantic import Field

from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Positive, Strict
from clustersim.catalog.finding import find
from clustersim.catalog.reading import Document
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError

Nodes = Literal["one", "several"]
"""Sizes of a job: what crosses the network adds errors of its own."""

REMARK: Final = """\
# Measured over predicted step times of measured runs: the data of prediction intervals.
# Written by `clustersim validate --intervals PATH`; do not edit by hand.
"""


class MeasuredRuns(Strict):
    """Measured runs of one source on one accelerator, on one node or on several.

    `source` is the group of the cases; `ratios` are measured over predicted step times.
    """

    source: str
    accelerator: str
    nodes: Nodes
    ratios: Annotated[tuple[Positive, ...], Field(min_length=1)]


class IntervalFile(Strict):
    """``validation/prediction_intervals.yaml``; `version` is that of the predicting clustersim."""

    kind: Literal["prediction_intervals"]
    version: str
    runs: list[MeasuredRuns]


def parse_interval_data(document: Document) -> IntervalFile:
    """Return a document as the record that it holds.

    Raises
    ------
    CatalogError
        one line for each problem of the file.
    """
    return checked(IntervalFile, Tree.of(document), CatalogError)


@lru_cache
def shipped_interval_data() -> tuple[MeasuredRuns, ...]:
    """Return the runs of the shipped file."""
    return tuple(parse_interval_data(find("validation", "prediction_intervals")).runs)


def size_of(nodes: int) -> Nodes:
    """Return the size class of a job by its number of nodes."""
    return "one" if nodes == 1 else "several"


def to_text(runs: Iterable[MeasuredRuns], version: str) -> str:
    """Return runs as the text of a file."""
    head = [f"{REMARK}kind: prediction_intervals", f"version: {version}", "runs:"]
    return "\n".join([*head, *_lines(runs), ""])


def _lines(runs: Iterable[MeasuredRuns]) -> Iterator[str]:
    for run in runs:
        source = json.dumps(run.source)  # any text, also one that YAML reads as a number
        yield f"  - source: {source}"
        yield f"    accelerator: {run.accelerator}"
        yield f"    nodes: {run.nodes}"
        ratios = ", ".join(f"{ratio:.4g}" for ratio in run.ratios)
        yield from textwrap.wrap(
            f"ratios: [{ratios}]", 100, initial_indent=" " * 4, subsequent_indent=" " * 6
        )
