"""A single layer of a scenario: its time and its FLOPs, as papers measure it outside of a step."""

from collections.abc import Iterable
from typing import NamedTuple

from clustersim.cost.compute import chain_seconds
from clustersim.program.blocks.blocks import Blocks
from clustersim.program.job import Job
from clustersim.scenario.load import Loaded
from clustersim.simulation.step.build import build_job
from clustersim.workload.flops import layer_forward_flops
from clustersim.workload.kernels import Collective, Kernel
from clustersim.workload.ops import backward, forward


class LayerTimes(NamedTuple):
    """Times of one layer for one microbatch on one rank [s].

    Attributes
    ----------
    forward : its forward
    backward : its backward, without recomputation
    recompute : the recomputed forward operations
    """

    forward: float
    backward: float
    recompute: float


def layer_times(loaded: Loaded) -> LayerTimes:
    """Return the times of the first layer of a scenario, its collectives without other traffic.

    Gradients are not accumulated: there is one microbatch.
    """
    return layer_times_of(build_job(loaded))


def layer_times_of(job: Job) -> LayerTimes:
    """Return the same of a job."""
    blocks = Blocks(job)
    groups, pattern = blocks.communicators, blocks.communicators.pattern(0, 0)
    stacked = job.layers.stacked(0, 0)[0]
    ops = [op for op in job.layers.ops(stacked.layer) if op.forward]

    def seconds(kernels: Iterable[Kernel], *, back: bool = False) -> float:
        def moved(collective: Collective) -> float:
            return groups.cost(collective, pattern).seconds

        chain = chain_seconds(kernels, job.device, moved, job.cluster.occupied)
        return job.software.dispatch.of(chain.of_backward() if back else chain).total

    recomputed = [op for op in ops if op.name in stacked.recomputed]
    back = seconds(backward(ops), back=True)
    return LayerTimes(seconds(forward(ops)), back, seconds(forward(recomputed)))


def layer_flops(loaded: Loaded, metric: str) -> dict[str, float]:
    """Return the FLOPs of the measured passes of the first layer, on one device, by convention.

    Parameters
    ----------
    metric : ``layer_forward_ms``, ``layer_backward_ms`` or ``layer_total_ms``
    """
    job = build_job(loaded)
    stacked = job.layers.stacked(0, 0)[0]
    flops = layer_forward_flops(job.model, stacked.layer)
    ahead = sum(flops.values())
    recomputed = sum(amount for name, amount in flops.items() if name in stacked.recomputed)
    passes = {"layer_forward_ms": 1, "layer_backward_ms": 2}.get(metric, 3)
    plan = loaded.scenario.plan
    share = loaded.scenario.batch.micro / (plan.tensor * plan.context)
    hardware = passes * ahead + (recomputed if passes > 1 else 0.0)
    return {"model": share * passes * ahead, "hardware": share * hardware}
