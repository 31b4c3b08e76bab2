"""Prediction intervals of the validation: their data, and how often they hold."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings

from clustersim import __version__
from clustersim.answers import to_json
from clustersim.catalog.finding import entry_names, shipped
from clustersim.cli.validate import validate as command
from clustersim.errors import CatalogError
from clustersim.metrics.prediction_interval import MeasuredRuns, shipped_interval_data, to_text
from clustersim.validation.answer import validation_of
from clustersim.validation.case_runs import run_cases, select_groups
from clustersim.validation.cases.rows import read_entries
from clustersim.validation.grading import Grade
from clustersim.validation.intervals import (
    coverage_of,
    measured_runs,
    read_interval_data,
    updated_runs,
    write_interval_data,
)
from clustersim.validation.outcome import Outcome
from clustersim.validation.result_tables import coverage_line, coverage_rows
from measured_runs import evidence, ratios, runs_of

laws = settings(max_examples=20, deadline=None)

SMALL = Path(__file__).parents[1] / "data" / "cases_small.yaml"
CASES = shipped("validation") / "cases.yaml"


def outcome(ratio, source="new", accelerator="chip", nodes=1, confidence="high"):
    """Return a graded step that took `ratio` times as long as predicted."""
    error = 1 / ratio - 1
    graded = Grade("step_time_s", None, ratio, 1.0, error, error)
    return Outcome(
        f"{source}-{ratio}",
        source,
        grade=graded,
        accelerator=accelerator,
        nodes=nodes,
        confidence=confidence,
    )


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
    assert list(coverage_rows(SimpleNamespace(coverage=coverage_of(cases, seen)))) == [
        ("far", "0", "0", "", "1"),
        ("new", "3", "2", "66.7 %", "0"),
        ("chip", "3", "2", "66.7 %", "0"),
        ("unknown", "0", "0", "", "1"),
        ("all", "3", "2", "66.7 %", "1"),
    ]
    assert validation_of(cases, interval_data=seen).coverage == coverage_of(cases, seen)


def test_nothing_graded_has_no_coverage():
    """Without a case there is a line without a share."""
    line = coverage_line(coverage_of([], []))

    assert line == "No prediction interval for 0 measured runs."


# --- the file -------------------------------------------------------------------------------------


def test_only_graded_steps_of_high_confidence_are_evidence():
    """Recalled numbers are no evidence of errors, and layers and memory have no step time."""
    layer = replace(outcome(3.0), accelerator=None, nodes=None)
    memory = replace(outcome(4.0), grade=Grade("memory_gb_per_gpu", None, 1.0, 4.0, 3.0, None))
    cases = [outcome(1.25), outcome(2.0, confidence="low"), layer, memory]
    (found,) = measured_runs(cases)

    assert (found.source, found.accelerator, found.nodes) == ("new", "chip", "one")
    assert found.ratios == pytest.approx((1.25,))


def test_new_runs_of_a_group_replace_its_earlier_ones(tmp_path):
    """A file is updated group by group."""
    file = tmp_path / "intervals.yaml"
    assert read_interval_data(file) == []
    write_interval_data(file, runs_of([1.5, 0.75], [1.25] * 30))
    updated = updated_runs(read_interval_data(file), [outcome(2.0, source="1", nodes=4)])
    write_interval_data(file, updated)

    assert [(run.source, run.nodes, run.ratios) for run in read_interval_data(file)] == [
        ("0", "one", (1.5, 0.75)),
        ("1", "several", (2.0,)),
    ]


def test_another_file_is_not_overwritten(tmp_path):
    """A path with something else is rejected, in a line for each problem, before anything runs."""
    file = tmp_path / "notes.yaml"
    file.write_text("kind: notes\n")

    with pytest.raises(CatalogError, match=r"notes\.yaml:1: kind: "):
        read_interval_data(file)


def test_the_command_updates_a_file_and_judges_by_it(tmp_path, capsys):
    """`--intervals` writes the runs of this validation, keeps those of other groups of the file."""
    file = tmp_path / "intervals.yaml"
    write_interval_data(file, runs_of(*[[1.1]] * 20))
    command(cases=SMALL, group=["small"], jobs=1, intervals=file, json_output=True)
    answer = json.loads(capsys.readouterr().out)
    kept = [run for run in read_interval_data(file) if run.accelerator == "chip"]

    assert kept == sorted(runs_of(*[[1.1]] * 20), key=lambda run: run.source)
    assert answer["coverage"]["all"]["count"] + answer["coverage"]["all"]["without"] > 0


def test_the_shipped_file_is_as_it_is_written():
    """It was not edited: its groups, machines and counts are those of the cases, in order."""
    runs = shipped_interval_data()
    text = (shipped("validation") / "prediction_intervals.yaml").read_text(encoding="utf-8")
    cases = [entry.group for entry in read_entries(CASES)]
    keys = [(run.source, run.accelerator, run.nodes) for run in runs]

    assert text == to_text(runs, __version__)
    assert all(one < other for one, other in pairwise(keys))
    assert {run.accelerator for run in runs} <= set(entry_names("accelerator"))
    for source in {run.source for run in runs}:
        rows = sum(len(run.ratios) for run in runs if run.source == source)
        assert rows <= cases.count(source), source


def test_the_shipped_intervals_hold_nine_in_ten_of_runs_they_have_not_seen():
    """Each source left out in turn, 85 to 97 % of all runs fall inside."""
    runs = shipped_interval_data()
    nodes = {"one": 1, "several": 2}
    cases = [
        outcome(ratio, run.source, run.accelerator, nodes[run.nodes])
        for run in runs
        for ratio in run.ratios
    ]

    assert 0.85 <= coverage_of(cases, runs).all.share <= 0.97


STEADY = ("fsdpqlora-4090", "mosaicml-a100-80g", "mosaicml-h100-fp8")
"""Groups that are run again here: three accelerators in a few seconds."""


def test_the_shipped_file_is_in_step_with_the_predictions():
    """A sample of it changes by less than 2 % when it is rewritten; else: make validation."""
    now = run_cases(select_groups(read_entries(CASES), STEADY))
    kept = {(r.source, r.nodes): r.ratios for r in shipped_interval_data() if r.source in STEADY}
    found = {(r.source, r.nodes): r.ratios for r in measured_runs(now)}

    assert found.keys() == kept.keys()
    for key, measured in found.items():
        assert measured == pytest.approx(kept[key], rel=0.02), key
