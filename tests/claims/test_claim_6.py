"""Claim 6: strong scaling on Frontier, with the batch that the published numbers ask for."""

import pytest

from clustersim.validation.claims.verdicts import judge


@pytest.mark.large
def test_the_claim_holds():
    """Efficiencies are within 5 points of 89.93 % at 1,024 and 87.05 % at 3,072 devices."""
    verdict = judge(6)

    assert verdict.holds, dict(verdict.predicted)
