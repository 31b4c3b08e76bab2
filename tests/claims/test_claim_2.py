"""Claim 2: what GPT-3 takes to train."""

import pytest

from clustersim.scenario.load import load
from clustersim.simulation.build import build_job
from clustersim.validation.claims.verdicts import judge
from clustersim.workload.flops import hardware_flops


def test_gpt3_takes_95000_steps_of_four_and_a_half_exaflop():
    """4.51e18 FLOPs a step, 95,000 steps, 4.29e23 in all, 15,900 A100-days at peak, within 1 %."""
    verdict = judge(2)

    assert verdict.holds, dict(verdict.predicted)


def test_the_step_is_equation_three():
    """96 B s l h^2 (1 + s / 6 h + V / 16 l h) with B = 1,536, s = 2,048, l = 96, h = 12,288."""
    job = build_job(load("frontier-175b"))
    B, s, layers, h, V = 1536, 2048, 96, 12288, job.model.vocab
    step = 96 * B * s * layers * h**2 * (1 + s / (6 * h) + V / (16 * layers * h))

    assert hardware_flops(job.model, B, job.layers.recomputed) == pytest.approx(step)
    assert judge(2).predicted["step"] == pytest.approx(step / 1e18)
