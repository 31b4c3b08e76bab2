"""Claim 16: scatter-gather pays where chunks are interleaved."""

from clustersim.simulation.simulate import simulate
from clustersim.validation.claims.megatron import CHUNKS, GPT3, PLAIN, ROW, WHOLE
from clustersim.validation.claims.verdicts import judge


def test_the_claim_holds():
    """5 to 15 % faster at a batch of 60."""
    verdict = judge(16)

    assert verdict.holds, dict(verdict.predicted)


def test_it_pays_by_what_is_handed_on():
    """With four times the messages, four chunks gain more than three times what one gains."""
    sizes = [*GPT3, "batch.micro=1", "batch.global=60"]
    one, four = (
        simulate(ROW, [*sizes, *way, *WHOLE]).step_time - simulate(ROW, [*sizes, *way]).step_time
        for way in (PLAIN, CHUNKS)
    )

    assert four > 3 * one > 0
