"""Blocking sends that share links with the gradient reduction of the step that they follow."""

import pytest

from clustersim.engine.event_replay import EventReplay
from clustersim.engine.replay import replay, result, run_to_end
from clustersim.program.compile import compile_program
from clustersim.scenario.load import load
from clustersim.simulation.step.build import build_job

ACROSS_NODES = (
    "cluster.nodes=4", "plan.tensor=1", "plan.pipeline=2", "plan.data=16", "batch.micro=1",
    "framework.pipeline.blocking=true", "framework.gradients.overlap=always"
)  # fmt: skip


@pytest.mark.parametrize("bandwidth", ["2 GB/s", "25 GB/s"])
@pytest.mark.parametrize("sequences", [16, 64])
def test_a_last_send_waits_for_the_reduction_beside_it(bandwidth, sequences):
    """The direct replay takes as long as the replay of all events, which share their links."""
    changes = (f"batch.global={sequences}", f"cluster.nic.bandwidth={bandwidth}")
    job = build_job(load("megatron21-t1-1.7b", [*ACROSS_NODES, *changes]))
    program = compile_program(job, fold_replicas=True, fusion_bound=0.01)
    by_events = result(run_to_end(EventReplay(program))).timeline

    for exact in (True, False):
        direct = replay(program, exact=exact).timeline
        assert direct.duration == pytest.approx(by_events.duration, rel=1e-12)
