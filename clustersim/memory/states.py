"""Memory that a stage holds all the time: training states, gathered layers and buffers.

    ZeRO 1    optimiser states and master weights are sharded over the data axis
    ZeRO 2    gradients as well
    ZeRO 3    weights as well, gathered layer by layer

Rajbhandari et al. 2020, arXiv:1910.02054, section 5. Experts are sharded over their own copies.
"""

import math
from dataclasses import fields
from functools import partial
from typing import Final

from clustersim.bounded_cache import BoundedCache
from clustersim.catalog.records.frameworks import FrameworkRecord
from clustersim.memory.verdict import STATES
from clustersim.program.job import Job
from clustersim.records import dataclass
from clustersim.workload.finetune import frozen_bytes, trainable
from clustersim.workload.model import Layer
from clustersim.workload.slice import Slice

FROM_WEIGHTS = ("parameters", "quantised_base", "gradients", "master_weights", "optimiser")
FROM_OPTIMISER = ("master_weights", "optimiser")


@dataclass(frozen=True)
class MemoryRecipe:
    """Bytes of states and buffers under a framework at a precision, defaults filled in.

    Attributes
    ----------
    weights, master, gradients, optimiser : training states of a parameter [B]
    ends : those of the optimiser that embedding and logits have beyond these [B]
    gathered, reduced : a weight and a gradient that are gathered or reduced whole [B]
    sharded : whether the framework gathers weights or reduces gradients by layer
    frees : whether it frees gathered layers after their forward
    prefetch : layers that it gathers ahead of the running one [count]
    by_module : whether it gathers and reduces by module instead of by layer
    runtime : held before the first tensor, with the buffers of graphs [B]
    fragmentation : share of the memory that comes and goes; None where none is known [unitless]
    bucket : buffer from which gradients are reduced [B]
    renewed : gradients of a parameter that are freed before each backward and allocated in it [B]
    step, norm : flat buffers of the optimiser step, for each parameter that it updates and, before
        these, for each number of the largest tensor [B]
    outputs : whether a stage keeps its output until its backward
    outputs_shared : whether each tensor rank keeps its share of that output alone
    ring : held by the backward of attention over a ring of ranks, for each number of queries [B]
    loss_forward, loss_backward : bytes for each logit that the loss holds only while it runs [B]
    gather_buffers : buffers of the size of a layer's whole input that are kept for gathers [count]
    held_results : reduced results of a layer whose memory waits for their reduction [count]
    lead : layers by which the host is ahead of the device [count]
    joined : whether the allocator joins free blocks, which then serve any size
    """

    weights: float
    gradients: float
    optimiser: float
    gathered: float
    reduced: float
    sharded: bool
    frees: bool
    prefetch: int
    by_module: bool
    runtime: float
    fragmentation: float | None
    master: float = 0.0
    ends: float = 0.0
    bucket: float = 0.0
    renewed: float = 0.0
    step: float = 0.0
    norm: float = 0.0
    outputs: bool = False
    outputs_shared: bool = False
    ring: float = 0.0
    loss_forward: float = 0.0
    loss_backward: float = 0.0
    gather_buffers: int = 0
    held_results: int = 0
    lead: int = 0
    joined: bool = False


_NAMES = {field.name for field in fields(MemoryRecipe)} - {"reduced"}
"""Fields with the names of facts; `reduced` of a precision is the width of reduced gradients."""


_RECIPES: Final = BoundedCache(64, 1)
"""The latest recipes; a framework that is kept has its number to itself."""


def memory_recipe(job: Job) -> MemoryRecipe:
    """Return the recipe of the framework and precision of a job."""
    fixed = job.precision, job.shard.width
    compute = partial(_recipe, job.framework, *fixed)
    recipe: MemoryRecipe = _RECIPES.get((id(job.framework), *fixed), 1, compute)[1]
    return recipe


