"""Measured effects of stragglers: which rows are graded, how, and why others are not."""

import json

import pytest

from clustersim.validation.case_runs import run_cases
from clustersim.validation.cases.rows import parse_entries
from clustersim.validation.families.stragglers import expected_maximum
from wrong_values import wrong_values


def outcome(**row):
    """Return the outcome of a row of the family."""
    given = {"id": "a", "group": "b", "family": "jitter", "source": {"confidence": "high"}}
    [found] = run_cases(parse_entries([{**given, **row}]))
    return found


@pytest.mark.parametrize(
    ("ranks", "measured"),
    [
        (8, {"expected_max_sigma": 1.4236}),
        (384, {"expected_max_sigma": 2.9555}),
        (64, {"expected_max_over_mean": 4.7439}),
    ],
)
def test_an_expected_maximum_is_graded(ranks, measured):
    """The slowest of many ranks is within 1 % of its order statistic, and nothing is assumed."""
    found = outcome(kind="oracle", system={"ranks": ranks}, measured=measured)

    assert abs(found.grade.error) < 0.01
    assert found.scored
    assert found.answer.metric == next(iter(measured))


def test_the_mean_maximum_of_exponential_delays_is_the_harmonic_number():
    """The expected maximum of four exponential delays is 1 + 1/2 + 1/3 + 1/4 of their mean."""
    assert expected_maximum("exponential", 4) == pytest.approx(25 / 12, rel=0.03)


def test_an_overloaded_last_stage_is_replayed_before_and_after():
    """Layers that move from the stage with the loss raise the throughput."""
    found = outcome(
        kind="counterfactual",
        parallel={"pp": 4},
        model={"layers": 36},
        measured={
            "throughput_gain": 0.099,
            "loss_over_layer": 9,
            "last_stage_forward_ratio": 2.07,
            "last_stage_backward_ratio": 1.41,
            "after_tuning_forward_ratio": 1.55,
        },
    )

    assert found.grade.metric == "throughput_ratio"
    assert found.grade.measured == 1.099
    assert 1.05 < found.grade.predicted < 1.35
    assert found.assumed["layers"].startswith("10, 10, 10, 6 ")
    assert [(each.metric, each.predicted) for each in found.answer.metrics][1:] == [
        ("last_stage_forward_ratio", 2.0)
    ]
    assert not found.scored


def test_a_last_stage_without_its_loss_gains_nothing():
    """Where the loss takes no time, equal stages are the fastest already."""
    found = outcome(
        kind="counterfactual",
        parallel={"pp": 4},
        model={"layers": 36},
        measured={"throughput_gain": 0.01, "loss_over_layer": 1e-6},
    )

    assert found.grade.predicted == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    "row",
    [
        {"parallel": {"dp": 128}, "interval_steps": 500, "measured": {"throughput_gain": 0.126}},
        {"model": {"max_sequence": 32768}, "measured": {"throughput_gain": 0.239}},
    ],
    ids=["planned pauses", "balanced sequences"],
)
@pytest.mark.large
def test_a_gain_with_assumed_settings_is_graded_and_not_scored(row):
    """What the source leaves out is assumed, with reasons that the answer lists."""
    found = outcome(kind="counterfactual", **row)

    assert 1.02 < found.grade.predicted < 1.5
    assert "disturbances" in found.assumed
    assert not found.scored


@pytest.mark.parametrize(
    ("row", "why"), wrong_values("rows of stragglers that no scenario expresses")
)
def test_a_row_that_no_scenario_expresses_has_its_reason(row, why):
    """Rows about many jobs, or without the setting behind a gain, are listed with the reason."""
    found = outcome(**json.loads(row))

    assert not found.gradable
    assert found.answer.why == why
