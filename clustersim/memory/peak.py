"""Memory of every stage at its peak, from the steps that its program takes.

states, buffers        from the layout and the framework's recipe    --steady-->
activations, logits    from the operations of the layers             --chunks-->  StageMemory
when they come and go  from the steps of the schedule                --levels-->

Layers keep the outputs of their operations, `ops.kept`: the formulas of Korthikanti et al. 2022,
arXiv:2205.05198, section 4, for numbers of 2 bytes and dropout masks of 1, without sequence
parallelism,

.. math:: s b h (10 + 24 / t + 5 a s / h t)
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from clustersim.memory.levels import Changes, at_peak, changes_by_step, fullest_moment, levels
from clustersim.memory.reserved import replayed
from clustersim.memory.states import (
    boundary,
    memory_recipe,
    on_host,
    steady_parts,
    step_buffers,
    whole_input,
)
from clustersim.memory.verdict import ChunkMemory, Parts, StageMemory, Verdict
from clustersim.program.job import Job
from clustersim.program.layers import StackedLayer
from clustersim.workload.finetune import linears
from clustersim.workload.ops import Op, kept, kept_for_weights
from clustersim.workload.slice import Slice


def estimate_memory(job: Job) -> Verdict:
    """Return the memory of every stage at its peak, and whether it fits."""
    plan, node = job.plan, job.cluster.node
    usage_by = {stage: _usage(job, stage) for stage in dict.fromkeys(job.layers.alike)}
    return Verdict(
        tuple(_stage(job, stage, usage_by) for stage in range(plan.pipeline)),
        job.cluster.accelerator.memory_capacity,
        node.devices,
        math.inf if node.host_memory is None else node.host_memory,
        job.cluster.accelerator.name,
        job.framework.name,
    )


class _Usage(NamedTuple):
    """What stages with the same layers hold: always, by microbatches, at the end, on the host.

    `apart` is the memory of freed tensors that serves no other yet [B], `share` is that of what
    comes and goes which the allocator keeps unused, None where none is known, and `joined` is
    whether its free blocks serve any size.  `reserved` is what it reserves in all, where its blocks
    are replayed [B].
    """

    chunks: tuple[ChunkMemory, ...]
    changes: Changes
    steady: Parts
    step: float
    host: dict[str, float]
    apart: float
    share: float | None
    joined: bool
    reserved: float | None


def _usage(job: Job, stage: int) -> _Usage:
    recipe = memory_recipe(job)
    chunks = tuple(chunk_memory(job, stage, chunk) for chunk in range(job.plan.chunks))
    return _Usage(
        chunks,
        changes_by_step(chunks, *job.order.kinds_and_chunks),
        steady_parts(job, stage),
        step_buffers(job, stage),
        on_host(job, stage),
        _held_results(job, stage) + _renewed_gradients(job, stage),
        recipe.fragmentation,
        recipe.joined,
        replayed(job, stage),
    )


def _stage(job: Job, stage: int, usage_by: dict[int, _Usage]) -> StageMemory:
    """Return the memory of a stage.

    Parameters
    ----------
    usage_by : what it and the stages like it hold, by the first of them
    """
    plan = job.plan
    usage = usage_by[job.layers.alike[stage]]
    chunks, changes, steady, step, away = usage[:5]
    kind, chunk = job.order.kinds_and_chunks
    steps = job.order.of[stage]
    if job.offload.activations:
        level = levels(chunks, kind[steps], chunk[steps])
        deepest = level.after[:, level.parts.index("activations")].max()
        away = {**away, "activations": float(deepest)}
        chunks = tuple(_offloaded(job, stage, c, memory) for c, memory in enumerate(chunks))
        changes = changes_by_step(chunks, kind, chunk)
    moment = fullest_moment(changes, steps)
    parts, in_flight = at_peak(moment, steady, step)
    moving = max(0.0, moment.nbytes)
    unused = _unused(usage, moving) + usage.apart
    if usage.reserved is not None:
        unused = max(0.0, usage.reserved + parts["runtime"] - sum(parts.values()))
    room = job.cluster.accelerator.memory_capacity - sum(parts.values())
    parts["fragmentation"] = min(unused, max(0.0, room))
    ranks = plan.cell * plan.data
    return StageMemory(stage, steady, chunks, step, parts, in_flight, away, ranks, unused)


def _unused(usage: _Usage, moving: float) -> float:
    """Return the unused blocks that the allocator keeps at the peak of live tensors [B].

    Allocations that come and go leave holes.  Blocks that were allocated separately are not joined
    by PyTorch, so that flat buffers of the optimiser do not fit into the free blocks of
    activations.  Unused blocks are freed before an allocation fails:
    ``c10/cuda/CUDACachingAllocator.cpp``, ``release_cached_blocks``.

    Parameters
    ----------
    moving : the most that microbatches hold [B]
    """
    if usage.share is None:
        return 0.0
    blocks = (1 + usage.share) * moving
    return (max(blocks, usage.step) if usage.joined else blocks + usage.step) - max(
        moving, usage.step
    )


def _held_results(job: Job, stage: int) -> float:
    """Return results of layers that the host has freed, but the device has not reduced yet [B].

    A tensor that a collective reads on its own stream is reusable only after the collective:
    PyTorch, ``ProcessGroupNCCL.cpp``, ``recordStream``, and ``CUDACachingAllocator.cpp``,
    ``insert_events``.  The host issues the forward of a microbatch ahead of the device, up to
    `lead` layers; the allocator waits for the device before an allocation fails.
    """
    recipe, plan = memory_recipe(job), job.plan
    longest = max(len(job.layers.stacked(stage, chunk)) for chunk in range(plan.chunks))
    return recipe.held_results * min(longest, recipe.lead) * whole_input(job.shard)


def _renewed_gradients(job: Job, stage: int) -> float:
    """Return the blocks of gradients that are freed before each backward [B].

    What that backward recomputes is allocated before its first gradients and splits these blocks,
    so that gradients need others: DeepSpeed, ``runtime/pipe/engine.py``, ``_exec_backward_pass``,
    and ``runtime/bf16_optimizer.py``, ``clear_lp_grads``.
    """
    return memory_recipe(job).renewed * job.weights.on_rank(job.weights.trained(stage))


# --- what microbatches hold -----------------------------------------------------------------------


def chunk_memory(job: Job, stage: int, chunk: int) -> ChunkMemory:
    """Return what one microbatch holds in a chunk of a stage."""
    first, last = job.plan.ends(stage, chunk)
    logits = kept_logits(job.layers.head) if last else 0.0
    activations = sum(job.layers.kept(layer) for layer in job.layers.stacked(stage, chunk))
    activations += kept(job.layers.embedding) if first else 0.0
    activations += kept(job.layers.head) - logits if last else kept_output(job)
    layer = running_layer(job, job.layers.stacked(stage, chunk))
    ahead, back = _running_loss(job) if last else ({}, {})
    inside = {"workspace": layer, "logits": -logits}
    return ChunkMemory(
        {"activations": activations, "logits": logits},
        ahead,
        max(inside, back, key=lambda parts: sum(parts.values())),
        _left_for_weights(job, stage, chunk) if job.schedule.parted else {},
    )


def _left_for_weights(job: Job, stage: int, chunk: int) -> Parts:
    """Return what a microbatch holds between the two steps of its backward.

    Where only the weight gradients of the output head wait, its input and the gradient of the
    logits.
    """
    first, last = job.plan.ends(stage, chunk)
    if not job.schedule.split:
        return {"logits": kept_for_weights(job.layers.head)} if last else {}
    total = sum(
        kept_for_weights(job.layers.ops(stacked.layer))
        for stacked in job.layers.stacked(stage, chunk)
    )
    total += kept_for_weights(job.layers.embedding) if first else 0.0
    return {"activations": total + (kept_for_weights(job.layers.head) if last else 0.0)}


def kept_output(job: Job) -> float:
    """Return the bytes of its output that a chunk keeps until its backward, which needs none [B].

    Megatron-LM frees it since 2022, ``megatron/schedules.py``, ``deallocate_output_tensor``;
    DeepSpeed keeps the share that it has sent, ``runtime/pipe/engine.py``, ``_exec_forward_pass``.
    """
    recipe = memory_recipe(job)
    if not recipe.outputs:
        return 0.0
    return boundary(job.shard) / (job.plan.tensor if recipe.outputs_shared else 1)


def running_layer(job: Job, layers: Iterable[StackedLayer]) -> float:
    """Return what the fullest layer holds in its backward: recomputed tensors, gradients [B]."""
    most = 0.0
    for stacked in dict.fromkeys(layers):
        ops = job.layers.ops(stacked.layer)
        recomputed = kept(ops) - job.layers.kept(stacked)
        most = max(most, recomputed + max(_gradients_inside(ops), _ring(job)))
    return most + 2 * boundary(job.shard) + _dequantised(job)


def _ring(job: Job) -> float:
    """Return what attention over a ring holds in its backward: sums, and what is sent [B].

    Queries, keys and values are there, as without a ring.
    """
    part = job.shard
    if part.context == 1 or part.context_method != "ring":
        return 0.0
    numbers = part.tokens * part.model.heads * part.model.head_size / part.tensor
    return memory_recipe(job).ring * numbers


def _dequantised(job: Job) -> float:
    """Return the largest frozen weight of a linear layer in full width, if quantised [B]."""
    finetune, part = job.finetune, job.shard
    if finetune is None or not finetune.quantised:
        return 0.0
    largest = max(linear.inputs * linear.outputs for linear in linears(job.model))
    return part.width * largest / part.tensor


def _running_loss(job: Job) -> tuple[Parts, Parts]:
    """Return what the loss holds only while it runs, in its forward and in its backward."""
    recipe, count = memory_recipe(job), _logits(job.shard)
    return {"logits": recipe.loss_forward * count}, {"logits": recipe.loss_backward * count}


def _offloaded(job: Job, stage: int, chunk: int, whole: ChunkMemory) -> ChunkMemory:
    """Return the part of a microbatch on the device while its activations are on the host.

    The layer that is copied out or in, and the one that runs.
    """
    stacked = job.layers.stacked(stage, chunk)
    copied = 2 * max((job.layers.kept(layer) for layer in stacked), default=0.0)
    staged = {"offload_staging": min(copied, whole.kept["activations"])}
    return ChunkMemory(
        {"logits": whole.kept["logits"]},
        {**whole.forward, **staged},
        {**whole.backward, **staged},
        whole.weights,
    )


# --- what operations hold -------------------------------------------------------------------------

LOSS: Final = "loss"
"""Name of the operation that keeps the logits."""


def _logits(part: Slice) -> float:
    """Return the number of logits of one microbatch on a rank, b s V / t c."""
    return part.tokens * part.model.vocab / part.tensor


def kept_logits(head: Sequence[Op]) -> float:
    """Return what the loss keeps for its backward: the logits in one width or in two [B]."""
    return kept(op for op in head if op.name == LOSS)


def _gradients_inside(ops: Sequence[Op]) -> float:
    """Return the most that gradients of activations take inside a layer's backward [B].

    An operation holds the gradient of its output, which is as large as the input of the next one,
    while it computes that of its own input.
    """
    inputs = [op.inputs for op in ops if op.inputs]
    return max((a + b for a, b in pairwise(inputs)), default=0.0)
