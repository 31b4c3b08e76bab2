"""Claim 18: what a trillion parameters move between nodes and save."""

from clustersim.validation.claims.verdicts import judge

NIC = 25e9
"""What one NIC of Selene carries in one direction [B/s]."""


def test_the_claim_holds():
    """892 GB/s and 12.9 TB/s within 30 %, and a checkpoint of 13.8 TB within 10 %."""
    verdict = judge(18)

    assert verdict.holds, dict(verdict.predicted)


def test_no_link_carries_more_than_it_can():
    """Eight tensor ranks of six replicas cross the middle by a NIC each; 512 rings by one each."""
    predicted = judge(18).predicted

    assert predicted["pipelines"] * 1e9 < 8 * 6 * NIC
    assert predicted["data groups"] * 1e12 < 8 * 64 * NIC
