"""Claim 27: offload lets the batch double, and ends about level."""

import pytest

from clustersim.scenario.load import load
from clustersim.simulation.simulate import simulate
from clustersim.validation.claims.verdicts import judge

YI = ["model=yi-34b", "batch.global=8", "batch.micro=4"]


def test_the_claim_holds():
    """5,041 and 4,830 s to 25 %, and within 10 % of each other."""
    verdict = judge(27)

    assert verdict.holds, dict(verdict.predicted)


@pytest.mark.parametrize("cards", ["qlora-70b-2x3090", "qlora-70b-2x4090"])
def test_offload_makes_room_for_twice_the_batch(cards):
    """Two sequences a card fit without offload and four do not; with offload four do."""
    at_home = ["offload.parameters=false", "batch.micro=2", "batch.global=4"]

    assert simulate(load(cards, [*YI, *at_home])).memory.fits
    assert not simulate(load(cards, [*YI, "offload.parameters=false"])).memory.fits
    assert simulate(load(cards, YI)).memory.fits
