"""What every stage holds at its peak, from the steps that its program takes.

states, buffers        by the layout and the framework's recipe     --steady-->
activations, logits    by the operations of the layers              --chunks-->  StageMemory
when they come and go  by the steps of the schedule                 --levels-->
"""

import math

from clustersim.memory import operations as memory
from clustersim.memory.states import on_host, steady_parts, step_buffers
from clustersim.memory.verdict import ChunkMemory, Parts, StageMemory, Verdict, at_peak, levels
from clustersim.program.job import Job
from clustersim.workload.finetune import linears
from clustersim.workload.ops import kept, kept_for_weights


def estimate_memory(job: Job) -> Verdict:
    """Return the memory of every stage at its peak, and whether it fits."""
    plan, node = job.plan, job.cluster.node
    return Verdict(
        tuple(_stage(job, stage) for stage in range(plan.pipeline)),
        job.cluster.accelerator.memory_capacity,
        node.devices,
        math.inf if node.host_memory is None else node.host_memory,
    )


def _stage(job: Job, stage: int) -> StageMemory:
    plan = job.plan
    chunks = tuple(chunk_memory(job, stage, chunk) for chunk in range(plan.chunks))
    kind, chunk = job.order.columns(stage)
    found = levels(chunks, kind, chunk)
    steady, away = steady_parts(job, stage), on_host(job, stage)
    if job.offload.activations:
        deepest = found.after[:, found.parts.index("activations")].max()
        away["activations"] = float(deepest)
        chunks = tuple(_offloaded(job, stage, c, each) for c, each in enumerate(chunks))
        found = levels(chunks, kind, chunk)
    step = step_buffers(job, stage)
    parts, in_flight = at_peak(found, steady, step)
    moving = max(0.0, float(found.during.sum(axis=1).max()))
    parts["fragmentation"] = _cached(job, sum(parts.values()), max(moving, step), moving, step)
    ranks = plan.cell * plan.data
    return StageMemory(stage, steady, chunks, step, parts, in_flight, away, ranks)


def _cached(job: Job, alive: float, counted: float, moving: float, step: float) -> float:
    """Return what the allocator holds beyond what is alive, as far as the device has room [B].

    Blocks that were got one by one are not joined: what comes and goes leaves holes, and the flat
    buffers of the optimiser find no room in blocks of activations that are free by then.  Blocks
    that nothing uses are given back before an allocation fails: PyTorch,
    ``c10/cuda/CUDACachingAllocator.cpp``, ``release_cached_blocks``.

    Parameters
    ----------
    alive, counted : at the peak in all, and of it what comes and goes [B]
    moving : the most that microbatches hold [B]
    step : buffers of the optimiser step [B]
    """
    share = job.framework.fragmentation
    if share is None:
        return 0.0
    blocks = step + (1 + share.value) * moving
    room = job.cluster.accelerator.memory_capacity - alive
    return min(blocks - counted, max(0.0, room))


# --- what microbatches hold -----------------------------------------------------------------------


def chunk_memory(job: Job, stage: int, chunk: int) -> ChunkMemory:
    """Return what one microbatch holds in a chunk of a stage."""
    first, last = job.plan.ends(stage, chunk)
    logits = memory.of_loss(job.layers.head) if last else 0.0
    activations = sum(job.layers.kept(each) for each in job.layers.stacked(stage, chunk))
    activations += kept(job.layers.embedding) if first else 0.0
    activations += kept(job.layers.head) - logits if last else _handed_on(job)
    layer = _layer_at_work(job, stage, chunk)
    ahead, back = _loss_at_work(job) if last else ({}, {})
    inside = {"workspace": layer, "logits": -logits}
    return ChunkMemory(
        {"activations": activations, "logits": logits},
        ahead,
        max(inside, back, key=lambda parts: sum(parts.values())),
        _left_for_weights(job, stage, chunk) if job.schedule.split else {},
    )


def _left_for_weights(job: Job, stage: int, chunk: int) -> Parts:
    """Return what a microbatch leaves between the two parts of a split backward."""
    first, last = job.plan.ends(stage, chunk)
    total = sum(
        kept_for_weights(job.layers.ops(each.layer)) for each in job.layers.stacked(stage, chunk)
    )
    total += kept_for_weights(job.layers.embedding) if first else 0.0
    return {"activations": total + (kept_for_weights(job.layers.head) if last else 0.0)}


def _handed_on(job: Job) -> float:
    """Return what a chunk keeps of its output until its backward, which reads none of it [B].

    Megatron-LM gives it up since 2022, ``megatron/schedules.py``, ``deallocate_output_tensor``.
    """
    facts = job.framework.memory
    kept_on = facts is not None and facts.outputs is not None and facts.outputs.value
    return memory.boundary(job.shard) if kept_on else 0.0


def _layer_at_work(job: Job, stage: int, chunk: int) -> float:
    """Return what the fullest layer holds in its backward: itself again, and gradients [B]."""
    most = 0.0
    for each in dict.fromkeys(job.layers.stacked(stage, chunk)):
        ops = job.layers.ops(each.layer)
        again = kept(ops) - job.layers.kept(each)
        most = max(most, again + memory.gradients_inside(ops))
    return most + 2 * memory.boundary(job.shard) + _dequantised(job)


def _dequantised(job: Job) -> float:
    """Return the largest frozen weight of a linear layer in full width, where it is quantised."""
    finetune, part = job.finetune, job.shard
    if finetune is None or not finetune.quantised:
        return 0.0
    largest = max(each.inputs * each.outputs for each in linears(job.model))
    return part.width * largest / part.tensor


def _loss_at_work(job: Job) -> tuple[Parts, Parts]:
    """Return what the loss holds beside what it keeps, in its forward and in its backward."""
    facts, count = job.framework.memory, memory.logits(job.shard)
    if facts is None:
        return {}, {}
    ahead = {"logits": facts.loss_forward.value * count}
    return ahead, {"logits": facts.loss_backward.value * count}


def _offloaded(job: Job, stage: int, chunk: int, whole: ChunkMemory) -> ChunkMemory:
    """Return what is left of a microbatch on the device when its activations are on the host.

    The layer that is copied out or in, and the one at work.
    """
    stacked = job.layers.stacked(stage, chunk)
    two = 2 * max((job.layers.kept(each) for each in stacked), default=0.0)
    staged = {"offload_staging": min(two, whole.kept["activations"])}
    return ChunkMemory(
        {"logits": whole.kept["logits"]},
        {**whole.forward, **staged},
        {**whole.backward, **staged},
        whole.weights,
    )
