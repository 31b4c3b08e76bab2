"""Kernels of a block: those before its layers, of each layer, and after them, in their order.

embedding | recomputed | layer | ... | logits, loss
"""

from collections.abc import Iterable

from clustersim.program.job import Job
from clustersim.program.layers import StackedLayer
from clustersim.timeline import FORWARD, INPUT, WEIGHT
from clustersim.workload.kernels import Kernel
from clustersim.workload.layers.ends import boundary_gather
from clustersim.workload.ops import backward, forward, of_inputs, of_weights


def layers_in_order(job: Job, stage: int, chunk: int, kind: str) -> tuple[StackedLayer, ...]:
    """Return the layers of a chunk in the order in which a block runs them."""
    stacked = job.layers.stacked(stage, chunk)
    return stacked if kind == FORWARD else stacked[::-1]


def kernels_of_ends(
    job: Job, stage: int, chunk: int, kind: str
) -> tuple[list[Kernel], list[Kernel]]:
    """Return the kernels of a block before its layers and after them."""
    first, last = job.plan.ends(stage, chunk)
    pipeline, layers = job.software.pipeline, job.layers
    gathers = pipeline.gathers_forward if kind == FORWARD else pipeline.gathers_backward
    received = not (first if kind == FORWARD else last)
    gathered = boundary_gather(job.shard, gathers if pipeline.sharded and received else 0)
    if kind == FORWARD:
        embedding = forward(layers.embedding) if first else []
        return gathered + embedding, forward(layers.head) if last else []
    head = backward_kernels(gathered + (backward(layers.head) if last else []), kind)
    return head, backward_kernels(backward(layers.embedding), kind) if first else []


def layer_kernels(job: Job, stacked: StackedLayer, kind: str) -> list[Kernel]:
    """Return the kernels of a layer, recomputed ones first."""
    ops = job.layers.ops(stacked.layer)
    if kind == FORWARD:
        return forward(ops)
    repeated = [op for op in ops if op.name in stacked.recomputed and kind != WEIGHT]
    return forward(repeated) + backward_kernels(backward(ops), kind)


def backward_kernels(kernels: Iterable[Kernel], kind: str) -> list[Kernel]:
    """Return the kernels of a backward that a step of some kind runs: all, or a part."""
    if kind == INPUT:
        return of_inputs(kernels)
    return of_weights(kernels) if kind == WEIGHT else list(kernels)
