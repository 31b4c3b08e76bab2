"""Claim 11: interleaved 1F1B with two chunks halves the bubble."""

from clustersim.simulation.simulate import simulate
from clustersim.validation.claims.megatron import GPT3, PLAIN, ROW, TWO_CHUNKS
from clustersim.validation.claims.verdicts import judge


def test_the_claim_holds():
    """Where stages are equal and transfers free, the bubble of two chunks is half, within 1 %."""
    verdict = judge(11)

    assert verdict.holds, dict(verdict.predicted)


def test_logits_and_transfers_leave_it_a_little_more():
    """On GPT-3 as it is, embedding and logits lie on the first and last stage: 0.5 to 0.6."""
    sizes = [*GPT3, "batch.micro=1", "batch.global=48"]
    one, two = (simulate(ROW, [*sizes, *way]).bubble for way in (PLAIN, TWO_CHUNKS))

    assert 0.5 < two / one < 0.6
