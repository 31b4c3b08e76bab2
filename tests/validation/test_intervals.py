"""Coverage of prediction intervals: how many measured runs lie within them."""

import pytest
from hypothesis import given, settings

from clustersim.answers import to_json
from clustersim.evidence import MeasuredRuns
from clustersim.validation.answer import coverage_of, validation_of
from clustersim.validation.outcome import Outcome
from clustersim.validation.text import coverage_line
from measured_runs import evidence, outcome, ratios, runs_of
from tools.page import coverage_rows

laws = settings(max_examples=20, deadline=None)


# --- coverage -------------------------------------------------------------------------------------


@given(evidence, ratios)
@laws
def test_a_coverage_never_looks_at_the_runs_of_its_own_source(sources, own):
    """The verdict on a case is independent of the runs of its own source."""
    others = runs_of(*sources)
    own_runs = MeasuredRuns(source="new", accelerator="chip", nodes="one", ratios=tuple(own))
    cases = [outcome(ratio) for ratio in own]

    assert coverage_of(cases, [*others, own_runs]) == coverage_of(cases, others)


def test_a_coverage_counts_who_is_inside_who_is_not_and_who_has_none():
    """Groups add up to all; cases without a graded step count nowhere."""
    seen = runs_of(*[[1.1]] * 20)
    cases = [
        outcome(1.05),
        outcome(1.02),
        outcome(1.3),
        outcome(1.0, source="far", accelerator="unknown"),
        Outcome("rejected", "new"),
    ]
    found = to_json(coverage_of(cases, seen))

    assert found["all"] == {"count": 3, "inside": 2, "share": pytest.approx(2 / 3), "without": 1}
    assert found["groups"]["far"] == {"count": 0, "inside": 0, "share": None, "without": 1}
    assert coverage_line(coverage_of(cases, seen)) == (
        "90 % prediction intervals contain 2 of 3 measured runs (66.7 %); 1 run has no interval."
    )
    answer = validation_of(cases, interval_data=seen)
    assert answer.coverage == coverage_of(cases, seen)
    assert list(coverage_rows(answer)) == [
        ("far", "0", "0", "", "1"),
        ("new", "3", "2", "66.7 %", "0"),
        ("chip", "3", "2", "66.7 %", "0"),
        ("unknown", "0", "0", "", "1"),
        ("all", "3", "2", "66.7 %", "1"),
    ]


def test_nothing_graded_has_no_coverage():
    """Without a case there is a line without a share."""
    line = coverage_line(coverage_of([], []))

    assert line == "No prediction interval for 0 measured runs."
