"""What every stage holds at its peak, from the steps that its program takes."""

import numpy as np

from clustersim.plan.fit import StageMemory, Verdict, peak_activations
from clustersim.program.job import Job
from clustersim.program.ops import Program
from clustersim.workload import memory


def weigh(job: Job, program: Program) -> Verdict:
    """Return what every stage holds at its peak, and whether it fits."""
    recipe = job.framework.state[job.precision]
    plan = job.plan
    stages = []
    for actor in program.actors[:: program.parts][: plan.pipeline]:
        stage = actor.position.stage
        held = job.parameters(stage)
        kept = [_kept(job, stage, chunk) for chunk in range(plan.chunks)]
        code = np.array(actor.keys) % (2 * plan.chunks)
        peak = peak_activations(code % 2 == 1, code // 2, kept)
        shards = plan.data if plan.zero else 1
        parts = {
            "weights": held * recipe.weights.value,
            "gradients": held * recipe.gradients.value,
            "optimiser": held * recipe.optimiser.value / shards,
            "activations": peak.nbytes,
            "workspace": _workspace(job),
            "runtime": job.framework.runtime_memory.value,
        }
        stages.append(StageMemory(stage, parts, peak.microbatches))
    return Verdict(tuple(stages), job.cluster.accelerator.memory_capacity)


def _kept(job: Job, stage: int, chunk: int) -> float:
    """Return what one microbatch keeps in a chunk from forward to backward [B]."""
    first, last = job.ends(stage, chunk)
    full = job.recompute == "full"
    each = memory.checkpoint(job.part) if full else memory.layer_activations(job.part)
    kept = job.plan.layers_of(job.model, stage, chunk) * each
    kept += memory.embedding_activations(job.part) if first else 0.0
    return kept + (memory.head_activations(job.part) if last else 0.0)


def _workspace(job: Job) -> float:
    """Return what is alive inside a block: the layer at work, and two transfers [B]."""
    again = memory.layer_activations(job.part) if job.recompute == "full" else 0.0
    return again + 4 * memory.checkpoint(job.part)
