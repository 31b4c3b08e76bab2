"""Tails: the operations of a stage after its last step.

    gradients are reduced | optimiser | new weights are gathered, as far as no later work hides it

    network   | gather 0 | gather 1 | gather 2 |
    forward              | chunk 0 ... | chunk 1 ... | chunk 2 ...      only gather 0 is exposed

Chunks of an interleaved stage begin their first forward one after another, each p microbatches
after the previous one.  Software that gathers chunk by chunk hides all but the first gather, as far
as they are short enough, and as other traffic of the step leaves their links free.

Software that copies the gathered shares on the host, tensor by tensor, adds the time of the copies:
the device waits for them, as no other work remains in the step.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from clustersim.cost.compute import pass_seconds
from clustersim.cost.kernels.products import gemm_seconds
from clustersim.program.blocks.blocks import Blocks
from clustersim.program.collectives.axes import Pattern
from clustersim.program.fold import Folded
from clustersim.program.job import Job
from clustersim.program.movement.offload import host_tail
from clustersim.program.program import Tail
from clustersim.program.schedules.steps import WHOLE, completing
from clustersim.timeline import FORWARD
from clustersim.traffic import Name, Traffic
from clustersim.workload.model import Layer
from clustersim.workload.optimisers import matrices
from clustersim.workload.parameters import Parameters

MOST_BUCKETS = 16
"""Maximum number of pieces in which an overlapped gradient reduction is replayed."""

TENSORS_OF_ENDS = 3
"""Tensors of embedding, final norm and logits."""


def tails_of(job: Job, folded: Folded) -> list[Tail]:
    """Return for each stage the operations after its last step."""
    last = job.plan.pipeline - 1
    of_stages: dict[Name, list[Traffic]] = {}
    for (kind, *rest), traffic in folded.joint.items():
        of_stages.setdefault((kind, *rest[:1]), []).append(traffic)
    return [
        Tail(
            gradients=_pieces(job, stage, tuple(of_stages.get(("gradients", stage), ()))),
            overlapped=job.overlapped_reduction,
            embedding=folded.joint.get(("embedding",)) if stage in (0, last) else None,
            optimiser=_optimiser_seconds(job, stage),
            parameters=tuple(of_stages.get(("parameters", stage), ())),
            mirrored=folded.joint.get(("mirrored", min(stage, last - stage))),
        )
        for stage in range(last + 1)
    ]


def _pieces(
    job: Job, stage: int, reductions: tuple[Traffic, ...]
) -> tuple[tuple[Traffic, ...], ...]:
    """Return the reductions of a stage: whole, or in pieces for each chunk that completes.

    Pieces of a chunk become ready in turn, and carry its share of the stage's parameters.
    """
    if not job.overlapped_reduction or not reductions:
        return (reductions,) if reductions else ()
    order, plan = job.order, job.plan
    number = max(1, min(MOST_BUCKETS, job.model.layers) // plan.chunks)
    groups = []
    for at in completing(order, stage):
        chunk = order.codes[order.of[stage][at]].chunk
        share = job.weights.chunk_share(stage, chunk) / number
        groups.append(tuple(r._replace(nbytes=r.nbytes * share) for r in reductions) * number)
    return tuple(groups)


def _optimiser_seconds(job: Job, stage: int) -> float:
    """Return the time of the optimiser step of a stage [s]."""
    passes, weights = job.framework.optimiser, job.weights
    trained = weights.trained(stage)
    if job.offload.host_optimiser:
        return host_tail(job, trained)
    moved = passes.held * weights.on_rank(trained)
    sharded = job.plan.zero >= 1
    moved += passes.updated * weights.on_rank(trained, sharded=sharded)
    ends = weights.on_rank(weights.ends_of_stage(stage, trained=True), sharded=sharded)
    moved += 2 * job.framework.state[job.precision].ends * ends
    passed = pass_seconds(moved, job.cluster.accelerator)
    return (
        passed
        + copy_seconds(job, stage)
        + orthogonal_seconds(job, Counter(job.layers.of_stage(stage)))
    )


def orthogonal_seconds(job: Job, layers: Mapping[Layer, float]) -> float:
    """Return the time of a rank's share of the Newton-Schulz iterations of a stage's layers [s].

    Each matrix is orthogonalised once, in 16 bits, by the ranks that have parts of its states:
    Liu et al. 2025, arXiv:2502.16982, section 2.3.
    """
    iterations = job.framework.optimiser.iterations
    if not iterations:
        return 0.0
    device, work = job.device, Parameters()
    for layer, count in layers.items():
        for one in matrices(job.model, layer):
            products = (job.shard.wide("orthogonalisation", *sizes) for sizes in one.products())
            seconds = sum(gemm_seconds(product, device) for product in products)
            work = work.plus(one.number.scaled(count * iterations * seconds))
    return job.weights.on_rank(work, sharded=job.plan.zero >= 1)


# --- gathers of new weights -----------------------------------------------------------------------


def expose_gathers(
    blocks: Blocks, stage: int, pattern: Pattern, tail: Tail, occupied: Sequence[float]
) -> Tail:
    """Return the tail of a stage without the part of its gathers that forwards hide.

    Parameters
    ----------
    occupied : for each gather, how long other traffic of the step occupies its links [s]
    """
    job, plan = blocks.job, blocks.job.plan
    if not job.framework.gradients.gather_overlap or not tail.parameters:
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
    piece = traffic.nbytes / traffic.cap / pieces
    exposed = piece + (pieces - 1) * max(0.0, piece - window)
    return traffic._replace(nbytes=exposed * traffic.cap)


def copy_seconds(job: Job, stage: int) -> float:
    r"""Return the time of the host to copy gathered shares into the weights of a stage [s].

    .. math:: h N (n L + n_e)

    with h for each copy, N ranks that share the states, L layers of n tensors, and those of the
    ends that the stage has. Hugging Face nanotron, ``distributed.py``, ``all_gather_coalesced``,
    ``update_output``, copies them in a loop.
    """
    plan, seconds = job.plan, job.framework.gradients.share_each
    if not seconds or not 1 <= plan.zero <= 2 or plan.sharers == 1:
        return 0.0
    layers = sum(len(plan.layers_of(stage, chunk)) for chunk in range(plan.chunks))
    ends = TENSORS_OF_ENDS if stage in (0, plan.pipeline - 1) else 0
    return seconds * plan.sharers * (_tensors_of_layer(job) * layers + ends)


def _tensors_of_layer(job: Job) -> int:
    """Return the weights of a layer: products before and after attention, MLP, norms [count]."""
    separate_gate = job.model.gated and not job.framework.kernels.gate_merged
    return 2 + (3 if separate_gate else 2) + 2
