"""The table of claims: which numbers a claim gives, and when it holds."""

import pytest

from clustersim.validation.cases.reasons import Reason, Ungradable
from clustersim.validation.claims.predictions import CLAIMS
from clustersim.validation.claims.verdicts import Claim, Expected, Verdict, judge, read_claims
from clustersim.validation.text import claim_rows


def claim_of(**expected):
    """Return a made-up claim with the given numbers."""
    return Claim(number=1, claim="made up", source="nowhere", expected=expected)


def test_every_claim_is_predicted_and_every_prediction_is_of_a_claim():
    """The file of claims and the table of functions have the same numbers, each once."""
    numbers = [claim.number for claim in read_claims()]

    assert numbers == sorted(set(numbers)) == sorted(CLAIMS)


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
    """A tolerance is a share, or in the number's own unit; a bound belongs to what meets it."""
    expected = Expected(unit="s", **test)

    assert all(expected.met(number) for number in met)
    assert not any(expected.met(number) for number in unmet)


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


def test_a_claim_holds_where_all_of_its_numbers_do():
    """One number that is off is enough to miss."""
    claim = claim_of(a={"value": 1, "within": 0.1, "unit": "s"}, b={"at_most": 5, "unit": "GiB"})

    assert Verdict(claim, {"a": 1.05, "b": 5}).holds is True
    assert Verdict(claim, {"a": 1.05, "b": 6}).holds is False
    assert Verdict(claim, trouble="no machine file").holds is None


def test_a_claim_that_cannot_be_predicted_says_why():
    """What stands against a prediction is part of the answer, and ends nothing."""

    def refused():
        raise Ungradable(Reason("no machine file", "no machine file for 'TPU-v9'"))

    verdict = judge(2, {2: refused})

    assert (verdict.holds, verdict.trouble) == (None, "no machine file for 'TPU-v9'")
    assert all(number["predicted"] is None for number in verdict.to_json()["numbers"])


def test_the_table_has_a_row_for_each_number():
    """Claim and source stand in the first row of a claim, each number in one of its own."""
    claim = claim_of(a={"value": 2, "relative": 0.1, "unit": "s"}, b={"at_least": 1, "unit": "GiB"})
    rows = list(claim_rows({"claims": [Verdict(claim, {"a": 2.5, "b": 3}).to_json()]}))

    assert rows == [
        ("1", "made up", "a", "2 s ± 10.0 %", "2.5 s", "missed", "nowhere"),
        ("", "", "b", "at least 1 GiB", "3 GiB", "holds", ""),
    ]
