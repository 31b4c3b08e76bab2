"""Coverage of prediction intervals: how many measured runs lie within them."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from clustersim.answers import to_json
from clustersim.metrics.prediction_interval import ErrorsByNearness
from clustersim.validation.answer import coverage_of, validation_of
from clustersim.validation.grading import Grade
from clustersim.validation.outcome import Outcome
from clustersim.validation.text import coverage_line, coverage_lines
from measured_runs import evidence, outcome, ratios, run_of, runs_of
from tools.page import coverage_rows

laws = settings(max_examples=20, deadline=None)


# --- coverage -------------------------------------------------------------------------------------


@given(evidence, ratios)
@laws
def test_a_coverage_never_looks_at_the_runs_of_its_own_source(sources, own):
    """The verdict on a case is independent of the runs of its own source."""
    others = runs_of(*sources)
    own_runs = [run_of(ratio, "new", f"new-{i}") for i, ratio in enumerate(own)]
    cases = [outcome(ratio) for ratio in own]

    assert coverage_of(cases, ErrorsByNearness([*others, *own_runs])) == coverage_of(
        cases, ErrorsByNearness(others)
    )


def test_a_coverage_counts_who_is_inside_who_is_not_and_who_has_none():
    """Groups add up to all; cases without a graded step count nowhere."""
    seen = runs_of(*[[1.1]] * 20)
    cases = [
        outcome(1.05),
        outcome(1.02),
        outcome(1.5),
        outcome(1.0, source="far", accelerator="unknown"),
        Outcome("rejected", "new"),
    ]
    coverage = coverage_of(cases, ErrorsByNearness(seen))
    found = to_json(coverage)
    width = found["all"].pop("width")

    assert width == pytest.approx(1.1**2, rel=1e-2)
    assert found["all"] == {"count": 3, "inside": 2, "share": pytest.approx(2 / 3), "without": 1}
    assert found["groups"]["far"] == {
        "count": 0, "inside": 0, "share": None, "without": 1, "width": None,
    }  # fmt: skip
    assert coverage_line(coverage) == (
        "90 % prediction intervals contain 2 of 3 measured runs (66.7 %); 1 run has no interval;"
        f" the upper end is {width:.2f} times the lower one in the median."
    )
    answer = validation_of(cases, interval_data=seen)
    assert answer.coverage == coverage
    assert answer.service_coverage is None
    assert list(coverage_rows(coverage)) == [
        ("far", "0", "0", "", "", "1"),
        ("new", "3", "2", "66.7 %", f"{width:.2f}", "0"),
        ("chip", "3", "2", "66.7 %", f"{width:.2f}", "0"),
        ("unknown", "0", "0", "", "", "1"),
        ("all", "3", "2", "66.7 %", f"{width:.2f}", "1"),
    ]


def test_services_are_judged_by_metric():
    """Each graded number of a service counts, and steps of training have no part in it."""
    grades = [Grade(m, None, 1.0, 1.0, 0.0, 0.0) for m in ("ttft_ms", "tpot_ms")]
    case = replace(outcome(1.0), grade=grades[0], others=(grades[1],), is_inference=True)
    seen = runs_of(*[[1.1, 0.9]] * 20, metric="ttft") + runs_of(*[[1.5]] * 20)
    answer = validation_of([case, outcome(1.0)], interval_data=seen)

    assert answer.service_coverage.metrics.keys() == {"ttft", "tpot"}
    assert answer.service_coverage.metrics["ttft"].inside == 1
    assert answer.service_coverage.metrics["tpot"].without == 1
    assert answer.coverage.all.count == 1
    assert coverage_lines(answer)[1].startswith("Services: 90 % prediction intervals contain 1 of")


def test_nothing_graded_has_no_coverage():
    """Without a case there is a line without a share."""
    line = coverage_line(coverage_of([], ErrorsByNearness([])))

    assert line == "No measured run that could have a prediction interval."
