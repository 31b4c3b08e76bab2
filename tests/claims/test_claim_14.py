"""Claim 14: which microbatch is best."""

import pytest

from clustersim.simulation.simulate import simulate
from clustersim.validation.claims.megatron import NINETY_ONE, ROW, WIDE
from clustersim.validation.claims.verdicts import judge


def test_the_claim_holds():
    """Microbatches of 2 are best or within 3 %; one device gains up to 1.3 times, within 10 %."""
    verdict = judge(14)

    assert verdict.holds, dict(verdict.predicted)


@pytest.mark.parametrize("batch", [128, 512])
def test_larger_microbatches_compute_faster_and_wait_longer(batch):
    """From 1 to 8 sequences products and passes become shorter, the bubble longer."""
    found = [
        simulate(ROW, [*WIDE, *NINETY_ONE, f"batch.micro={micro}", f"batch.global={batch}"])
        for micro in (1, 2, 4, 8)
    ]
    computing = [each.attribution["matmul"] + each.attribution["memory_bound"] for each in found]
    waiting = [each.attribution["bubble_fill"] for each in found]

    assert computing == sorted(computing, reverse=True)
    assert waiting == sorted(waiting)
