"""Sweeps of services: ranked within limits, with the reason of every other combination."""

import json

import pytest
from clustersim.simulation.service.measures import RATE, SPEED, service_front
from clustersim.studies.service_sweep.charts import services_chart

import clustersim
from clustersim.cli import main
from clustersim.errors import ScenarioError
from clustersim.runs.cache_key import key_of
from clustersim.scenario.load import load_service
from clustersim.studies.study.answer import stored_runs
from clustersim.studies.study.text import runs_table

NAME = "llama3-70b-h100-serving"
SMALL = {"load.requests": 16}
OVER = {"plan.tensor": [1, 3, 4, 8], "load.concurrency": [4, 32]}


def test_the_best_service_meets_the_limits_and_has_the_highest_rate():
    """Each combination has a verdict; the best is the first of those within the limits."""
    found = clustersim.sweep_services(NAME, OVER, limits={"tpot": 0.014}, settings=SMALL, jobs=1)
    verdicts = [point.verdict for point in found.points]
    rates = [found.points[i].measures["tokens_per_s_per_device"] for i in found.ranked]

    assert verdicts[:4] == ["does not fit"] * 2 + ["invalid"] * 2
    assert all(found.points[i].measures["tpot"] <= 0.014 for i in found.ranked)
    assert rates == sorted(rates, reverse=True)
    assert found.best == found.ranked[0]
    assert "divide the 64 attention heads" in found.points[2].why


def test_limits_that_nothing_meets_are_a_verdict(capsys, tmp_path, monkeypatch):
    """The first line states by how much the first combination misses the limit."""
    monkeypatch.chdir(tmp_path)
    words = ["--over", "plan.tensor=8", "--limit", "tpot=1ms", "--set", "load.requests=8"]
    with pytest.raises(SystemExit):
        main(["sweep", NAME, *words])
    line = capsys.readouterr().out.splitlines()[1]

    assert line.startswith("best          no combination meets the limits; tensor 8: tpot")
    assert "times the limit" in line
    assert (tmp_path / "runs" / f"{NAME}-sweep" / "sweep.csv").exists()


def test_a_sweep_prints_one_object(capsys):
    """`--json` has the points with their measures."""
    words = ["--over", "plan.tensor=8", "--set", "load.requests=8", "--json", "--by", "ttft"]
    with pytest.raises(SystemExit):
        main(["sweep", NAME, *words])
    found = json.loads(capsys.readouterr().out)

    assert found["by"] == "ttft"
    assert found["points"][0]["measures"]["ttft"] > 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"by": "mfu"}, "--by mfu: unknown measure"),
        ({"limits": ["tpt=1 ms"]}, "--limit tpt=1 ms: unknown time (did you mean 'tpot'?)"),
        ({"limits": ["tpot=0 s"]}, "--limit tpot=0 s: must be greater than 0"),
        ({"limits": ["tpot=5"]}, "--limit tpot=5: "),
    ],
)
def test_a_wrong_measure_or_limit_is_one_line(arguments, complaint):
    """The line names the option, its value and what is allowed."""
    with pytest.raises(ScenarioError) as caught:
        clustersim.sweep_services(NAME, OVER, **arguments)

    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([NAME, "--over", "plan.tensor=8", "--pareto", "memory"], "--pareto: has no effect on a"),
        (
            ["frontier-22b", "--over", "plan.zero=1", "--limit", "tpot=1ms"],
            "--limit: has no effect",
        ),
    ],
)
def test_an_option_of_the_other_kind_is_rejected(capsys, words, complaint):
    """No option is without effect."""
    with pytest.raises(SystemExit) as caught:
        main(["sweep", *words])

    assert caught.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_service_in_the_run_cache_is_not_simulated_again(tmp_path):
    """The second sweep has the answers of the first one, wall time included."""
    over, store = {"plan.tensor": [4, 8]}, tmp_path / "studies.db"
    settings = SMALL | {"load.concurrency": 4}
    first = clustersim.sweep_services(NAME, over, settings=settings, store=store, jobs=1)
    counts = []
    again = clustersim.sweep_services(
        NAME, over, settings=settings, store=store, jobs=1,
        on_progress=lambda completed, total: counts.append((completed, total)),
    )  # fmt: skip
    stored = stored_runs(store)

    assert again == first
    assert counts == [(0, 2), (0, 2), (2, 2)]
    assert [point["ttft"] for point in stored.points] == [p.measures["ttft"] for p in first.points]
    assert runs_table(stored.points)[0][-4:] == [
        "first token", "each token", "tokens/s", "per device",
    ]  # fmt: skip


def test_a_trace_that_changed_is_another_run(tmp_path):
    """The key of a run has the bytes of its trace."""
    trace = tmp_path / "trace.csv"
    load = {"load": {"trace": str(trace)}, "plan.tensor": 8}
    keys = []
    for output in (8, 9):
        trace.write_text(f"arrival,input,output\n0,100,{output}\n")
        keys.append(key_of(load_service(NAME, load)))

    assert keys[0] != keys[1]


def test_no_combination_on_the_front_is_beaten_in_both():
    """The front falls from the cheapest device to the fastest user."""
    found = clustersim.sweep_services(NAME, OVER, settings=SMALL, jobs=1)
    ran = [point for point in found.points if point.measures]
    front = [(p.measures[SPEED], p.measures[RATE]) for p in service_front(ran)]

    assert front == sorted(front)
    assert [rate for _, rate in front] == sorted((rate for _, rate in front), reverse=True)
    assert services_chart(found).rows()
