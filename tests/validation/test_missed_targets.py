"""What could not be reached: each miss has a cause, and each cause still has its miss."""

import re
from pathlib import Path
from statistics import fmean

import pytest

from clustersim.catalog.checking import checked
from clustersim.catalog.finding import shipped
from clustersim.catalog.tree import Place, Tree
from clustersim.cli.validate import validate as command
from clustersim.errors import CatalogError
from clustersim.validation.cases.cases import read_cases
from clustersim.validation.cases.machines import alike
from clustersim.validation.grading import Grade
from clustersim.validation.missed_targets import (
    FAR,
    Cause,
    Promise,
    Unreached,
    findings,
    read_unreached,
)
from clustersim.validation.missed_text import REACHED, UNEXPLAINED, unreached_rows
from clustersim.validation.outcomes import Outcome
from clustersim.validation.text import GROUPS, LAYOUTS

PAGE = Path(__file__).parents[2] / "docs" / "validation.md"


def run(name, group, error, confidence="high"):
    """Return a graded run with an error of its time."""
    grade = Grade("step_time_s", None, 1.0, 1.0 + error, error, time_error=error)
    return Outcome(name, group, grade=grade, confidence=confidence)


def known(*promises, causes=()):
    return Unreached(
        kind="missed_targets", promises=list(promises), causes=list(causes) or [NOTHING]
    )


def cause(group, *cases):
    return Cause(group=group, cases=list(cases), cause="a cause", decided_by="a measurement")


NOTHING = cause("no such group")
RUNS = [run("a-1", "a", 0.02), run("a-2", "a", 0.12), run("b-1", "b", 0.04), run("b-far", "b", 0.4)]


def told(known, outcomes=RUNS, whole=False):
    """Return group, cases, whether it is reached and whether there is a cause, of each finding."""
    found = findings(known, outcomes, whole=whole)
    return [(each.group, *each.cases, each.reached, each.cause is not None) for each in found]


# --- the law ----------------------------------------------------------------------------------


def test_a_missed_promise_is_told_with_what_was_found():
    """The error beside a cause is that of the run, and so are the promise and the worst case."""
    (found,) = findings(known(Promise(group="a", at_most=0.05), causes=[cause("a")]), RUNS[:2],
                        whole=False)  # fmt: skip
    answer = found.to_json()

    assert answer["missed"] == [
        {"group": "a", "figure": "mean", "confidence": None, "at_most": 0.05, "at_least": None}
        | {"found": pytest.approx(0.07)}
    ]
    assert (answer["count"], answer["worst"], answer["worst_id"]) == (2, 0.12, "a-2")
    assert answer["mean_abs_error"] == pytest.approx(0.07)
    assert (answer["reached"], answer["far"]) == (False, [])


def test_a_cause_whose_promise_is_kept_is_told_as_reached():
    """An entry that improved away is seen, so that it is taken out."""
    assert told(known(Promise(group="a", at_most=0.08), causes=[cause("a")]), RUNS[:2]) == [
        ("a", True, True)
    ]


def test_a_missed_promise_without_a_cause_is_told_without_one():
    """Nothing that is missed is passed over."""
    assert told(known(Promise(group="a", at_most=0.05)), RUNS[:2]) == [("a", False, False)]


def test_a_run_far_off_without_a_cause_is_told_without_one():
    """No group has to promise anything for it."""
    assert told(known()) == [("b", "b-far", False, False)]


def test_a_cause_of_some_runs_answers_for_their_group_where_they_are_worse_than_promised():
    """Runs that are better than the group may be on average are no cause of its error."""
    promise = Promise(group="b", at_most=0.1)

    assert told(known(promise, causes=[cause("b", "*-far")])) == [("b", "*-far", False, True)]
    assert told(known(promise, causes=[cause("b", "b-1")])) == [
        ("b", "b-1", True, True),
        ("b", False, False),
        ("b", "b-far", False, False),
    ]


def test_promises_on_all_runs_wait_for_all_of_them():
    """Some groups alone say nothing of all; a cause for all explains no group."""
    promise = Promise(group="all", figure="median", at_most=0.01, confidence="high")
    entry = known(promise, causes=[cause("all")])

    assert told(entry, RUNS[:2]) == []
    assert told(entry, whole=True) == [("all", False, True), ("b", "b-far", False, False)]


def test_only_sure_runs_count_where_a_promise_says_so():
    """Runs of low confidence do not break a promise on sure ones."""
    promise = Promise(group="c", at_most=0.05, confidence="high")
    runs = [run("c-1", "c", 0.01), run("c-2", "c", 0.2, "low")]

    assert told(known(promise), runs) == []


def test_what_is_not_graded_is_no_miss():
    """A case that cannot be graded has no error, and its cause no run."""
    ungraded = [Outcome("a-1", "a")]

    assert told(known(Promise(group="a", at_most=0.05), causes=[cause("a")]), ungraded) == []


