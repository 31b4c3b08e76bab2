"""Missed accuracy targets: each miss has a cause, and each cause has a miss."""

from pathlib import Path

import pytest

from clustersim.answers import to_json
from clustersim.catalog.checking import checked
from clustersim.catalog.finding import shipped
from clustersim.catalog.reading import Place
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError
from clustersim.validation.cases.machines import matches
from clustersim.validation.cases.rows import read_entries
from clustersim.validation.outcome import Outcome
from measured_runs import graded_run
from tools.missed_targets import (
    Cause,
    Target,
    TargetsFile,
    explained_misses,
    read_targets,
)
from tools.page import REACHED, UNEXPLAINED, missed_rows
from tools.validation import main

PAGE = Path(__file__).parents[2] / "docs" / "validation" / "missed-targets.md"


def file_of(*targets, causes=()):
    """Return a file with some targets and causes."""
    causes = list(causes) or [NOTHING]
    return TargetsFile(kind="missed_targets", targets=list(targets), causes=causes)


def cause(group, *cases):
    return Cause(group=group, cases=list(cases), cause="a cause", decided_by="a measurement")


NOTHING = cause("no such group")
RUNS = [
    graded_run(name, name[0], error)
    for name, error in (("a-1", 0.02), ("a-2", 0.12), ("b-1", 0.04), ("b-far", 0.4))
]


def entries(file, outcomes=RUNS, all_cases=False):
    """Return group, cases, whether it is reached and whether there is a cause, of each entry."""
    misses = explained_misses(file, outcomes, all_cases=all_cases)
    return [(miss.group, *miss.cases, miss.reached, miss.cause is not None) for miss in misses]


# --- the law ----------------------------------------------------------------------------------


def test_a_missed_target_has_the_figure_that_was_found():
    """The errors of an entry are those of its runs, and it has the target and the worst case."""
    file = file_of(Target(group="a", at_most=0.05), causes=[cause("a")])
    (found,) = explained_misses(file, RUNS[:2], all_cases=False)
    answer = to_json(found)

    assert answer["missed"] == [
        {"group": "a", "figure": "mean", "confidence": None, "at_most": 0.05, "at_least": None}
        | {"found": pytest.approx(0.07)}
    ]
    assert (answer["count"], answer["worst"], answer["worst_id"]) == (2, 0.12, "a-2")
    assert answer["mean_abs_error"] == pytest.approx(0.07)
    assert (answer["reached"], answer["far"]) == (False, [])


LIMIT = Target(group="a", at_most=0.05)
HIGH = [graded_run("c-1", "c", 0.01), graded_run("c-2", "c", 0.2, "low")]


@pytest.mark.parametrize(
    ("file", "runs", "expected"),
    [
        (
            file_of(Target(group="a", at_most=0.08), causes=[cause("a")]),
            RUNS[:2],
            [("a", True, True)],
        ),
        (file_of(LIMIT), RUNS[:2], [("a", False, False)]),
        (file_of(), RUNS, [("b", "b-far", False, False)]),
        (file_of(Target(group="c", at_most=0.05, confidence="high")), HIGH, []),
        (file_of(LIMIT, causes=[cause("a")]), [Outcome("a-1", "a")], []),
    ],
    ids=[
        "a cause without a miss is reported as reached",
        "a miss without a cause is reported without one",
        "a run with a large error needs no target of its group",
        "only runs of high confidence count where a target requires it",
        "what is not graded is no miss",
    ],
)
def test_misses_and_causes_are_reported(file, runs, expected):
    """No miss is left out, and an entry that is out of date is visible, so that it is removed."""
    assert entries(file, runs) == expected


def test_a_cause_of_some_runs_explains_their_group_where_they_miss_its_target():
    """Runs within the target of the group are no cause of its error."""
    target = Target(group="b", at_most=0.1)

    assert entries(file_of(target, causes=[cause("b", "*-far")])) == [("b", "*-far", False, True)]
    assert entries(file_of(target, causes=[cause("b", "b-1")])) == [
        ("b", "b-1", True, True),
        ("b", False, False),
        ("b", "b-far", False, False),
    ]


def test_targets_for_all_runs_need_all_of_them():
    """Some groups do not decide a target for all; a cause for all explains no group."""
    target = Target(group="all", figure="median", at_most=0.01, confidence="high")
    entry = file_of(target, causes=[cause("all")])

    assert entries(entry, RUNS[:2]) == []
    assert entries(entry, all_cases=True) == [("all", False, True), ("b", "b-far", False, False)]


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ({"group": "a"}, "needs either 'at_most' or 'at_least', and not both"),
        ({"group": "a", "at_most": 1, "at_least": 0}, "needs either 'at_most' or 'at_least'"),
        ({"group": "a", "at_most": 0.1, "figure": "mode"}, "figure"),
        ({"group": "a", "at_most": 0.1, "tolerance": 1}, "tolerance"),
    ],
)
def test_an_invalid_target_is_rejected(target, problem):
    """A mistake in the file is one line with its place."""
    data = {"kind": "missed_targets", "targets": [target], "causes": [NOTHING.model_dump()]}

    with pytest.raises(CatalogError, match=problem):
        checked(TargetsFile, Tree(data, {(): Place("file")}), CatalogError)


# --- what is shipped --------------------------------------------------------------------------


def test_every_pattern_of_the_shipped_file_finds_a_case():
    """A target or a cause without cases would be kept for ever."""
    cases = [
        Outcome(entry.id, entry.group)
        for entry in read_entries(shipped("validation") / "cases.yaml")
    ]
    file = read_targets()

    for entry in [*file.targets, *file.causes]:
        assert entry.select(cases), entry
        for pattern in entry.cases:
            assert any(matches(pattern, case.id) for case in entry.select(cases)), (
                entry.group,
                pattern,
            )


def test_the_page_has_no_entry_out_of_date_and_no_miss_without_a_cause():
    """Their cells are not on the page, which has an entry for each miss and each cause."""
    page = PAGE.read_text()

    assert REACHED not in page
    assert f"| {UNEXPLAINED} |" not in page


# --- the answer -------------------------------------------------------------------------------


def test_a_row_has_the_target_and_the_figure():
    """Bounds are printed in the unit of their figure, and runs with a large error are counted."""
    targets = [Target(group="b", at_most=0.1), Target(group="a", figure="p90", at_most=0.1)]
    found = explained_misses(
        file_of(*targets, causes=[cause("b"), cause("a")]), RUNS, all_cases=False
    )
    rows = list(missed_rows(found))

    assert rows[0][:5] == ("b", "2", "22.0 %", "40.0 % b-far",
                           "mean at most 10.0 %, is 22.0 %; 1 run more than 25 % off")  # fmt: skip
    assert rows[1][4] == "p90 at most 10.0 %, is 11.0 %"


def test_selected_groups_show_only_their_own_entries(capsys):
    """`--group` of one that misses prints its cause and its error."""
    main(["--group", "xmoe-frontier", "--jobs", "1"])
    shown = capsys.readouterr().out
    section = shown.split("## Missed accuracy targets")[1].split("\n## ")[0]

    assert "| xmoe-frontier | 2 |" in section
    assert section.count("\n| ") == 3
