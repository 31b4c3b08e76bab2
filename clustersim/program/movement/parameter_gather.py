"""The gather of a stage's new weights after the optimiser, as far as later work does not hide it.

    network   | gather 0 | gather 1 | gather 2 |
    forward              | chunk 0 ... | chunk 1 ... | chunk 2 ...      only gather 0 is exposed

Chunks of an interleaved stage begin their first forward one after another, each p microbatches
after the previous one.  Software that gathers chunk by chunk hides all but the first gather, as far
as they are short enough, and as other traffic of the step leaves their links free.

Software that copies the gathered shares on the host, tensor by tensor, adds the time of the copies:
the device waits for them, as no other work remains in the step.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from clustersim.program.blocks.blocks import Blocks
from clustersim.program.collectives.axes import Pattern
from clustersim.program.job import Job
from clustersim.program.program import Tail
from clustersim.program.schedules.steps import WHOLE
from clustersim.timeline import FORWARD
from clustersim.traffic import Traffic

TENSORS_OF_ENDS = 3
"""Tensors of embedding, final norm and logits."""


def expose_gathers(
    job: Job, blocks: Blocks, stage: int, pattern: Pattern, tail: Tail, occupied: Sequence[float]
) -> Tail:
    """Return the tail of a stage without the part of its gathers that forwards hide.

    Parameters
    ----------
    occupied : for each gather, how long other traffic of the step occupies its links [s]
    """
    plan = job.plan
    if not job.software.gradients.gather_overlap or not tail.parameters:
        return tail
    forward = blocks.block(stage, 0, FORWARD, pattern)[0].total
    layers = max(1, len(plan.layers_of(stage, 0)))
    pieces, window = (plan.chunks, plan.pipeline * forward) if plan.chunks > 1 else (
        layers, forward / layers
    )  # fmt: skip
    chunks = product(range(plan.chunks), WHOLE)
    blocks_of_step = (
        plan.microbatches
        / plan.wired.copies
        * sum(blocks.block(stage, chunk, kind, pattern)[0].total for chunk, kind in chunks)
    )
    exposed = (
        exposed_gather(traffic, pieces, window * max(0.0, 1 - others / blocks_of_step))
        for traffic, others in zip(tail.parameters, occupied, strict=True)
    )
    return replace(tail, parameters=tuple(exposed))


def exposed_gather(traffic: Traffic, pieces: int, window: float) -> Traffic:
    r"""Return the exposed part of traffic that is gathered piece by piece.

    .. math:: g + (v - 1) \max(0, g - w)

    with g the time of one of v pieces and w the time of the work that hides each piece but one.
    """
    if pieces == 1 or not traffic.cap or traffic.cap == float("inf"):
        return traffic
    one = traffic.nbytes / traffic.cap / pieces
    exposed = one + (pieces - 1) * max(0.0, one - window)
    return traffic._replace(nbytes=exposed * traffic.cap)


def copy_seconds(job: Job, stage: int) -> float:
    r"""Return the time of the host to copy gathered shares into the weights of a stage [s].

    .. math:: h N (n L + n_e)

    with h for each copy, N ranks that share the states, L layers of n tensors, and those of the
    ends that the stage has. Hugging Face nanotron, ``distributed.py``, ``all_gather_coalesced``,
    ``update_output``, copies them in a loop.
    """
    plan, seconds = job.plan, job.software.gradients.share_each
    if not seconds or not 1 <= plan.zero <= 2 or plan.sharers == 1:
        return 0.0
    layers = sum(len(plan.layers_of(stage, chunk)) for chunk in range(plan.chunks))
    ends = TENSORS_OF_ENDS if stage in (0, plan.pipeline - 1) else 0
    return seconds * plan.sharers * (_tensors_of_layer(job) * layers + ends)


def _tensors_of_layer(job: Job) -> int:
    """Return the weights of a layer: products before and after attention, MLP, norms [count]."""
    separate_gate = job.model.gated and not job.software.gate_merged
    return 2 + (3 if separate_gate else 2) + 2
