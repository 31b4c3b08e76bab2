"""Moves of a block: what is fetched before each unit and pushed after it, by network and host.

    before the layers | layer | layer | ... | after the layers     each with a fetch and a push

Weights are copied from the host, if they are kept there, and then gathered from the ranks that
share them; gradients are reduced and then copied to the host.  What no layer waits for is pushed.
"""

from collections.abc import Sequence

from clustersim.program.job import Job
from clustersim.program.layers import StackedLayer
from clustersim.program.movement.offload import ends_fetch, host_fetch, host_push
from clustersim.program.movement.sharding import (
    ends_moves,
    factors_gathered,
    layer_fetch,
    layer_push,
    reduces_in_blocks,
)
from clustersim.timeline import BACKWARD, FORWARD, INPUT, WEIGHT
from clustersim.workload.kernels import Collective
from clustersim.workload.offload import HostCopy

Transfers = Sequence[Collective | HostCopy]
Moves = Sequence[tuple[Transfers, Transfers]]
"""Fetch and push of each unit of a block, in the order in which it runs."""


def moves_of(job: Job, stage: int, chunk: int, kind: str) -> Moves:
    """Return the moves of a block; none where nothing is sharded or offloaded.

    Where a backward is split, that of the inputs fetches and that of the weights pushes.
    """
    if job.plan.zero < 2 and not job.offload.any:
        return []
    fetches, pushes = kind != WEIGHT, kind != INPUT
    kind = FORWARD if kind == FORWARD else BACKWARD
    before, after = _of_ends(job, stage, chunk, kind, pushes=pushes)
    layers = job.layers.stacked(stage, chunk)
    inner: list[tuple[Transfers, Transfers]] = []
    for stacked in layers if kind == FORWARD else layers[::-1]:
        fetch, push = _of_layer(job, stacked, kind)
        inner.append((fetch if fetches else [], push if pushes else []))
    moves = [before, *inner, after]
    return moves if any(fetch or push for fetch, push in moves) else []


def _of_ends(
    job: Job, stage: int, chunk: int, kind: str, *, pushes: bool
) -> Sequence[tuple[Transfers, Transfers]]:
    """Return the moves of the units before and after the layers."""
    collectives = ends_moves(job, stage, chunk, kind)
    if kind == FORWARD:
        copies = ends_fetch(job, stage, chunk, kind)
        pairs = zip(copies, collectives, strict=True)
        return [([*copied, *gathered], []) for copied, gathered in pairs]
    return [([], reduced if pushes else []) for reduced in collectives]


def _of_layer(job: Job, stacked: StackedLayer, kind: str) -> tuple[Transfers, Transfers]:
    """Return the moves of a layer."""
    reduced = kind == BACKWARD and (reduces_in_blocks(job) or job.plan.copies == 1)
    copies = host_push(job, stacked, kind, reduced=reduced)
    fetch: Transfers = [*host_fetch(job, stacked, kind), *layer_fetch(job, stacked, kind)]
    behind = factors_gathered(job, stacked, kind)
    return fetch, [*behind, *layer_push(job, stacked.layer, kind), *copies]
