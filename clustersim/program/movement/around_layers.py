"""Moves: what comes before each part of a block and goes away behind it, over network and host.

    before the layers | layer | layer | ... | after them        each with a fetch and a push

Weights come from the host, if they are kept there, and then from the ranks that share them;
gradients are reduced and then go to the host.
"""

from collections.abc import Sequence

from clustersim.program.job import Job
from clustersim.program.movement.offload import ends_fetch, host_fetch, host_push
from clustersim.program.movement.sharding import ends_moved, layer_fetch, layer_push, reduces
from clustersim.program.steps import BACKWARD, FORWARD, INPUT, WEIGHT
from clustersim.workload.kernels import Collective
from clustersim.workload.offload import HostCopy

Carried = Sequence[Collective | HostCopy]
Moves = Sequence[tuple[Carried, Carried]]
"""Fetch and push of each part of a block, in the order in which it runs."""


def moves_of(job: Job, stage: int, chunk: int, kind: str) -> Moves:
    """Return the moves of a block; none at all where nothing is shared out or offloaded.

    Where a backward is split, that of the inputs fetches and that of the weights pushes.
    """
    if job.plan.zero < 2 and not job.offload.any:
        return []
    fetches, pushes = kind != WEIGHT, kind != INPUT
    kind = FORWARD if kind == FORWARD else BACKWARD
    before, after = ends_moved(job, stage, chunk, kind)
    below, above = ends_fetch(job, stage, chunk, kind)
    layers = job.stacked(stage, chunk)
    ends: list[tuple[Carried, Carried]] = [([], before), ([], after)]
    ends = ends if pushes else [([], []), ([], [])]
    if kind == FORWARD:
        ends = [([*below, *before], []), ([*above, *after], [])]
    inner: list[tuple[Carried, Carried]] = []
    for stacked in layers if kind == FORWARD else layers[::-1]:
        fetch: Carried = [*host_fetch(job, stacked, kind), *layer_fetch(job, stacked, kind)]
        reduced = kind == BACKWARD and (reduces(job) or job.plan.copies == 1)
        push: Carried = [
            *layer_push(job, stacked.layer, kind),
            *host_push(job, stacked, kind, reduced=reduced),
        ]
        inner.append((fetch if fetches else [], push if pushes else []))
    moves = [ends[0], *inner, ends[1]]
    return moves if any(fetch or push for fetch, push in moves) else []
