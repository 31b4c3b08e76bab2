"""The memory of a framework as plain values, defaults filled in: bytes of states and buffers.

The catalogue keeps each value with its source (`catalog.frameworks`); defaults are those that its
records document.
"""

import math
from dataclasses import dataclass

from clustersim.program.job import Job


@dataclass(frozen=True)
class MemoryRecipe:
    """Bytes of states and buffers under a framework at a precision.

    Attributes
    ----------
    weights, master, gradients, optimiser : training states of a parameter [B]
    gathered, reduced : a weight and a gradient that are gathered or reduced whole [B]
    sharded : whether the framework gathers weights or reduces gradients by layer
    frees : whether it frees gathered layers after their forward
    prefetch : layers that it gathers ahead of the running one [count]
    by_module : whether it gathers and reduces by module instead of by layer
    bucket : buffer from which gradients are reduced [B]
    renewed : gradients of a parameter that are freed before each backward and allocated in it [B]
    step, norm : flat buffers of the optimiser step, for each parameter that it updates and, before
        these, for each number of the largest tensor [B]
    keeps_output : whether a stage keeps its output until its backward
    shares_output : whether each tensor rank keeps its share of that output alone
    ring : held by the backward of attention over a ring of ranks, for each number of queries [B]
    loss_forward, loss_backward : bytes for each logit that the loss holds only while it runs [B]
    gather_buffers : buffers of the size of a layer's whole input that are kept for gathers [count]
    held_results : reduced results of a layer whose memory waits for their reduction [count]
    lead : layers by which the host is ahead of the device [count]
    joined : whether the allocator joins free blocks, which then serve any size
    runtime : held before the first tensor, with the buffers of graphs [B]
    fragmentation : share of the memory that comes and goes; None where none is known [unitless]
    """

    weights: float
    master: float
    gradients: float
    optimiser: float
    gathered: float
    reduced: float
    sharded: bool
    frees: bool
    prefetch: int
    by_module: bool
    bucket: float
    renewed: float
    step: float
    norm: float
    keeps_output: bool
    shares_output: bool
    ring: float
    loss_forward: float
    loss_backward: float
    gather_buffers: int
    held_results: int
    lead: int
    joined: bool
    runtime: float
    fragmentation: float | None


def memory_recipe(job: Job) -> MemoryRecipe:
    """Return the recipe of the framework and precision of a job."""
    framework, states = job.framework, job.framework.state[job.precision]
    sharding, memory, graphs = framework.sharding, framework.memory, framework.graphs
    step = norm = 0.0
    if states.step is not None:
        step = states.step
    elif memory and memory.step is not None:
        step, norm = memory.step, memory.norm or 0.0
    graph_buffers = (graphs and graphs.memory) or 0.0
    return MemoryRecipe(
        weights=states.weights,
        master=states.master or 0.0,
        gradients=states.gradients,
        optimiser=states.optimiser,
        gathered=sharding.gather if sharding else job.shard.width,
        reduced=sharding.reduce if sharding else job.shard.width,
        sharded=sharding is not None,
        frees=sharding.reshard if sharding else True,
        prefetch=sharding.prefetch if sharding else 0,
        by_module=bool(sharding and sharding.by_module),
        bucket=(memory and memory.bucket) or 0.0,
        renewed=states.renewed or 0.0,
        step=step,
        norm=norm,
        keeps_output=bool(memory and memory.outputs),
        shares_output=bool(memory and memory.outputs_shared),
        ring=(memory and memory.ring) or 0.0,
        loss_forward=memory.loss_forward if memory else 0.0,
        loss_backward=memory.loss_backward if memory else 0.0,
        gather_buffers=(memory and memory.gather_buffers) or 0,
        held_results=(memory and memory.held_results) or 0,
        lead=(memory and memory.lead) or 0,
        joined=bool(memory and memory.joined),
        runtime=framework.runtime_memory + graph_buffers,
        fragmentation=framework.fragmentation,
    )


def module_bytes(job: Job, recipe: MemoryRecipe, width: float) -> float:
    """Return the most that is gathered or reduced at once: infinite except by module [B].

    Parameters
    ----------
    width : of a weight or gradient [B]
    """
    model = job.model
    if not recipe.by_module:
        return math.inf
    return width * model.hidden * max(model.ffn, 3 * model.hidden) / job.plan.tensor
