"""Claim 7: what lowers throughput on Frontier."""

from clustersim.validation.claims.predictions import CLAIMS
from clustersim.validation.claims.verdicts import judge


def test_the_claim_holds():
    """Tensor groups over two nodes lose 5 % and more, more microbatches gain, more stages lose."""
    verdict = judge(7)

    assert verdict.holds, dict(verdict.predicted)


def test_no_sign_is_a_tie():
    """Each of the three differences is above a percent, so that none hangs on rounding."""
    predicted = CLAIMS[7]()

    assert all(abs(ratio - 1) > 0.01 for ratio in predicted.values()), predicted
