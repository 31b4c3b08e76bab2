"""Sweeps of whole runs: ranked by days, goodput, energy and price."""

import pytest

from clustersim.errors import ScenarioError
from clustersim.studies.sweep import sweep
from clustersim.studies.sweep.text import layout_tables, rows

OVER = {"training.checkpoint.every": ["5 min", "31 min", "4 h"]}
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
