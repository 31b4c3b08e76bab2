"""Claim 29: uneven experts take as long as the most loaded rank, exactly in the model."""

from clustersim.simulation.simulate import simulate
from clustersim.validation.claims.verdicts import judge


def test_the_claim_holds():
    """At 1.5, 2 and 4 times the mean load the experts' part takes 1.5, 2 and 4 times as long."""
    verdict = judge(29)

    assert verdict.holds, dict(verdict.predicted)


def test_the_step_grows_by_the_wait_and_the_exchange_alone():
    """Products take as long as before; the step grows by the wait and by fuller all-to-alls."""
    even = simulate("mixtral-ep-imbalance", ["experts={load: balanced}"])
    skewed = simulate("mixtral-ep-imbalance")
    grown = {
        part: seconds - even.attribution[part]
        for part, seconds in skewed.attribution.items()
        if abs(seconds - even.attribution[part]) > 1e-9
    }

    assert set(grown) == {"imbalance", "expert_communication"}
    assert sum(grown.values()) > 0.99 * (skewed.step_time - even.step_time)
