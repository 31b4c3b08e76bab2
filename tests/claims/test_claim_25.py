"""Claim 25: how often a layer's tensor group comes together."""

import pytest

from clustersim.program.blocks import layer_kernels
from clustersim.program.steps import WHOLE
from clustersim.scenario.load import load
from clustersim.simulation.build import build_job
from clustersim.validation.claims.verdicts import judge
from clustersim.workload.kernels import Collective, flat


def test_a_layer_has_four_all_reduces_and_six_with_full_recomputation():
    """Two forward and two backward; running the forward again adds two: counted exactly."""
    verdict = judge(25)

    assert verdict.holds, dict(verdict.predicted)


@pytest.mark.parametrize(("recompute", "backward"), [("none", 2), ("selective", 2), ("full", 4)])
def test_recomputation_repeats_the_pair_of_the_forward(recompute, backward):
    """The attention core that selective recomputation runs again needs none of its own."""
    job = build_job(load("frontier-175b", [f"recompute={recompute}"]))
    kinds = [flat(layer_kernels(job, job.layers.stacked(0, 0)[0], kind)) for kind in WHOLE]
    counts = [
        sum(isinstance(k, Collective) and k.operation == "all-reduce" for k in kernels)
        for kernels in kinds
    ]

    assert counts == [2, backward]


def test_each_carries_the_residual_stream():
    """Every one of them is of s b h numbers of two bytes."""
    job = build_job(load("frontier-175b"))
    model, plan = job.model, job.plan
    kernels = [
        k for kind in WHOLE for k in flat(layer_kernels(job, job.layers.stacked(0, 0)[0], kind))
    ]
    sizes = {k.nbytes for k in kernels if isinstance(k, Collective)}

    assert sizes == {2 * plan.micro * model.sequence * model.hidden}
