"""How far predictions were off on measured runs, as it is kept: ``validation/spread.yaml``.

    clustersim validate --spread FILE --writes--> runs by source, accelerator and size of the job

The file is made by the validation and never edited; intervals are made from it.
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
"""Sizes of a job that are told apart: what crosses the network adds errors of its own."""

REMARK: Final = """\
# Measured over predicted step times of measured runs, from which intervals are made.
# Written by `clustersim validate --spread FILE`; do not edit by hand.
"""


class MeasuredRuns(Strict):
    """Measured runs of one source on one accelerator, on one node or on several.

    `source` is the group of the cases; `ratios` are measured over predicted step times.
    """

    source: str
    accelerator: str
    nodes: Nodes
    ratios: Annotated[tuple[Positive, ...], Field(min_length=1)]


class SpreadFile(Strict):
    """``validation/spread.yaml``; `version` is that of the clustersim that predicted."""

    kind: Literal["spread"]
    version: str
    runs: list[MeasuredRuns]


def spread_of(document: Document) -> SpreadFile:
    """Return a document as the record that it holds.

    Raises
    ------
    CatalogError
        one line for each problem of the file.
    """
    return checked(SpreadFile, Tree.of(document), CatalogError)


@lru_cache
def read_spread() -> tuple[MeasuredRuns, ...]:
    """Return the runs that are shipped."""
    return tuple(spread_of(find("validation", "spread")).runs)


def size_of(nodes: int) -> Nodes:
    """Return which of the two sizes a job on so many nodes has."""
    return "one" if nodes == 1 else "several"


def to_text(runs: Iterable[MeasuredRuns], version: str) -> str:
    """Return runs as the text of a file."""
    return "\n".join([f"{REMARK}kind: spread", f"version: {version}", "runs:", *_lines(runs), ""])


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
