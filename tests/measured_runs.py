"""Measured runs for tests: rows, graded outcomes, and ratios of measured to predicted by source."""

from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from clustersim.catalog.finding import shipped
from clustersim.evidence import MeasuredRun, Traits
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


TRAITS = {
    "accelerator": "chip", "generation": "9.0", "machine": "pod", "software": "megatron-core",
    "shape": "32 x 4096", "experts": False, "task": "pretraining", "bits": 16, "nodes": 1,
    "devices": 8,
}  # fmt: skip


def traits(**changed):
    """Return the traits of a run."""
    return Traits(**{**TRAITS, **changed})


def run_of(ratio, source="0", run=None, metric="step_time", **changed):
    """Return a measured run."""
    return MeasuredRun(
        **{**TRAITS, **changed}, run=run or f"{source}-{ratio}", model="m", source=source,
        metric=metric, ratio=ratio, layout="tensor 8",
    )  # fmt: skip


def runs_of(*sources, **changed):
    """Return runs of sources that are named by their place."""
    return [
        run_of(ratio, str(i), f"{i}-{j}", **changed)
        for i, of in enumerate(sources)
        for j, ratio in enumerate(of)
    ]


def outcome(ratio, source="new", accelerator="chip", confidence="high", **changed):
    """Return a graded step that took `ratio` times as long as predicted."""
    error = 1 / ratio - 1
    graded = Grade("step_time_s", None, ratio, 1.0, error, error)
    own = {"accelerator": accelerator, "generation": accelerator, **changed}
    found = traits(**own) if accelerator != "chip" else traits(**changed)
    return Outcome(
        f"{source}-{ratio}",
        source,
        grade=graded,
        accelerator=accelerator,
        nodes=found.nodes,
        confidence=confidence,
        traits=found,
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
