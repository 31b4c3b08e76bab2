"""Sweeps of whole runs: ranked by days, goodput, energy and price."""

import pytest

from clustersim.errors import ScenarioError
from clustersim.studies.compare import compare
from clustersim.studies.compare.text import result_rows
from clustersim.studies.sweep import sweep
from clustersim.studies.sweep.text import layout_tables, rows
from clustersim.studies.whatif import whatif
from clustersim.studies.whatif.text import finding, table

OVER = {"training.checkpoint.every": ["5 min", "31 min", "4 h"]}
FEW = "training.replications=100"
FAST = {"training.replications": 100}


def test_a_sweep_over_intervals_ranks_runs_by_their_days():
    """The interval near the optimum is the best; its row has days, goodput, energy and price."""
    answer = sweep("megatron-1t-84-days", over=OVER, by="days", settings=FAST, jobs=1)
    best = answer.fitting[0]
    days = [row["days"] for row in answer.fitting]

    assert best["training.checkpoint.every"] == "31 min"
    assert days == sorted(days)
    assert {"goodput", "energy", "cost"} <= best.keys()
    assert "days" in rows(answer)[2].text
    assert "days" in layout_tables(answer)[0][1][0]


def test_steps_have_no_columns_of_runs():
    """A sweep without a section training has the columns of a step alone."""
    answer = sweep("frontier-22b", over={"batch.micro": [1]}, settings={"batch.global": 16}, jobs=1)

    assert "days" not in answer.points[0]


def test_days_of_a_step_are_rejected():
    """Ranking by days needs a run."""
    with pytest.raises(ScenarioError, match="no section training"):
        sweep("frontier-22b", over={"batch.micro": [1]}, by="days", jobs=1)


def test_intervals_shorter_than_a_drain_are_invalid_combinations():
    """Such a combination is part of the answer, with its reason."""
    settings = {**FAST, "training.checkpoint.mode": "asynchronous"}
    over = {"training.checkpoint.every": ["10 s", "31 min"]}
    answer = sweep("megatron-1t-84-days", over=over, by="goodput", settings=settings, jobs=1)

    assert answer.counts.invalid == 1
    assert "pile up" in answer.invalid[0].why


def test_a_what_if_of_a_run_ranks_changes_by_days():
    """Asynchronous saves change no step and save days of the run."""
    settings = ["training.checkpoint.mode=asynchronous", "training.checkpoint.every=4 h"]
    answer = whatif("megatron-1t-84-days training.replications=100", settings=settings, jobs=1)
    best = answer.changes[0]

    assert best.settings == ("training.checkpoint.mode=asynchronous",)
    assert best.saved_s == 0
    assert best.saved_days > 2
    assert "days of the run" in finding(answer)
    assert "days saved" in table(answer)[0]


def test_a_comparison_of_runs_has_their_days():
    """Days and goodput of both runs are a line of the results."""
    runs = [
        f"megatron-1t-84-days {FEW} training.checkpoint.every={every}" for every in ("1h", "4h")
    ]
    answer = compare(runs, jobs=1)
    lines = {row.label: row.text for row in result_rows(answer.comparisons[0])}

    assert "days" in lines["run"]
    assert "goodput" in lines["run"]
