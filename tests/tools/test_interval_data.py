"""The data of prediction intervals: what is evidence, and how the file is updated."""

from dataclasses import replace
from itertools import pairwise

import pytest

from clustersim.catalog.finding import entry_names, shipped
from clustersim.errors import CatalogError
from clustersim.evidence import IntervalFile, shipped_interval_data
from clustersim.validation.answer import coverage_of
from clustersim.validation.case_runs import run_cases, select_groups
from clustersim.validation.cases.rows import read_entries
from clustersim.validation.grading import Grade
from measured_runs import SMALL, outcome, runs_of
from tools.interval_data import (
    interval_data,
    interval_file,
    measured_peaks,
    measured_runs,
    read_interval_data,
    write_interval_data,
)
from tools.validation import validate_repository

CASES = shipped("validation") / "cases.yaml"


PEAK = replace(
    outcome(1.0), grade=None, framework="nanotron", memory_measured=11.0, memory_predicted=10.0
)
"""A measured peak above its prediction."""


def data_of(*sources):
    """Return the data of measured steps of sources."""
    return IntervalFile(
        kind="prediction_intervals", version="1.0.0", runs=runs_of(*sources), peaks=[]
    )


def test_only_graded_steps_of_high_confidence_are_evidence():
    """Recalled numbers are no evidence of errors, and layers and memory have no step time."""
    layer = replace(outcome(3.0), accelerator=None, nodes=None)
    memory = replace(outcome(4.0), grade=Grade("memory_gb_per_gpu", None, 1.0, 4.0, 3.0, None))
    cases = [outcome(1.25), outcome(2.0, confidence="low"), layer, memory]
    (found,) = measured_runs(cases)
    (peak,) = measured_peaks([PEAK, replace(PEAK, confidence="low"), *cases])

    assert (found.source, found.accelerator, found.nodes) == ("new", "chip", "one")
    assert found.ratios == pytest.approx((1.25,))
    assert (peak.source, peak.accelerator, peak.framework) == ("new", "chip", "nanotron")
    assert peak.ratios == pytest.approx((1.1,))


def test_new_runs_of_a_group_replace_its_earlier_ones(tmp_path):
    """A file is updated group by group."""
    file = tmp_path / "intervals.yaml"
    assert read_interval_data(file).runs == []
    write_interval_data(file, data_of([1.5, 0.75], [1.25] * 30))
    found = [outcome(2.0, source="1", nodes=4), PEAK]
    write_interval_data(file, interval_data(found, read_interval_data(file)))
    written = read_interval_data(file)

    assert [(run.source, run.nodes, run.ratios) for run in written.runs] == [
        ("0", "one", (1.5, 0.75)),
        ("1", "several", (2.0,)),
    ]
    assert [(peak.source, peak.ratios) for peak in written.peaks] == [("new", (1.1,))]


def test_another_file_is_not_overwritten(tmp_path):
    """A path with something else is rejected, in a line for each problem, before anything runs."""
    file = tmp_path / "notes.yaml"
    file.write_text("kind: notes\n")

    with pytest.raises(CatalogError, match=r"notes\.yaml:1: kind: "):
        read_interval_data(file)


def test_the_tool_updates_a_file_and_judges_by_it(tmp_path):
    """`--intervals` writes the runs of this validation, keeps those of other groups of the file."""
    file = tmp_path / "intervals.yaml"
    write_interval_data(file, data_of(*[[1.1]] * 20))
    report = validate_repository(SMALL, ["small"], jobs=1, intervals=file)
    kept = [run for run in read_interval_data(file).runs if run.accelerator == "chip"]
    judged = report.validation.coverage.all

    assert kept == sorted(runs_of(*[[1.1]] * 20), key=lambda run: run.source)
    assert judged.count + judged.without > 0


def test_the_shipped_file_is_as_it_is_written():
    """It was not edited: its groups, machines and counts are those of the cases, in order."""
    data = shipped_interval_data()
    runs = data.runs
    text = (shipped("validation") / "prediction_intervals.yaml").read_text(encoding="utf-8")
    cases = [entry.group for entry in read_entries(CASES)]
    keys = [(run.source, run.accelerator, run.nodes) for run in runs]

    assert text == interval_file(data)
    assert {peak.accelerator for peak in data.peaks} <= set(entry_names("accelerator"))
    assert {peak.framework for peak in data.peaks} <= set(entry_names("framework"))
    assert all(one < other for one, other in pairwise(keys))
    assert {run.accelerator for run in runs} <= set(entry_names("accelerator"))
    for source in {run.source for run in runs}:
        rows = sum(len(run.ratios) for run in runs if run.source == source)
        assert rows <= cases.count(source), source


def test_the_shipped_intervals_hold_nine_in_ten_of_runs_they_have_not_seen():
    """Each source left out in turn, 85 to 97 % of all runs fall inside."""
    runs = shipped_interval_data().runs
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
    data = shipped_interval_data()
    kept = {(r.source, r.nodes): r.ratios for r in data.runs if r.source in STEADY}
    kept |= {(r.source, r.framework): r.ratios for r in data.peaks if r.source in STEADY}
    found = {(r.source, r.nodes): r.ratios for r in measured_runs(now)}
    found |= {(r.source, r.framework): r.ratios for r in measured_peaks(now)}

    assert found.keys() == kept.keys()
    for key, measured in found.items():
        assert measured == pytest.approx(kept[key], rel=0.02), key
