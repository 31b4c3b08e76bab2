"""Predictions of claims about inference: steps of the replica of a serving scenario."""

from collections.abc import Mapping

from clustersim.inference.batch import Batch, Prompt
from clustersim.inference.step_costs import StepCosts
from clustersim.scenario.load import load_service
from clustersim.simulation.service.pools import build_pools
from clustersim.validation.claim_runs import ClaimRun

ONE = Batch(1, 1_024)
"""A sequence of 1,024 tokens that decodes alone."""

MANY = Batch(0, 0, (Prompt(8_192),))
"""8,192 tokens of a prompt, which are bound by compute."""


def narrow_weights(runs: Mapping[str, ClaimRun]) -> dict[str, float]:
    """The time of a step with weights in 16 bits over that with narrow ones."""
    wide = replica_of(runs["base"], "precision=bf16")
    speeds = {}
    for name in ("int8", "int4"):
        narrow = replica_of(runs["base"], f"precision={name}")
        for what, batch in (("one sequence", ONE), ("8,192 tokens", MANY)):
            speeds[f"{name}, {what}"] = wide.step(batch).seconds / narrow.step(batch).seconds
    return speeds


def fused_kernels(runs: Mapping[str, ClaimRun]) -> dict[str, float]:
    """The time of a step with separate kernels over that with fused ones."""
    separate, fused = replica_of(runs["separate"]), replica_of(runs["fused"])
    return {"one sequence": separate.step(ONE).seconds / fused.step(ONE).seconds}


def replica_of(run: ClaimRun, *settings: str) -> StepCosts:
    """Return the replica of a serving scenario."""
    loaded = load_service(run.name, [*run.set, *settings])
    return build_pools(loaded, MANY.prompts[0].tokens)[-1].costs
