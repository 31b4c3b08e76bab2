"""Claim 1: what the training states of GPT-3 take."""

import pytest

from clustersim.simulation.simulate import simulate
from clustersim.validation.claims.verdicts import judge


def test_the_states_of_gpt3_are_2_79_tb_and_fill_35_cards_of_80_gb():
    """16 bytes for each of 175 billion parameters are 2.79 TB, within 1 %."""
    verdict = judge(1)

    assert verdict.holds, dict(verdict.predicted)


def test_the_ranks_of_one_replica_hold_them_together():
    """All ranks of a run of one replica hold 2.79 TB, within 1 %: the tied embedding twice."""
    one = ["plan.data=1", "cluster.nodes=8", "batch.global=320"]
    held = simulate("frontier-175b", one).memory.state_bytes

    assert held == pytest.approx(2.79e12, rel=0.01)