def _recipe(
    framework: FrameworkRecord, precision: str, width: float
) -> tuple[FrameworkRecord, MemoryRecipe]:
    """Return a framework, and its recipe for weights of some bytes."""
    states = framework.state[precision]
    sharding, graphs = framework.sharding, framework.graphs
    stated = () if framework.memory is None else vars(framework.memory).items()
    facts = [*stated, *vars(states).items()]
    values = {name: value for name, value in facts if name in _NAMES and value is not None}
    if states.step is not None:
        values["norm"] = 0.0
    return framework, MemoryRecipe(
        **values,
        gathered=sharding.gather if sharding else width,
        reduced=sharding.reduce if sharding else width,
        sharded=sharding is not None,
        frees=sharding.reshard if sharding else True,
        prefetch=sharding.prefetch if sharding else 0,
        by_module=sharding.by_module if sharding else False,
        runtime=framework.runtime_memory + ((graphs and graphs.memory) or 0.0),
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


def steady_parts(job: Job, stage: int) -> dict[str, float]:
    """Return what one rank of a stage holds on its device all the time, by part [B]."""
    recipe, states = memory_recipe(job), state_parts(job, stage)
    buffers = _buffers(job, recipe, stage, states["gradients"])
    for part in _away(job):
        states[part] = 0.0
    states["quantised_base"] += job.weights.on_rank(job.weights.frozen(stage).constants)
    return states | {
        "gathered_layers": _gathered(job, recipe, stage),
        "communication_buffers": buffers + recipe.gather_buffers * whole_input(job.shard),
        "transfers": 2 * boundary(job.shard) if job.plan.pipeline > 1 else 0.0,
        "offload_staging": staged_weights(job, stage),
        "runtime": recipe.runtime,
    }


def boundary(part: Slice) -> float:
    """Return the input of a layer, 2 s b h, over the tensor ranks where they share it [B]."""
    return part.width * part.residual


def whole_input(part: Slice) -> float:
    """Return the input of a layer that sequence-parallel ranks share, gathered; 0 if not [B]."""
    return part.width * part.tokens * part.model.hidden if part.shared > 1 else 0.0


def on_host(job: Job, stage: int) -> dict[str, float]:
    """Return what one rank of a stage keeps in the memory of its host, by part [B].

    The host that runs the optimiser has the gradients there as well.
    """
    away = _away(job)
    if not away:
        return {}
    states = state_parts(job, stage)
    if "gradients" not in away:
        owned = job.weights.on_rank(job.weights.trained(stage), sharded=True)
        states["gradients"] = memory_recipe(job).gradients * owned
        away = (*away, "gradients")
    return {part: states[part] for part in STATES if part in away}


def _away(job: Job) -> tuple[str, ...]:
    if job.offload.parameters:
        return FROM_WEIGHTS
    if not job.offload.optimiser:
        return ()
    return (*FROM_OPTIMISER, "gradients") if job.plan.zero >= 2 else FROM_OPTIMISER


# --- states ---------------------------------------------------------------------------------------


def state_parts(job: Job, stage: int) -> dict[str, float]:
    """Return the training states of one rank of a stage, on device or host, by part [B]."""
    recipe, zero = memory_recipe(job), job.plan.zero
    trained = job.weights.trained(stage)
    sharded = job.weights.on_rank(trained, sharded=zero >= 1)
    base = job.weights.on_rank(job.weights.frozen(stage).weights, sharded=zero >= 3)
    quantised = job.finetune is not None and job.finetune.quantised
    ends = job.weights.on_rank(job.weights.ends_of_stage(stage, trained=True), sharded=zero >= 1)
    summed = recipe.sharded and not job.reduces_in_blocks  # over microbatches: reduced once a step
    return {
        "parameters": recipe.weights * job.weights.on_rank(trained, sharded=zero >= 3)
        + (0.0 if quantised else base),
        "master_weights": recipe.master * sharded,
        "gradients": recipe.gradients
        * job.weights.on_rank(trained, sharded=zero >= 2 and not summed),
        "optimiser": recipe.optimiser * sharded + recipe.ends * ends,
        "quantised_base": base if quantised else 0.0,
    }


def _layers(job: Job, stage: int) -> list[Layer]:
    """Return the layers of a stage, in order."""
    chunks = range(job.plan.chunks)
    return [stacked.layer for chunk in chunks for stacked in job.layers.stacked(stage, chunk)]


# --- layers that come and go ----------------------------------------------------------------------


def layer_bytes(job: Job, layer: Layer) -> float:
    """Return the weights of one layer as a rank computes with them, without constants [B]."""
    recipe = memory_recipe(job)
    width = recipe.gathered if recipe.sharded else recipe.weights
    trained = job.weights.on_rank(trainable(job.model, layer, job.finetune))
    base = frozen_bytes(job.model, layer, job.finetune, job.shard.width).weights
    return width * trained + job.weights.on_rank(base)


def _gathered(job: Job, recipe: MemoryRecipe, stage: int) -> float:
    """Return the layers that are gathered at once: the one that runs and those prefetched [B].

    Embedding and logits are a unit of their own that stays gathered between forward and backward:
    PyTorch, ``fully_shard``, ``reshard_after_forward`` of the root.
    """
    plan = job.plan
    if plan.zero < 3:
        return 0.0
    sizes = sorted(layer_bytes(job, layer) for layer in _layers(job, stage))
    whole = sizes[-(1 + recipe.prefetch) :] if plan.reshard and recipe.frees else sizes
    most = module_bytes(job, recipe, recipe.gathered)
    at_once = sum(min(size, most) for size in whole)
    return at_once + recipe.gathered * job.weights.on_rank(job.weights.ends_of_stage(stage))


def _buffers(job: Job, recipe: MemoryRecipe, stage: int, gradients: float) -> float:
    """Return the buffers that gradients are reduced from [B].

    A bucket, where they are flattened into one; under ZeRO-3 the whole gradients of the layer that
    runs and of the one that is being reduced.
    """
    plan = job.plan
    if plan.copies == 1:
        return 0.0
    if plan.zero == 3:
        width = recipe.reduced
        layers = [trainable(job.model, layer, job.finetune) for layer in _layers(job, stage)]
        largest = max((width * job.weights.on_rank(layer) for layer in layers), default=0.0)
        return 2 * min(largest, module_bytes(job, recipe, width))
    return min(recipe.bucket, gradients)


def step_buffers(job: Job, stage: int) -> float:
    """Return the flat buffers that the device holds during the optimiser step [B].

    The norm of the gradients is known, and its buffer free, before they are flattened: DeepSpeed,
    ``runtime/zero/stage_1_and_2.py``, ``step``.
    """
    recipe = memory_recipe(job)
    if job.offload.host_optimiser:
        return 0.0
    owned = job.weights.on_rank(job.weights.trained(stage), sharded=job.plan.zero >= 1)
    model, ends = job.model, job.weights.ends_of_stage(stage).split > 0
    widest = max(model.ffn, 3 * model.hidden, model.vocab if ends else 0)
    largest = min(owned, model.hidden * widest / job.plan.tensor)
    return max(recipe.step * owned, recipe.norm * largest)


def staged_weights(job: Job, stage: int) -> float:
    """Return the shards of two layers on their way from the host, or to it [B]."""
    if not job.offload.parameters:
        return 0.0
    sizes = [layer_bytes(job, layer) for layer in _layers(job, stage)]
    shares = job.plan.sharers if job.plan.zero == 3 else 1
    return 2 * max(sizes, default=0.0) / shares
