"""Missing time of runs is explained by the quantity that it follows, and by no other."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.errors import ScenarioError
from clustersim.scenario.load import load
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate
from clustersim.validation.answer import case_entries, validation_of
from clustersim.validation.case_runs import run_case, run_cases, select_groups
from clustersim.validation.grading import Grade
from clustersim.validation.outcome import Outcome
from tools.explanation.answer import explain
from tools.explanation.quantities import (
    QUANTITIES,
    SERVING_QUANTITIES,
    Amount,
    count_quantities,
    counted_quantities,
    quantities_of,
)
from tools.explanation.regression import robust_fit
from tools.explanation.text import coefficient_text
from tools.page import Report, to_markdown
from tools.validation import explained_cases, main, validate_repository

GOLDEN = Path(__file__).parents[1] / "golden" / "explanation.md"

RUNS = 30

COUNTED = {
    "launches": (2e3, 2e5),
    "matmul": (0.5, 20.0),
    "attention": (0.05, 3.0),
    "elementwise": (1e11, 1e13),
    "tensor_calls": (1e2, 1e4),
    "tensor_bytes": (1e10, 1e12),
    "slots": (4.0, 200.0),
}
"""Quantities of synthetic runs, and between which amounts they are."""


def run(name, predicted, measured, amounts):
    """Return a graded run with some amounts, each with a second of predicted time."""
    error = predicted / measured - 1
    quantities = {key: Amount(amounts.get(key, 0.0), 1.0) for key in QUANTITIES}
    quantities |= {"steps": Amount(1.0, predicted), "step_time": Amount(predicted, predicted)}
    grade = Grade("step_time_s", None, measured, predicted, error, error)
    return Outcome(name, "group", grade=grade, observed=quantities)


def runs_with(seconds, *, noise=0.01, seed=0, runs=RUNS):
    """Return runs of 5 to 40 s whose missing time is a sum of quantities, and a little noise."""
    random = np.random.default_rng(seed)
    made = []
    for number in range(runs):
        amounts = {
            key: low * (high / low) ** random.uniform() for key, (low, high) in COUNTED.items()
        }
        predicted = random.uniform(5, 40)
        missing = sum(each * amounts[key] for key, each in seconds.items())
        measured = (predicted + missing) * (1 + noise * random.normal())
        made.append(run(f"run-{number}", predicted, measured, amounts))
    return made


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1000), key=st.sampled_from(["launches", "tensor_calls", "slots"]))
@pytest.mark.large
def test_a_planted_quantity_is_found_within_its_uncertainty(seed, key):
    """Missing time of each unit of one quantity gives back the quantity, and its time."""
    planted = 8.0 / COUNTED[key][1]
    found = explain("group", runs_with({key: planted}, seed=seed))

    first = found.chosen[0]
    assert first.quantity == found.quantities[0].quantity == key
    width = first.high - first.low
    assert first.low - width < planted < first.high + width
    assert width < planted
    assert found.remaining < 0.015 < found.missing


@pytest.mark.large
def test_two_planted_quantities_are_found_together():
    """Launches and calls that both take longer are both selected."""
    planted = {"launches": 2e-5, "tensor_calls": 5e-4}
    found = explain("group", runs_with(planted))

    chosen = {each.quantity: each for each in found.chosen}
    assert set(planted) <= set(chosen)
    for key, seconds in planted.items():
        assert chosen[key].seconds_each == pytest.approx(seconds, rel=0.1)


@pytest.mark.large
def test_slow_runs_are_outliers_and_no_evidence():
    """A fifth of the runs twice as slow for no reason are listed, and hardly move the rest."""
    planted = 2e-5
    runs = runs_with({"launches": planted})
    clean = explain("group", runs).chosen[0]
    slow = [
        run(each.id, each.grade.predicted, 2 * each.grade.measured,
            {key: amount.units for key, amount in each.observed.items()})
        for each in runs[::5]
    ]  # fmt: skip
    found = explain("group", [each for each in runs if each not in runs[::5]] + slow)

    assert found.chosen[0].quantity == "launches"
    assert found.chosen[0].seconds_each == pytest.approx(clean.seconds_each, rel=0.25)
    assert {outlier.id for outlier in found.outliers} >= {each.id for each in slow}
    assert all(outlier.remaining > 0.2 for outlier in found.outliers[: len(slow)])


def test_a_quantity_that_is_counted_twice_is_over_counted():
    """Runs that are predicted too slow, by calls, have a coefficient with that sign."""
    found = explain("group", runs_with({"tensor_calls": -2e-4}))

    first = found.chosen[0]
    assert (first.quantity, first.over_counted) == ("tensor_calls", True)
    assert first.low < first.seconds_each < first.high < 0
    assert first.seconds_each == pytest.approx(-2e-4, rel=0.15)
    assert found.too_slow > found.too_fast


@pytest.mark.large
def test_no_more_is_over_counted_than_is_predicted():
    """A quantity with a second of predicted time in a run is not over-counted by more."""
    found = explain("group", runs_with({"tensor_calls": -5e-4}))

    for each in found.chosen:
        if each.over_counted and each.quantity in COUNTED:
            mean = np.mean([run.observed[each.quantity].units for run in runs_with({})])
            assert -each.seconds_each * mean < 3


@pytest.mark.large
def test_noise_is_seldom_explained():
    """Missing time that follows no quantity selects one in at most two of ten draws."""
    noises = [explain("group", runs_with({}, noise=0.1, seed=seed)) for seed in range(10)]

    assert sum(bool(found.chosen) for found in noises) <= 2
    assert all(each.held_out < 0.3 for found in noises for each in found.chosen)


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=3), st.integers(0, 100))
def test_a_fit_to_exact_times_is_exact(seconds, seed):
    """Columns times their coefficients give back the coefficients."""
    columns = np.random.default_rng(seed).uniform(0.1, 1, (20, len(seconds)))

    fitted = robust_fit(columns, columns @ seconds)

    assert fitted == pytest.approx(np.array(seconds), rel=1e-6)


# --- real runs ------------------------------------------------------------------------------------


def outcomes_of(group):
    return run_cases(select_groups(case_entries(), [group]), observe=count_quantities)


@pytest.mark.large
def test_quantities_of_a_run_are_those_of_its_layout():
    """A run of 1F1B has its layers and microbatches, and those of a pipeline its waits."""
    runs = outcomes_of("megatron21-weak")

    for each in runs:
        amounts, layout = each.observed, each.layout
        assert set(amounts) == set(QUANTITIES)
        assert all(amount.units >= 0 for amount in amounts.values())
        assert (amounts["pipeline_calls"].units > 0) == (layout["pipeline"] > 1)
        assert (amounts["tensor_calls"].units > 0) == (layout["tensor"] > 1)
        assert amounts["slots"].units <= amounts["layer_slots"].units
        assert amounts["matmul"].units <= amounts["step_time"].units


@pytest.mark.parametrize("microbatches", [8, 32])
def test_slots_of_a_pipeline_are_those_of_its_closed_form(microbatches):
    """A step of p stages with v chunks has m + (p - 1) / v slots: each takes its time so often."""
    loaded = load("megatron21-t1-145b", {"batch.global": microbatches * 24 * 2})
    job = build_job(loaded)
    amounts = counted_quantities(job, simulate(loaded))

    slots = microbatches + (job.plan.pipeline - 1) / job.plan.chunks
    assert amounts["slots"].units == pytest.approx(slots, rel=0.05)
    layers = job.model.layers / job.plan.pipeline
    assert amounts["layer_slots"].units == pytest.approx(layers * amounts["slots"].units)


# --- inference -----------------------------------------------------------------------------------


@pytest.mark.large
def test_a_slow_part_of_tokens_is_explained():
    """Cases that are measured slower by a second for each predicted one of their experts."""
    outcomes = [run_case(entry) for entry in case_entries() if entry.group == "inference-ft"]
    planted = [slower(outcome, "kv_time", 1.0) for outcome in outcomes]
    found = explain("inference-ft", planted)

    assert found.chosen[0].quantity == "kv_time"
    assert found.chosen[0].seconds_each == pytest.approx(1.0, rel=0.05)
    assert not found.chosen[0].over_counted


def slower(outcome: Outcome, quantity: str, each: float) -> Outcome:
    """Return an outcome whose measured time is the predicted one and some time of a quantity."""
    amounts = quantities_of(outcome)
    whole = amounts["token_time"].units
    error = whole / (whole + each * amounts[quantity].units) - 1
    return replace(outcome, grade=replace(outcome.grade, error=error, time_error=error))


@pytest.mark.large
def test_groups_of_inference_are_explained_from_the_shipped_file():
    """Only the cases of the group run, and their tables have the words of a token."""
    report = validate_repository(explained=["inference-trtllm05"], jobs=1)
    [found] = report.explanations

    assert found.runs == len(report.validation.cases) == 8
    assert all(each.quantity in SERVING_QUANTITIES for each in found.quantities)


@pytest.mark.large
def test_training_and_inference_are_explained_apart():
    """Their times follow different quantities: the line states how many of each there are."""
    with pytest.raises(ScenarioError, match="steps of training and 153 cases of inference"):
        explained_cases(case_entries(), "*")


# --- the command ----------------------------------------------------------------------------------


def test_an_explanation_is_the_golden_text():
    """The tables of an explanation as Markdown, whose samples have a seed of their own."""
    explained = explain("group", runs_with({"launches": 2e-5, "tensor_bytes": 4e-12}))
    text = to_markdown(Report(validation_of([]), explanations=(explained,)))
    tables = text[text.index("## Missing time") : text.index("## Coverage")]

    assert tables == GOLDEN.read_text(encoding="utf-8")


def test_coefficients_have_the_units_of_their_quantities():
    """Counts are times, bytes are rates, and seconds are shares."""
    assert coefficient_text("slots", 0.02) == "20 ms a microbatch"
    assert coefficient_text("gradients", -1e-10) == "over-counted: at 10 GB/s"
    assert coefficient_text("tensor_bytes", 0.0) == "at no time"
    assert coefficient_text("matmul", 0.1) == "10.0 % of it"


@pytest.mark.large
def test_the_page_has_the_tables_of_an_explanation(capsys):
    """`--explain` prints tables for each pattern; only its cases run."""
    main(["--explain", "megatron21-w*", "--jobs", "1"])

    assert "Missing time of megatron21-w*, 10 runs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("group", "complaint"),
    [
        ("bloom", "--explain: no case is of group 'bloom'"),
        ("megatron-h100-weak", "'megatron-h100-weak' has 2 runs with a measured time"),
    ],
)
def test_a_group_that_cannot_be_explained_is_one_line(group, complaint, capsys):
    """Unknown groups, and groups with fewer than five runs, end with code 2."""
    with pytest.raises(SystemExit) as ended:
        main(["--explain", group, "--jobs", "1"])
    captured = capsys.readouterr()

    assert ended.value.code == 2
    assert complaint in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.large
def test_cases_are_explained_by_their_names():
    """A pattern that no group matches selects cases; only these run."""
    report = validate_repository(explained=["vtrain-single-*-tp8-*"], jobs=1)
    (explained,) = report.explanations

    assert explained.runs == len(report.validation.cases) == 10
    assert {case.layout["tensor"] for case in report.validation.cases} == {8}
    assert report.misses == ()


def test_groups_without_enough_step_times_are_rejected():
    """Layers and memory are not step times: five cases of layers are not explained."""
    with pytest.raises(ScenarioError, match="0 runs with a measured time"):
        explain("korthikanti22-layer", outcomes_of("korthikanti22-layer"))
