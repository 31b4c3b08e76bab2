"""The page of a validation: what `make validation` writes."""

from pathlib import Path

import pytest

from clustersim.validation.answer import case_entries
from measured_runs import SMALL
from tools.claims.claims import read_claims
from tools.validation import main, validate_repository
from tools.validation_pages import to_pages

PAGES = Path(__file__).parents[2] / "docs" / "validation"


def test_the_page_has_a_row_for_each_group_and_case(capsys):
    """Each graded case has its numbers, each other its reasons."""
    main(["--cases", str(SMALL), "--jobs", "1"])
    shown = capsys.readouterr().out

    assert "| small | 3 of 5 | 0 |" in shown
    assert "| unknown-accelerator | no machine file for 'TPU-v9', 4 a node |" in shown


@pytest.mark.large
def test_cases_of_a_tenth_of_the_groups_are_on_the_pages_as_they_are_predicted():
    """The page of the whole is held by an exhaustive test, which takes seven times as long."""
    groups = sorted({entry.group for entry in case_entries(None)})[::10]
    written = {line for page in PAGES.glob("*") for line in page.read_text().splitlines()}
    pages = to_pages(validate_repository(groups=groups, jobs=1))
    rows = [
        line
        for name, text in pages.items()
        if name.startswith("cases-")
        for line in text.splitlines()
    ]

    assert len(rows) > 50
    assert [row for row in rows if row.startswith("| ") and row not in written] == []


@pytest.mark.large
@pytest.mark.exhaustive
def test_the_page_of_validation_is_what_the_tool_prints():
    """docs/validation has the tables of today; ``make validation`` writes them.

    Every miss has a cause in ``tools/missed_targets.yaml``, and nothing else has.  Every number
    of a claim is met, or has a reason and keeps the bound of today; no reason is obsolete.
    """
    report = validate_repository(jobs=1)

    assert [e.group for e in report.misses if e.cause is None or e.reached] == []
    for claim, verdict in zip(read_claims().claims, report.claims, strict=True):
        assert verdict.why is None
        for number in verdict.numbers:
            expected = claim.expected[number.name]
            assert number.holds is (expected.missed is None), number
            if expected.today is not None:
                assert expected.today.met(number.predicted, expected.value), number
    assert to_pages(report) == {page.name: page.read_text() for page in PAGES.glob("*")}