@pytest.mark.parametrize(
    ("promise", "problem"),
    [
        ({"group": "a"}, "needs either 'at_most' or 'at_least', and not both"),
        ({"group": "a", "at_most": 1, "at_least": 0}, "needs either 'at_most' or 'at_least'"),
        ({"group": "a", "at_most": 0.1, "figure": "mode"}, "figure"),
        ({"group": "a", "at_most": 0.1, "tolerance": 1}, "tolerance"),
    ],
)
def test_a_wrong_promise_is_refused(promise, problem):
    """A typing error in the file is one line that says where."""
    data = {"kind": "missed_targets", "promises": [promise], "causes": [NOTHING.model_dump()]}

    with pytest.raises(CatalogError, match=problem):
        checked(Unreached, Tree(data, {(): Place("file")}), CatalogError)


# --- what is shipped --------------------------------------------------------------------------


def test_every_pattern_of_the_shipped_file_finds_a_case():
    """A promise or a cause that is of nothing would be kept for ever."""
    cases = [
        Outcome(entry.id, entry.group) for entry in read_cases(shipped("validation") / "cases.yaml")
    ]
    file = read_unreached()

    for entry in [*file.promises, *file.causes]:
        assert entry.of(cases), entry
        for pattern in entry.cases:
            assert any(alike(pattern, case.id) for case in entry.of(cases)), (entry.group, pattern)


def table(title):
    """Return the rows of a table of the page by their first cell."""
    lines = PAGE.read_text().split(f"## {title}\n")[1].split("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return {row[0]: row for row in rows if len(row) > 1}


def share(cell):
    """Return the first percentage of a cell as a share; None where there is none."""
    found = re.match(r"[+-]?[\d.]+(?= %)", cell)
    return None if found is None else abs(float(found[0])) / 100


@pytest.fixture(scope="module")
def printed():
    """Return the runs of the page: group and absolute error by id."""
    groups = {entry.id: entry.group for entry in read_cases(shipped("validation") / "cases.yaml")}
    errors = {name: share(row[4]) for name, row in table("Cases").items() if name in groups}
    return [(name, groups[name], error) for name, error in errors.items() if error is not None]


def test_each_run_that_is_far_off_has_a_cause(printed):
    """No row of the page is more than a quarter off without a likely cause."""
    causes = [entry for entry in read_unreached().causes if entry.group != "all"]
    far = [Outcome(name, group) for name, group, error in printed if error > FAR]

    assert far
    assert [run.id for run in far if not any(entry.of([run]) for entry in causes)] == []


def test_each_group_that_misses_its_promise_has_a_cause():
    """The means, ranks and losses of the page that are beyond their bound are told of."""
    file = read_unreached()
    found = {
        "mean": {name: share(row[3]) for name, row in table(GROUPS.title).items()},
        "tau": {name: _number(row[2]) for name, row in table(LAYOUTS.title).items()},
        "regret": {name: share(row[4]) for name, row in table(LAYOUTS.title).items()},
    }
    missed = [
        name
        for promise in file.promises
        if promise.group != "all" and not promise.cases
        for name, figure in found[promise.figure].items()
        if alike(promise.group, name) and figure is not None and not promise.kept(figure)
    ]

    assert missed
    assert [g for g in missed if not any(alike(entry.group, g) for entry in file.causes)] == []


def _number(cell):
    return float(cell) if re.fullmatch(r"-?[\d.]+", cell) else None


def test_each_cause_has_its_miss(printed):
    """A cause whose runs are now as good as promised is taken out, or told anew."""
    file = read_unreached()
    means = {
        promise.group: promise.at_most for promise in file.promises if promise.figure == "mean"
    }
    for entry in file.causes:
        if entry.group == "all":
            continue
        errors = [e for n, group, e in printed if entry.of([Outcome(n, group)])]
        bound = next((most for group, most in means.items() if alike(group, entry.group)), None)

        assert errors, entry.group
        assert max(errors) > FAR or (bound is not None and fmean(errors) >= bound), entry.group


def test_the_page_has_no_entry_out_of_date_and_no_miss_without_a_cause():
    """What the command would print in their place is not on the page."""
    page = PAGE.read_text()

    assert REACHED not in page
    assert f"| {UNEXPLAINED} |" not in page


# --- the answer -------------------------------------------------------------------------------


def test_a_row_says_what_was_promised_and_found():
    """Bounds are printed in the unit of their figure, and runs far off are counted."""
    promises = [Promise(group="b", at_most=0.1), Promise(group="a", figure="p90", at_most=0.1)]
    found = findings(known(*promises, causes=[cause("b"), cause("a")]), RUNS, whole=False)
    rows = list(unreached_rows({"unreached": [each.to_json() for each in found]}))

    assert rows[0][:5] == ("b", "2", "22.0 %", "40.0 % b-far",
                           "mean at most 10.0 %, is 22.0 %; 1 run more than 25 % off")  # fmt: skip
    assert rows[1][4] == "p90 at most 10.0 %, is 11.0 %"


def test_groups_that_are_asked_for_show_their_own_entries_only(capsys):
    """`--group` of one that misses prints its cause beside its error of today."""
    command(group=["llama3-paper"], markdown=True)
    shown = capsys.readouterr().out
    section = shown.split("## What could not be reached")[1].split("\n## ")[0]

    assert "| llama3-paper | 1 |" in section
    assert section.count("\n| ") == 3
