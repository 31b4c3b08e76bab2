"""Claim 17: what fused kernels gain."""

import pytest

from clustersim.simulation.simulate import simulate
from clustersim.validation.claims.megatron import ROW, TABLE_2, UNFUSED
from clustersim.validation.claims.verdicts import judge


def test_the_claim_holds():
    """175B gains 19 %, 530B 11 %, within 5 points."""
    verdict = judge(17)

    assert verdict.holds, dict(verdict.predicted)


@pytest.mark.parametrize("size", TABLE_2)
def test_all_of_it_is_passes_over_memory(size):
    """Products and collectives take as long as before; what stages do between them shrinks."""
    sizes = [*TABLE_2[size], "batch.micro=1"]
    fused, unfused = (simulate(ROW, [*sizes, *way]).attribution for way in ((), UNFUSED))
    shrunk = {part for part in fused if unfused[part] > 1.01 * fused[part]}

    assert shrunk == {"memory_bound", "bubble_fill", "bubble_drain"}
    assert unfused["memory_bound"] > 1.5 * fused["memory_bound"]
