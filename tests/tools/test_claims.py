"""Claims of papers: each holds, or misses a number for a stated reason."""

import pytest

from clustersim.validation.cases.reasons import Reason, Ungradable
from tools.claims import claims, functions, runs
from tools.claims.claims import (
    Bound,
    Claim,
    ClaimsFile,
    Expected,
    Prediction,
    claim_verdict,
    judge_claim,
    read_claims,
)
from tools.page import claim_rows

CLAIMS = read_claims().claims


def claim_of(**expected):
    """Return a claim with the given numbers, predicted by a function."""
    return Claim(
        number=1, claim="example", source="none", function="training_states", expected=expected
    )


def test_the_numbers_of_claims_are_in_order():
    """Each number stands once, and every function is of a claim."""
    numbers = [claim.number for claim in CLAIMS]

    assert numbers == sorted(set(numbers))
    assert {claim.function for claim in CLAIMS} - {None} == set(functions.FUNCTIONS)


@pytest.mark.parametrize(
    ("test", "met", "unmet"),
    [
        ({"value": 100, "relative": 0.1}, (90, 110), (89, 111)),
        ({"value": -100, "relative": 0.1}, (-90, -110), (-89, -111)),
        ({"value": 0, "within": 2}, (-2, 2), (-3, 3)),
        ({"value": 4, "within": 0}, (4,), (3.999, 4.001)),
        ({"at_least": 1}, (1, 5), (0.999,)),
        ({"at_most": 1}, (1, -5), (1.001,)),
    ],
)
def test_a_number_is_met_up_to_its_tolerance(test, met, unmet):
    """A tolerance is a share, or in the number's own unit; a bound includes its value."""
    expected = Expected(unit="s", **test)

    assert all(expected.holds(number) for number in met)
    assert not any(expected.holds(number) for number in unmet)


@pytest.mark.parametrize(
    "test",
    [
        {},
        {"value": 1},
        {"relative": 0.1},
        {"value": 1, "relative": 0.1, "within": 1},
        {"value": 1, "at_least": 0},
        {"at_least": 0, "at_most": 1},
    ],
)
def test_an_expectation_needs_exactly_one_test(test):
    """A number without a tolerance, or with two, is a mistake in the file."""
    with pytest.raises(ValueError, match="needs 'value' with 'relative' or 'within', or one bound"):
        Expected(unit="s", **test)


@pytest.mark.parametrize(
    ("prediction", "problem"),
    [
        ({"metric": "step time [s]"}, "needs one of"),
        (
            {"metric": "step time [s]", "run": "a", "gain": ["a", "b"]},
            "needs one of 'run', 'ratio'",
        ),
        ({"metric": "speed", "run": "a"}, "no 'speed'"),
    ],
)
def test_a_prediction_has_one_known_form(prediction, problem):
    """A prediction names a metric that exists, and compares runs in one way."""
    with pytest.raises(ValueError, match=problem):
        Prediction(**prediction)


def test_lists_of_settings_may_contain_others(monkeypatch):
    """The settings of a run are expanded in their order, so that later ones win."""
    spec = {"scenario": "frontier-22b", "set": ["both", "plan.zero=1"]}
    claim = Claim(
        number=1, claim="c", source="s", runs={"a": spec}, function="training_states",
        expected={"states": {"value": 1, "within": 1, "unit": "s"}},
    )  # fmt: skip
    settings = {"one": ["plan.data=2"], "both": ["one", "batch.micro=1"]}
    file = ClaimsFile(kind="claims", settings=settings, claims=[claim])

    assert file.runs_of(claim)["a"].set == ["plan.data=2", "batch.micro=1", "plan.zero=1"]


def test_a_claim_holds_where_all_of_its_numbers_do():
    """One number outside its tolerance is enough to miss."""
    claim = claim_of(a={"value": 1, "within": 0.1, "unit": "s"}, b={"at_most": 5, "unit": "GiB"})

    assert claim_verdict(claim, {"a": 1.05, "b": 5}).holds is True
    assert claim_verdict(claim, {"a": 1.05, "b": 6}).holds is False
    assert claim_verdict(claim, {}, why="no machine file").holds is None


def test_a_claim_without_a_prediction_has_the_reason(monkeypatch):
    """A prediction that is impossible is part of the answer, and ends nothing."""

    def fail(runs):
        raise Ungradable(Reason("no machine file", "no machine file for 'TPU-v9'"))

    monkeypatch.setitem(claims.FUNCTIONS, "training_flops", fail)
    verdict = judge_claim(2)

    assert (verdict.holds, verdict.why) == (None, "no machine file for 'TPU-v9'")
    assert all(number.predicted is None for number in verdict.numbers)


@pytest.mark.large
def test_a_case_that_has_been_run_is_not_run_again_for_a_claim(monkeypatch):
    """With the outcome of its case, a claim has the predictions that running the case gives."""
    claim = next(claim for claim in CLAIMS if any_case(claim))
    own, alone = any_case(claim), judge_claim(claim.number)
    outcomes = {case: runs._outcome(case) for case in own}
    monkeypatch.setattr(runs, "_outcome", None)

    assert judge_claim(claim.number, outcomes=outcomes) == alone


def any_case(claim):
    """Return the cases of a claim; none where some of its runs are of scenarios."""
    cases = [run.case for run in claim.runs.values()]
    return cases if all(cases) else []


def test_the_table_has_a_row_for_each_number():
    """Claim and source are in the first row of a claim, each number in one of its own."""
    claim = claim_of(a={"value": 2, "relative": 0.1, "unit": "s"}, b={"at_least": 1, "unit": "GiB"})
    rows = list(claim_rows([claim_verdict(claim, {"a": 2.5, "b": 3})]))

    assert rows == [
        ("1", "example", "a", "2 s ± 10.0 %", "2.5 s", "missed", "none"),
        ("", "", "b", "at least 1 GiB", "3 GiB", "holds", ""),
    ]


def test_a_bound_of_today_is_wider():
    """The bound of a missed number is a tolerance, a share or a bound, as that of the claim."""
    assert Bound(within=2).met(1.5, 0)
    assert not Bound(relative=0.1).met(1.5, 1.0)
