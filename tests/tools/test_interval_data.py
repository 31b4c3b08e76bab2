"""The data of prediction intervals: what is evidence, and how the file is updated."""

from dataclasses import replace
from itertools import pairwise
from statistics import fmean, median

import pytest

from clustersim.catalog.finding import entry_names, shipped
from clustersim.errors import CatalogError
from clustersim.evidence import IntervalFile, shipped_interval_data
from clustersim.metrics.prediction_interval import ErrorsByNearness
from clustersim.validation.answer import case_entries
from clustersim.validation.case_runs import run_cases, select_groups
from clustersim.validation.cases.rows import read_entries
from clustersim.validation.grading import Grade
from measured_runs import SMALL, outcome, runs_of
from tools.interval_data import (
    evidence_of,
    interval_data,
    interval_file,
    measured_peaks,
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
        kind="prediction_intervals", version="1.0.0", runs=tuple(runs_of(*sources)), peaks=[]
    )


def test_only_graded_steps_that_were_read_are_evidence():
    """Recalled numbers are no evidence of errors, and layers and memory have no step time."""
    layer = replace(outcome(3.0), accelerator=None, traits=None)
    memory = replace(outcome(4.0), grade=Grade("memory_gb_per_gpu", None, 1.0, 4.0, 3.0, None))
    cases = [outcome(1.25), outcome(2.0, confidence="low"), layer, memory]
    (found,) = evidence_of(cases)
    (peak,) = measured_peaks([PEAK, replace(PEAK, confidence="low"), *cases])

    assert (found.source, found.accelerator, found.nodes) == ("new", "chip", 1)
    assert found.ratio == pytest.approx(1.25)
    assert (peak.source, peak.accelerator, peak.framework) == ("new", "chip", "nanotron")
    assert peak.ratios == pytest.approx((1.1,))


def test_new_runs_of_a_case_replace_its_earlier_ones(tmp_path):
    """A file is updated case by case."""
    file = tmp_path / "intervals.yaml"
    assert read_interval_data(file).runs == ()
    write_interval_data(file, data_of([1.5, 0.75], [1.25]))
    found = [replace(outcome(2.0, source="1", nodes=4), id="1-0"), PEAK]
    write_interval_data(file, interval_data(found, read_interval_data(file)))
    written = read_interval_data(file)

    assert [(run.source, run.nodes, run.ratio) for run in written.runs] == [
        ("0", 1, 1.5),
        ("0", 1, 0.75),
        ("1", 4, 2.0),
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
    """It was not edited: its runs and machines are those of the cases, in order."""
    data = shipped_interval_data()
    text = (shipped("validation") / "prediction_intervals.yaml").read_text(encoding="utf-8")
    cases = {entry.id for entry in case_entries()}
    keys = [(run.source, run.run, run.metric) for run in data.runs]

    assert text == interval_file(data)
    assert all(one < other for one, other in pairwise(keys))
    assert {run.run for run in data.runs} <= cases
    assert {peak.accelerator for peak in data.peaks} <= set(entry_names("accelerator"))
    assert {peak.framework for peak in data.peaks} <= set(entry_names("framework"))
    assert {run.accelerator for run in data.runs} <= set(entry_names("accelerator"))
    assert {run.machine for run in data.runs} <= set(entry_names("cluster"))
    software = {*entry_names("framework"), *entry_names("engine")}
    assert {run.software for run in data.runs} <= software


def coverage_by(runs):
    """Return the coverage of runs without their sources, and its widths."""
    errors = ErrorsByNearness(runs)
    found = {}
    for source in sorted({run.source for run in runs}):
        others = errors.without(source)
        for run in (run for run in runs if run.source == source):
            reach = others.reach(run, run.metric)
            if reach.above is not None:
                inside = 1 / reach.below <= run.ratio <= reach.above
                found.setdefault(run.accelerator, []).append((inside, reach.above * reach.below))
    return found


@pytest.mark.parametrize("services", [False, True])
def test_the_shipped_intervals_hold_nine_in_ten_of_runs_they_have_not_seen(services):
    """Each source left out, 87 to 93 % of all fall inside, on each accelerator at least 80 %."""
    known = shipped_interval_data().runs
    found = coverage_by([run for run in known if (run.metric != "step_time") == services])
    inside = [each for of in found.values() for each, _ in of]

    assert 0.87 <= fmean(inside) <= 0.93
    for accelerator, of in found.items():
        if len(of) >= 20:
            assert fmean(each for each, _ in of) >= 0.8, accelerator


@pytest.mark.large
@pytest.mark.parametrize(("accelerator", "width"), [("h100-sxm", 2.02), ("a100-80gb", 1.415)])
def test_intervals_are_no_wider_than_those_of_one_accelerator_and_size(accelerator, width):
    """The median of upper over lower ends, each source left out."""
    runs = [run for run in shipped_interval_data().runs if run.metric == "step_time"]

    assert median(ends for _, ends in coverage_by(runs)[accelerator]) <= width


STEADY = ("fsdpqlora-4090", "mosaicml-a100-80g", "mosaicml-h100-fp8")
"""Groups that are run again here: three accelerators in a few seconds."""


def test_the_shipped_file_is_in_step_with_the_predictions():
    """A sample of it changes by less than 2 % when it is rewritten; else: make validation."""
    now = run_cases(select_groups(read_entries(CASES), STEADY))
    data = shipped_interval_data()
    kept = {(r.source, r.run): (r.ratio,) for r in data.runs if r.source in STEADY}
    kept |= {(r.source, r.framework): r.ratios for r in data.peaks if r.source in STEADY}
    found = {(r.source, r.run): (r.ratio,) for r in evidence_of(now)}
    found |= {(r.source, r.framework): r.ratios for r in measured_peaks(now)}

    assert found.keys() == kept.keys()
    for key, measured in found.items():
        assert measured == pytest.approx(kept[key], rel=0.02), key
