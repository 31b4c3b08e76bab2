"""Claim 13: tensor groups fill a node, and stages join the nodes."""

import pytest

from clustersim.simulation.simulate import simulate
from clustersim.validation.claims.megatron import ROW, WIDE
from clustersim.validation.claims.verdicts import judge


def step(tensor, batch):
    shape = [f"plan.tensor={tensor}", f"plan.pipeline={64 // tensor}"]
    return simulate(ROW, [*WIDE, "batch.micro=1", *shape, f"batch.global={batch}"])


def test_at_the_small_batch_the_claim_holds():
    """At a batch of 32 a tensor degree of 8 is the fastest of five."""
    verdict = judge(13)

    assert verdict.predicted["tensor degree at 32"] == 8


def test_at_the_large_batch_it_is_level_with_the_best():
    """At a batch of 128 a degree of 8 should be the fastest; 4 is, by less than 1 %.

    The claim wants 8. What 8 loses there is the sum over twice the ranks, what it gains the bubble.
    """
    four, eight = (step(tensor, 128) for tensor in (4, 8))
    lost = eight.attribution["tensor_communication"] - four.attribution["tensor_communication"]

    assert eight.step_time < 1.01 * four.step_time
    assert 0 < lost < four.bubble - eight.bubble


@pytest.mark.parametrize("batch", [32, 128])
def test_groups_over_two_nodes_and_pipelines_without_groups_lose(batch):
    """Degrees of 16 and more cross nodes at every sum, and one of 2 has the longest pipeline."""
    taken = {tensor: step(tensor, batch).step_time for tensor in (2, 8, 16, 32)}

    assert taken[8] < min(taken[2], taken[16])
    assert taken[32] > 1.2 * taken[16]
