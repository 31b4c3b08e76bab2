"""The shipped scenarios of whole runs, with their published numbers."""

import pytest

from clustersim.catalog.finding import entry_names, find
from clustersim.simulation.training_run.train import train
from descriptions import undescribed

RUNS = [name for name in entry_names("scenario") if "training" in find("scenario", name).data]

ERRORS = {
    "useful_days": 0.05, "days": 0.05, "interruptions": 0.02, "checkpoint_bytes": 0.03,
    "save_s": 0.03,
}  # fmt: skip
"""Largest error of each published metric; bounds hold."""


@pytest.mark.parametrize("name", RUNS)
def test_published_numbers_of_whole_runs_are_met(name):
    """Days, interruptions and checkpoints are within their errors, bounds hold, the step fits."""
    answer = train(name, ["training.replications=100"])

    assert len(RUNS) >= 6
    assert answer.fits
    assert undescribed(answer, "train") == []
    assert answer.accounting.elapsed == pytest.approx(86_400 * answer.days, rel=1e-9)
    for check in answer.published:
        assert check.holds is not False
        if check.error is not None:
            assert abs(check.error) < ERRORS[check.metric]


@pytest.mark.large
def test_llama_3_needs_short_saves_and_restarts():
    """Above 90 % with asynchronous saves; below with saves that block for a minute."""
    settings = ["training.replications=40"]
    slow = ["training.checkpoint.block=60 s", "training.checkpoint.durable=60 s"]
    base, saves, restarts = (
        train("llama3-405b-54-days", [*settings, *more]).goodput
        for more in ([], slow, ["training.restart.scheduling=20 min"])
    )

    assert base > 0.9 > max(saves, restarts)
