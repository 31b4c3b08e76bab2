"""Claim 12: GPipe and 1F1B differ in what they hold, not in how long they take."""

import pytest

from clustersim.simulation.simulate import simulate
from clustersim.validation.claims.megatron import FREE, GPIPE, GPT3, PLAIN, ROW
from clustersim.validation.claims.verdicts import judge


def test_the_claim_holds():
    """Equal steps to the rounding; 48 microbatches are held by GPipe, 12 by 1F1B on 12 stages."""
    verdict = judge(12)

    assert verdict.holds, dict(verdict.predicted)


@pytest.mark.parametrize("batch", [4, 12, 30])
def test_1f1b_holds_no_more_than_there_are_stages(batch):
    """The first stage holds min(p, m) microbatches by 1F1B and m by GPipe, in equal time."""
    sizes = [*GPT3, *FREE, "batch.micro=1", f"batch.global={batch}"]
    first, one = (simulate(ROW, [*sizes, *way]) for way in (GPIPE, PLAIN))

    assert one.step_time == pytest.approx(first.step_time, rel=1e-9)
    assert one.memory.stages[0].in_flight == min(12, batch)
    assert first.memory.stages[0].in_flight == batch


def test_memory_grows_with_the_batch_in_gpipe_alone():
    """From 24 to 48 microbatches GPipe holds twice the activations, 1F1B the same."""
    held = [
        [
            simulate(ROW, [*GPT3, *way, "batch.micro=1", f"batch.global={batch}"])
            .memory.stages[0]
            .parts["activations"]
            for batch in (24, 48)
        ]
        for way in (GPIPE, PLAIN)
    ]

    assert held[0][1] == pytest.approx(2 * held[0][0])
    assert held[1][1] == held[1][0]
