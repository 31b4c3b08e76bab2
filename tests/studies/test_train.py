"""The verb `train`: its lines, its JSON, its files."""

import json

import pytest

from clustersim.cli import main

KEYS = (
    "days", "goodput", "interruptions", "accounting", "checkpoint", "energy_kwh", "power_w", "cost",
    "co2e_kg", "replications", "wall_s",
)  # fmt: skip


def call(*words):
    with pytest.raises(SystemExit) as ending:
        main([*words])
    return ending.value.code


FAST = ["--set", "training.replications=50"]


def test_json_has_its_documented_keys(capsys):
    """One object with the keys that scripts read; parts of the time add up."""
    assert call("train", "megatron-1t-84-days", "--json", *FAST) == 0
    answer = json.loads(capsys.readouterr().out)

    assert answer.keys() >= {*KEYS}
    assert [*answer["accounting"]] == [
        "useful", "lost", "saving", "restarting", "waiting", "planned",
    ]  # fmt: skip
    assert sum(answer["accounting"].values()) == pytest.approx(86_400 * answer["days"])
    assert {"bytes", "block_s", "durable_s", "every_s"} <= answer["checkpoint"].keys()
    for key in ("energy_kwh", "power_w", "cost", "co2e_kg"):
        assert answer[key] is not None or answer["unavailable"][key]


def test_the_folder_has_a_page_and_the_data_of_its_charts(capsys, tmp_path):
    """The page is written with each chart's table; figures only on request."""
    place = tmp_path / "out"
    assert call("train", "megatron-1t-84-days", "--out", str(place), "--figures", "svg", *FAST) == 0
    names = {file.name for file in place.iterdir()}
    printed = capsys.readouterr().out

    assert {"report.html", "summary.json", "intervals.csv", "calendar.csv", "sizes.svg"} <= names
    assert "interval" in printed
    assert "within 0.1 point" in printed
    assert len(printed.splitlines()) <= 16


def test_low_goodput_has_its_reason(capsys, tmp_path):
    """Restarts longer than the time between failures are named as the reason."""
    scheduling = ["--set", "training.restart.scheduling=1 d"]
    place = str(tmp_path / "out")

    assert call("train", "megatron-1t-84-days", "--out", place, *FAST, *scheduling) == 0
    assert "tends to zero" in capsys.readouterr().out


def test_a_scenario_without_a_run_ends_with_exit_code_2(capsys):
    """One line names the missing section."""
    assert call("train", "megatron21-t1-1t", "--json") == 2
    assert capsys.readouterr().err.count("\n") == 1
