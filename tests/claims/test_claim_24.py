"""Claim 24: strong scaling of Megatron-Turing NLG 530B.

The source does not state its microbatch.  The scenario has 2, which the published curve asks for.
"""

import pytest

from clustersim.metrics.bubble import bubble_overhead
from clustersim.simulation.simulate import simulate
from clustersim.validation.claims.verdicts import judge

PUBLISHED = {280: 60.1, 350: 50.2, 420: 44.4}
"""Seconds of a step by nodes."""


def efficiency(seconds):
    """Return work in a second of a node over that of the fewest nodes."""
    return {nodes: 280 * seconds[280] / (nodes * each) for nodes, each in seconds.items()}


@pytest.mark.large
def test_the_claim_holds():
    """Steps of 60.1, 50.2 and 44.4 s within 10 %, efficiencies within 3 points."""
    verdict = judge(24)

    assert verdict.holds, dict(verdict.predicted)


@pytest.mark.parametrize(("micro", "within"), [(1, False), (2, True)])
def test_the_bubble_alone_tells_the_microbatch(micro, within):
    """In microbatches of 2 it falls as the curve did, within 1.1 points; of 1 it is 4 off."""
    counts = {nodes: 1920 * 35 // nodes // micro for nodes in PUBLISHED}
    ideal = {nodes: count * (1 + bubble_overhead(35, count)) for nodes, count in counts.items()}
    found, told = efficiency(ideal), efficiency(PUBLISHED)

    assert all(abs(found[nodes] - told[nodes]) < 0.011 for nodes in (350, 420)) is within
    assert (abs(found[420] - told[420]) > 0.035) is not within


@pytest.mark.large
def test_one_sequence_a_microbatch_would_be_too_fast():
    """On 420 nodes the step would be 10 to 20 % short of the published one."""
    one = simulate("mtnlg-530b", ["batch.micro=1"]).step_time

    assert 0.8 < one / PUBLISHED[420] < 0.9
