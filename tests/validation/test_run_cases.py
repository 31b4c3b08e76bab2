"""Published numbers of whole runs: goodput, checkpoints, spares and durations."""

import json

import pytest

from clustersim.catalog.finding import shipped
from clustersim.catalog.reading import read_yaml
from clustersim.validation.answer import validate

FOLDER = shipped("validation")

THIRD = slice(1, None, 3)
"""Every third row."""

SOFTWARE = {
    "pythia-12b": "megatron-lm-2023",
    "starcoderbase-15b": "megatron-lm-2023",
    "nemotron4-15b": "megatron-core",
    "granite3-8b": "megatron-core",
}


@pytest.fixture(scope="module")
def goodput():
    answer = validate(FOLDER / "runs_goodput.yaml", jobs=1)
    return {case.id: case for case in answer.cases}


@pytest.fixture(
    scope="module", params=[THIRD, pytest.param(slice(None), marks=pytest.mark.exhaustive)]
)
def duration(request, tmp_path_factory):
    """The layouts of each row are searched, which takes two seconds."""
    rows = read_yaml(FOLDER / "runs_duration.yaml").data[request.param]
    cases = tmp_path_factory.mktemp("duration") / "cases.yaml"
    cases.write_text(json.dumps(rows))
    return {case.id: case for case in validate(cases, jobs=1).cases}


def test_formula_rows_are_met_within_one_percent(goodput):
    """The six rows of effective training time follow from the first-order formula."""
    rows = [case for case in goodput.values() if case.group == "rsc-formula"]

    assert len(rows) == 6
    assert all(abs(case.error) < 0.01 for case in rows)
    assert all(case.metrics[1].metric == "ettr_published" for case in rows)


def test_series_law_and_spares_are_met(goodput):
    """Projected times between failures within 3 %, the four numbers of spares exactly."""
    assert abs(goodput["rsc1-mttf-16384"].error) < 0.01
    assert abs(goodput["rsc1-mttf-131072"].error) < 0.03
    spares = [case.error for case in goodput.values() if case.metric == "spares_p99"]
    assert spares == [0.0] * 4


def test_bounds_of_runs_hold(goodput):
    """Llama 3 and the large jobs of RSC-1 are above 90 %; interruptions are met."""
    llama = goodput["llama3-405b-54d"]

    assert llama.predicted > llama.measured
    assert llama.error == goodput["rsc1-large-jobs"].error == 0
    assert abs(llama.metrics[1].error) < 0.02


def test_the_checkpoint_of_a_trillion_parameters_is_met(goodput):
    """Bytes and time of the save, within 3 % of the decimal reading of 13.8 TB."""
    case = goodput["megatron-1t"]

    assert [metric.metric for metric in case.metrics] == ["size_tb", "save_s"]
    assert all(abs(metric.error) < 0.03 for metric in case.metrics)


@pytest.mark.large
def test_the_laws_of_durations_hold(goodput, duration):
    """One test, since the layouts of the rows are searched first."""
    rows_that_are_not_graded_have_a_reason(goodput, duration)
    runs_have_the_software_of_their_time(duration)
    predicted_durations_are_lower_bounds(duration)


def rows_that_are_not_graded_have_a_reason(goodput, duration):
    """Inputs of a run, and rows without its machine, are listed with the reason."""
    for case in [*goodput.values(), *duration.values()]:
        assert case.gradable or case.why
        assert "failed" not in (case.why or "")
    assert "input" in goodput["rsc1-rate"].why
    assert "projection" in duration["gpt3-175b-projection"].why


def runs_have_the_software_of_their_time(duration):
    """A run that was published before FlashAttention-2 did not use it; undated ones may have."""
    for name in SOFTWARE.keys() & duration.keys():
        assert duration[name].assumed["framework"].startswith(SOFTWARE[name])


def predicted_durations_are_lower_bounds(duration):
    """No run took less time than its steps in the fastest layout."""
    quality = {row["id"]: row["quality"] for row in read_yaml(FOLDER / "runs_duration.yaml").data}
    graded = [case for case in duration.values() if case.gradable]
    implied = {case.id: case.predicted / case.measured for case in graded}
    best = [share for case, share in implied.items() if quality[case] == "A"]

    assert len(best) > 0.15 * len(duration)
    assert max(implied.values()) <= 1
    assert min(best) > 0.4
    assert sum(share < 0.5 for share in best) <= max(1, len(best) / 6)
    assert not any(case.gates for case in graded)
