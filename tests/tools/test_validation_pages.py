"""Pages of a validation: their sizes, their index, and errors by machine, software and kind."""

from dataclasses import replace

import pytest

from clustersim.validation.outcome import MetricAnswer
from measured_runs import SMALL, graded_run
from tools.case_errors import case_errors
from tools.validation import main, validate_repository
from tools.validation_pages import to_pages

MAX_BYTES = 40_000


@pytest.fixture(scope="module")
def report():
    return validate_repository(SMALL, jobs=1)


def test_a_page_of_validation_is_below_40_kb(report):
    """One page of 113 kB was never read; each of today is shorter, and the first links all."""
    texts = to_pages(report)

    assert {name: len(text) for name, text in texts.items() if len(text) > MAX_BYTES} == {}
    assert [
        name for name in texts if name != "README.md" and f"({name})" not in texts["README.md"]
    ] == []
    assert all(text.startswith("# ") for text in texts.values())


def test_all_graded_cases_are_on_a_page_of_cases(report):
    """Each case with a grade is listed once."""
    cases = [text for name, text in to_pages(report).items() if name.startswith("cases-")]
    graded = [case.id for case in report.validation.cases if case.gradable]

    assert graded
    assert [name for name in graded if "".join(cases).count(f"| {name} |") != 1] == []


def test_pages_are_written_and_others_are_deleted(tmp_path):
    """`--pages` replaces the pages of a folder."""
    (tmp_path / "old.md").touch()
    main(["--cases", str(SMALL), "--jobs", "1", "--pages", str(tmp_path)])

    assert {file.name for file in tmp_path.glob("*")} == {
        *to_pages(validate_repository(SMALL, jobs=1))
    }


def test_errors_of_times_and_rates_have_the_same_direction():
    """1.25 times the time of a token, and 0.8 times the tokens per second, are 25 % too slow."""
    run = graded_run("a", "a", 0.25).answer
    metrics = [("tpot_ms", 0.25), ("output_tok_s", -0.2)]
    service = replace(
        run, metrics=tuple(MetricAnswer(name, 1.0, 1.0 + error, error) for name, error in metrics)
    )
    found = [*case_errors([service])]

    assert [(each.kind, each.error) for each in found] == [
        ("service: each token", 0.25),
        ("service: throughput", -0.2),
    ]
    assert [each.slower for each in found] == pytest.approx([0.25, 0.25])
