"""Any percentile of the times of a service is a measure, in every verb that takes one."""

import json
from functools import cache

import numpy as np
import pytest

import clustersim
from clustersim.errors import ScenarioError
from clustersim.reports.service.files import files_of
from clustersim.reports.service.text import times_table
from clustersim.simulation.limits import read_limits
from clustersim.simulation.measures import check_measure, measures_of
from commands import ending

SERVICE = measures_of(["service"])

SMALL = {
    "title": "Llama 8B on two H100",
    "cluster": {"name": "dgx-h100", "nodes": 1},
    "model": "llama3-8b",
    "precision": "fp8",
    "engine": "vllm",
    "plan": {"tensor": 1, "replicas": 2},
    "load": {"rate": 20, "input": 512, "output": 32},
}

FEW = {**SMALL, "load": {"concurrency": 8, "requests": 40, "input": 512, "output": 8}}
AXIS = {"load.concurrency": [4, 8]}

PERCENTILES = ["p1", "p37", "p50", "p97.5", "p99.9"]
NAMES = [
    f"{time}_{percentile}" for time in ("ttft", "tpot", "latency") for percentile in PERCENTILES
]
ANY = pytest.mark.parametrize("name", NAMES)


@cache
def served():
    percents = [float(name[1:]) for name in PERCENTILES]
    return clustersim.serve(SMALL, {"percentiles": percents}, loads=[10, 20])


@pytest.mark.large
@ANY
def test_a_percentile_that_no_answer_had_is_a_measure(name):
    """`--limit ttft_p37=2s` was an unknown measure: it is that of the requests of the answer."""
    result, measure = served(), check_measure("--by", name, ["service"], "a")
    time, _, percentile = name.rpartition("_")
    frame = result.frame
    times = {
        "ttft": frame["first"] - frame["arrival"],
        "latency": frame["finish"] - frame["arrival"],
        "tpot": (frame["finish"] - frame["first"]) / (frame["output"] - 1),
    }
    expected = np.percentile(times[time], float(percentile[1:]))
    statistics = getattr(result.answer, f"{time}_s")

    assert measure == SERVICE[name]
    assert measure.label.endswith(f", {percentile}")
    assert measure.more_is_better is False
    assert result.answer.measures()[name] == pytest.approx(expected)
    low, high = statistics.intervals[percentile]
    assert low <= statistics.by_name[percentile] <= high
    assert read_limits([f"{name}=2 s"], ["service"], "a") == {name: 2.0}


@pytest.mark.large
@pytest.mark.parametrize("name", ["ttft_p37", "tpot_p99.9"])
def test_any_percentile_limits_and_ranks_a_study(name):
    """`sweep --limit`, `--by`; `whatif --by`; `compare --by`; `search --limit`, `--objective`."""
    swept = clustersim.sweep(FEW, over=AXIS, limits=[f"{name}=1 h"], by=name, jobs=1)
    found = clustersim.search(
        FEW, objective=name, limits=[f"{name}=1 h"], settings=["pools=false"], top=1, jobs=1
    )
    change = clustersim.whatif(FEW, settings={"load.concurrency": 4}, by=name, jobs=1)
    pair = clustersim.compare([FEW, FEW], by=name, jobs=1)

    assert [row[name] for row in swept.fitting] == sorted(row[name] for row in swept.points)
    assert found.by == name
    assert found.best.measures()[name] > 0
    assert change.changes[0].gain is not None
    assert pair.comparisons[0].gain == 1


def test_a_sweep_within_a_percentile_leaves_out_what_misses_it():
    rows = clustersim.sweep(FEW, over=AXIS, by="ttft_p37", jobs=1).points
    best, worst = sorted(row["ttft_p37"] for row in rows)
    limit = {"ttft_p37": (best + worst) / 2}
    swept = clustersim.sweep(FEW, over=AXIS, limits=limit, jobs=1)

    assert (swept.counts.fits, swept.counts.misses) == (1, 1)
    assert swept.fitting[0]["ttft_p37"] == best


def test_an_expectation_of_any_percentile_is_compared():
    """`expect: {ttft_p99.9: "< 2 s"}`: the answer has it, and whether it is held."""
    stated = clustersim.serve({**FEW, "expect": {"ttft_p99.9": "< 2 s"}}).answer
    changed = clustersim.serve(FEW, {"expect": {"tpot_p12.5": "< 1 ns"}}).answer

    assert stated.expectations[0].value == stated.ttft_s.percentiles["p99.9"]
    assert [line.held for line in (*stated.expectations, *changed.expectations)] == [True, False]


def test_reports_have_the_named_percentiles():
    """The line of a time, the table and the chart over the load, and the columns of its file."""
    result = served()
    files = files_of(result)
    [head, *_] = files.tables["load.csv"]
    chart = files.figures["load"][0]

    assert times_table(result.curve)[0][2:] == [
        "mean", "1 %", "37 %", "50 %", "90 %", "97.5 %", "99 %", "99.9 %"
    ]  # fmt: skip
    assert {"ttft_p99.9", "latency_p37_low"} <= {*head}
    assert "1, 37, 50, 90, 97.5 and 99.9 % of requests" in chart.note


def test_a_limit_needs_no_key_in_the_file(tmp_path, capsys):
    """The command line: the answer of a sweep has the percentile of its limit in each row."""
    file = tmp_path / "service.json"
    file.write_text(json.dumps(FEW))
    words = ["--over=load.concurrency=4,8", "--limit=ttft_p99.9=2s", "--json", "--jobs=1"]
    code, out, _ = ending(capsys, "sweep", str(file), *words, f"--store={tmp_path / 'runs.db'}")
    answer = json.loads(out)

    assert code == 0
    assert answer["limits"] == {"ttft_p99.9": 2.0}
    assert all(row["ttft_p99.9"] >= row["ttft_p99"] > 0 for row in answer["points"])


@pytest.mark.parametrize("number", ["0", "100", "100.5", "abc", "", "99.95", "-1", "nan"])
def test_what_is_no_percentile_is_one_line(number):
    wrong = (
        rf"^--limit ttft_p{number}: '{number}' is no percentile \(greater than 0 and less [^\n]+\)$"
    )
    with pytest.raises(ScenarioError, match=wrong):
        check_measure("--limit", f"ttft_p{number}", ["service"], "a")


@pytest.mark.parametrize("percent", [0, 100.5, 99.95])
def test_a_key_that_is_no_percentile_is_one_line(percent):
    with pytest.raises(ScenarioError, match=rf"percentiles\[0\]: {percent} is no percentile"):
        clustersim.serve({**SMALL, "percentiles": [percent]})
