"""Measured runs for tests: rows, graded outcomes, and ratios of measured to predicted by source."""

from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from clustersim.catalog.finding import shipped
from clustersim.evidence import MeasuredRuns
from clustersim.validation.answer import validation_of
from clustersim.validation.case_runs import run_cases, select_groups
from clustersim.validation.cases.rows import parse_entries, read_entries
from clustersim.validation.grading import Grade
from clustersim.validation.outcome import Outcome

SMALL = Path(__file__).parent / "data" / "cases_small.yaml"


@cache
def shipped_cases():
    """Return the shipped measured steps, which take seconds to read, once for each process."""
    return read_entries(shipped("validation") / "cases.yaml")


def validated(*groups):
    """Return the answer of `clustersim validate` for groups of the shipped measured steps."""
    return validation_of(run_cases(select_groups(shipped_cases(), groups)))


ratios = st.lists(st.floats(0.2, 5.0), min_size=1, max_size=8)
evidence = st.lists(ratios, min_size=1, max_size=20)
"""Measured over predicted, by source."""


def runs_of(*sources, accelerator="chip", nodes="one"):
    """Return runs of sources that are named by their place."""
    return [
        MeasuredRuns(source=str(i), accelerator=accelerator, nodes=nodes, ratios=tuple(of))
        for i, of in enumerate(sources)
    ]


def outcome(ratio, source="new", accelerator="chip", nodes=1, confidence="high"):
    """Return a graded step that took `ratio` times as long as predicted."""
    error = 1 / ratio - 1
    graded = Grade("step_time_s", None, ratio, 1.0, error, error)
    return Outcome(
        f"{source}-{ratio}",
        source,
        grade=graded,
        accelerator=accelerator,
        nodes=nodes,
        confidence=confidence,
    )


def graded_run(name, group, error, confidence="high"):
    """Return a graded run with an error of its step time."""
    grade = Grade("step_time_s", None, 1.0, 1.0 + error, error, time_error=error)
    return Outcome(name, group, grade=grade, confidence=confidence)


def row_of(**fields):
    """Return a readable row with the given fields."""
    (entry,) = parse_entries([{"id": "case", "group": "small", **fields}])
    assert entry.row is not None, entry.problem
    return entry.row
