"""Claim 26: a 70B model is fine-tuned on two cards of 24 GB, if its weights are in host memory."""

import pytest

from clustersim.simulation.simulate import simulate
from clustersim.validation.claims.verdicts import judge

CARDS = ("qlora-70b-2x3090", "qlora-70b-2x4090")


def test_the_claim_holds():
    """A peak of 14.92 GiB to 15 %, and more than the 24 GiB of a card without offload."""
    verdict = judge(26)

    assert verdict.holds, dict(verdict.predicted)


@pytest.mark.parametrize("name", CARDS)
def test_two_cards_hold_it_with_offload(name):
    """Card and host memory are enough, and what was published is met: memory 15 %, time 25 %."""
    result = simulate(name)
    errors = {check.metric: abs(check.error) for check in result.published}

    assert result.memory.fits
    assert errors["memory_bytes"] < 0.15
    assert errors["step_time_s"] < 0.25


def test_two_cards_do_not_hold_it_without():
    """Some 17.5 GB of weights of 4 bits on each card leave too little, which the verdict says."""
    memory = simulate("qlora-70b-no-offload").memory

    assert not memory.fits
    assert memory.reason.startswith("does not fit")
    assert 17.0 < memory.fullest.parts["quantised_base"] / 1e9 < 19.5
