"""What an allocator reserves for a sharded model of eager modules, by a replay of its blocks.

    set-up    unit by unit: weights to the device, broadcast, flattened, cut into shards
    step      forward, loss, backward, optimiser; then a second one, as it makes states

The set-up leaves blocks that serve what fits them.  Streams have blocks of their own, so that what
is gathered or reduced on another stream adds to these.  PyTorch, ``torch/distributed/fsdp``:
``_init_utils.py``, ``_init_param_handle_from_module``; ``_runtime_utils.py``, ``_unshard``.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from clustersim.catalog.records.frameworks import ReplayFacts
from clustersim.memory.allocator import SMALL, Block, Blocks
from clustersim.memory.eager import (
    Shape,
    Tensors,
    backward_layer,
    backward_loss,
    forward_layer,
    forward_loss,
)
from clustersim.memory.states import boundary, memory_recipe, state_parts
from clustersim.program.job import Job
from clustersim.workload.finetune import linears

BACKWARDS: Final = 2
"""Layers whose backward is replayed: later ones find more free blocks."""

SET_UP: Final = 4
"""Layers whose set-up is replayed: further ones take the same blocks and add what they keep."""

STEPS: Final = 2
"""Steps that are replayed: a third reserves nothing more."""


class _Units(NamedTuple):
    """The units of a model: weights of a layer and outside of layers, one by one [B]."""

    layers: int
    layer: list[float]
    root: list[float]


def replayed(job: Job, stage: int) -> float | None:
    """Return the most that the allocator reserves; None where its blocks are not replayed [B].

    Replayed are whole models of equal layers without experts on each rank, or its shard.
    """
    facts = job.framework.memory.replay if job.framework.memory else None
    plan, model = job.plan, job.model
    split = plan.cell > 1 or plan.pipeline > 1
    unlike = model.experts or model.latent or model.pattern or len(model.kinds) > 1
    if facts is None or split or unlike:
        return None
    units, others = _units(job), _other_streams(job, stage)
    device = job.cluster.accelerator.memory_capacity - memory_recipe(job).runtime
    blocks = Blocks(device - others)
    _set_up(job, blocks, units, facts)
    states: list[Block] = []
    for _ in range(STEPS):
        _step(job, blocks, units, facts)
        _update(job, blocks, units, states)
    return blocks.most + others


def _units(job: Job) -> _Units:
    model, finetune = job.model, job.finetune
    width = finetune.bits / 8 if finetune else memory_recipe(job).weights
    ends = job.shard.width * model.vocab * model.hidden
    layer = [width * linear.inputs * linear.outputs for linear in linears(model)]
    return _Units(model.layers, layer, [ends] * (1 if model.tied else 2))


def _shares(job: Job) -> int:
    return job.plan.sharers if job.plan.zero == 3 else 1


def _other_streams(job: Job, stage: int) -> float:
    """Return what has segments apart: gathers, gradients, and the small tensors of adapters [B].

    Where whole layers are trained, the next one is gathered as the backward of one begins
    (``BACKWARD_PRE``), before the device has freed the last; units of adapters come between.
    Shards on the host are copied to the device ahead of their gather.
    """
    plan, recipe, units = job.plan, memory_recipe(job), _units(job)
    total = job.weights.on_rank(job.weights.frozen(stage).constants)
    if plan.zero == 3:
        ahead = 1 + recipe.prefetch + (job.finetune is None)
        gathers = ahead if plan.reshard else units.layers
        whole = sum(units.root) + min(gathers, units.layers) * sum(units.layer)
        total += whole * (1 + 1 / _shares(job) if job.offload.parameters else 1)
    if job.offload.parameters:
        return total
    total += state_parts(job, stage)["gradients"]
    if job.finetune is not None:
        trained = job.weights.on_rank(job.weights.trained(stage), sharded=plan.zero == 3)
        total += trained * (recipe.weights + recipe.optimiser + recipe.step)
    return total


# --- set-up ---------------------------------------------------------------------------------------


def _set_up(job: Job, blocks: Blocks, units: _Units, facts: ReplayFacts) -> None:
    model, shares = job.model, _shares(job)
    on_device = not job.offload.parameters
    narrow = job.shard.width if job.finetune is None or not job.finetune.quantised else 4
    table = narrow * model.longest * model.head_size
    tables = [table, table] if model.positions == "rotary" else []
    few = min(units.layers, SET_UP)
    for _ in range(few):
        _wrap(blocks, tables, units.layer, facts.broadcast, shares, on_device=on_device)
    further = sum(tables) + (sum(units.layer) / shares if on_device else 0.0)
    blocks.reserve((units.layers - few) * further)
    mask = [float(model.longest**2)] if facts.mask else []
    _wrap(blocks, mask, units.root, facts.broadcast, shares, on_device=on_device)


def _wrap(
    blocks: Blocks,
    buffers: Sequence[float],
    weights: Sequence[float],
    bucket: float,
    shares: int,
    *,
    on_device: bool,
) -> None:
    """Set a unit up: its tensors are freed after its shard was cut from the flattened ones."""
    for nbytes in buffers:
        if nbytes > SMALL:
            blocks.allocate(nbytes)
    separate = [blocks.allocate(nbytes) for nbytes in weights]
    _broadcast(blocks, weights, bucket)
    whole = sum(weights)
    flat = blocks.allocate(whole)
    shard = flat
    if shares > 1:
        shard = blocks.allocate(whole / shares)
        blocks.free(flat)
    for block in separate:
        blocks.free(block)
    if not on_device:
        blocks.free(shard)


def _broadcast(blocks: Blocks, tensors: Sequence[float], bucket: float) -> None:
    """Broadcast tensors in flat buckets, two at once; a single one is its own bucket.

    ``torch/csrc/distributed/c10d/comm.cpp``, ``broadcast_coalesced``.
    """
    flight: list[Block] = []
    of_bucket: list[float] = []
    for index, nbytes in enumerate(tensors):
        of_bucket.append(nbytes)
        if sum(of_bucket) >= bucket or index == len(tensors) - 1:
            if len(of_bucket) > 1:
                if len(flight) == 2:
                    blocks.free(flight.pop(0))
                flight.append(blocks.allocate(sum(of_bucket)))
            of_bucket = []
    for block in flight:
        blocks.free(block)


# --- a step ---------------------------------------------------------------------------------------


def _step(job: Job, blocks: Blocks, units: _Units, facts: ReplayFacts) -> None:
    """Replay the forward and backward of a microbatch."""
    model, part, mask = job.model, job.shard, facts.mask
    sequence = part.tokens / job.plan.micro
    slice_ = part.width * part.tokens * sequence if mask else 0.0
    shape = Shape(model, job.finetune, part.tokens, part.width, slice_)
    step = Tensors(blocks, saving=True)
    step.allocate(embedded=boundary(part))
    if mask:
        _mask(step, job)
    layers = job.layers.stacked(0, 0)
    recomputed = [job.layers.kept(stacked) <= boundary(part) for stacked in layers]
    running = [Tensors(blocks, saving=not each) for each in recomputed]
    for index, tensors in enumerate(running):
        forward_layer(tensors, shape)
        if job.offload.activations and index:
            running[index - 1].clear()  # on the host, once the next layer has read it
    forward_loss(step, shape)
    backward_loss(step, shape)
    trained = job.finetune is None
    if trained:
        step.allocate(head=units.root[-1])
    for tensors, repeated in list(zip(running, recomputed, strict=True))[: -BACKWARDS - 1 : -1]:
        saved = Tensors(blocks, saving=True)
        if job.offload.activations:
            tensors.allocate(layer=boundary(part))
        if repeated:
            forward_layer(saved, shape)
        backward_layer(saved, shape)
        if trained:
            _join_gradients(blocks, units.layer)
        saved.clear()
        tensors.clear()
    for tensors in running:
        tensors.clear()
    if trained:
        _join_gradients(blocks, units.root[:-1], units.root[-1])
    step.clear()


def _mask(tensors: Tensors, job: Job) -> None:
    """``_update_causal_mask``: that of all positions for each sequence, then in 16 bits."""
    numbers = float(job.plan.micro * job.model.longest**2)
    nbytes = job.shard.width * numbers
    tensors.allocate(repeated=numbers, narrow=nbytes, mask=nbytes)
    tensors.release("repeated", "narrow")


def _join_gradients(blocks: Blocks, weights: Sequence[float], allocated: float = 0.0) -> None:
    """Allocate the gradients of the weights of a unit, and join them to be reduced.

    Parameters
    ----------
    allocated : those of them that exist already [B]
    """
    sizes = [*weights, sum(weights) + allocated]
    for block in [blocks.allocate(nbytes) for nbytes in sizes]:
        blocks.free(block)


def _update(job: Job, blocks: Blocks, units: _Units, states: list[Block]) -> None:
    """Replay the optimiser step of a model that is trained whole; its states are made in the first.

    Those of adapters are small, and counted with the other small tensors.
    """
    recipe = memory_recipe(job)
    if job.finetune is not None or job.offload.host_optimiser:
        return
    owned = [*[sum(units.layer)] * units.layers, sum(units.root)]
    owned = [nbytes / recipe.weights / _shares(job) for nbytes in owned]
    if not states:
        moments = [recipe.optimiser / 2 * numbers for numbers in owned for _ in range(2)]
        states += [blocks.allocate(nbytes) for nbytes in moments]
    for block in [blocks.allocate(recipe.step * numbers) for numbers in owned]:
        blocks.free(block)
