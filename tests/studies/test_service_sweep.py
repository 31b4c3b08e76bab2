"""Sweeps of services: ranked within limits, with the reason of every other combination."""

import json

import pytest

import clustersim
from clustersim.cli import main
from clustersim.errors import ScenarioError

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
