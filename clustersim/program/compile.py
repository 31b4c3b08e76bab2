"""From a job to a program: for each rank class its steps, blocks, transfers and tail.

job --blocks--> what each step computes
    --transfers--> what is handed on --fold--> one actor for each class of ranks
    --loads--> what the links carry
"""

from clustersim.cost.compute import pass_seconds
from clustersim.plan.parallelism import Plan
from clustersim.program.blocks import Blocks, cut_at_collectives
from clustersim.program.communicators import Pattern
from clustersim.program.fold import Folded, Name, fold
from clustersim.program.job import Job
from clustersim.program.link_loads import carried_by_links, fusion_bound_of, limits_of
from clustersim.program.link_traffic import crossings_of
from clustersim.program.movement.offload import host_tail
from clustersim.program.movement.parameter_gather import with_hidden
from clustersim.program.movement.sharding import reduces
from clustersim.program.movement.share_copies import copying_seconds
from clustersim.program.movement.transfers import (
    joint_collectives,
    norm_sync,
    send_name,
    stage_transfers,
)
from clustersim.program.ops import Actor, Block, Fused, Position, Program, Tail
from clustersim.program.steps import Code, Step, completing, hand_over
from clustersim.program.weights import held
from clustersim.traffic import Traffic
from clustersim.workload.kernels import Collective

MOST_BUCKETS = 16
"""Pieces that an overlapped gradient reduction is replayed in, at most."""


def compile_program(job: Job, *, together: bool, fusion_bound: float) -> Program:
    """Return the program of a job.

    Parameters
    ----------
    together : whether ranks that behave alike are replayed as one
    fusion_bound : most that other traffic may change a fused block, share of its time
    """
    plan = job.plan
    blocks = Blocks(job)
    sends = [stage_transfers(job, replica) for replica in range(plan.data)]
    joint = joint_collectives(job)
    bound = fusion_bound_of(job, blocks, sends, joint)
    whole = bound <= fusion_bound or blocks.axes != ["tensor"] or job.offload.any
    if not whole:
        for replica, transfers in enumerate(sends):
            transfers.update(blocks.traffic(replica))
    links = job.cluster.links
    carried = carried_by_links(job, blocks, sends, joint)
    kinds = [blocks.groups.kinds(replica) for replica in range(plan.data)]
    folded = fold(sends, joint, links.capacities, links.names, kinds, together=together)
    return Program(
        actors=tuple(_actors(job, blocks, folded, whole=whole, together=together)),
        wiring=plan.wired,
        microbatches=plan.microbatches,
        tensor_ranks=1 if together else plan.cell,
        blocking=job.framework.pipeline.blocking.value,
        norm_sync=norm_sync(job),
        capacities=folded.capacities,
        link_names=folded.link_names,
        fused=Fused(whole, bound),
        carried=carried,
        limits=limits_of(job, blocks, sends, joint),
        crossings=crossings_of(job, blocks, sends, joint, carried),
    )


def _actors(
    job: Job, blocks: Blocks, folded: Folded, *, whole: bool, together: bool
) -> list[Actor]:
    """Return the actors: by replica class, then stage, then tensor part where not folded."""
    plan = job.plan
    tails = [_tail(job, stage, folded) for stage in range(plan.pipeline)]
    actors = []
    for number, replicas in enumerate(folded.classes):
        for stage, steps in enumerate(job.rows):
            pattern = blocks.pattern(stage, replicas[0])
            tail = with_hidden(job, blocks, stage, pattern, tails[stage])
            own = None if whole else _of_class(folded, number)
            codes = [job.order.codes[number] for number in sorted({*job.order.of[stage].tolist()})]
            work = {c: _block(job, blocks, stage, c, pattern, own) for c in codes}
            send = {c: _send(plan, folded, number, stage, c) for c in codes}
            multiplicity = len(replicas) * (plan.cell if together else 1)
            for part in range(1 if together else plan.cell):
                position = Position(number, stage, part)
                actors.append(
                    Actor(position, multiplicity, replicas, steps, work, send, tail, job.order)
                )
    return actors


def _of_class(folded: Folded, number: int) -> dict[Name, Traffic]:
    """Return the traffic of one replica class, by name."""
    return {name: moved for (name, whose), moved in folded.traffic.items() if whose == number}


def _block(
    job: Job, blocks: Blocks, stage: int, code: Code, pattern: Pattern,
    own: dict[Name, Traffic] | None,
) -> Block:  # fmt: skip
    """Return a block, all in one piece unless the traffic of its class is given."""
    seconds, again = blocks.step(stage, code, pattern)
    if own is None:
        return Block(seconds, again, (seconds.total,))

    def alone(collective: Collective) -> float:
        return blocks.groups.cost(collective, pattern).seconds

    cut = cut_at_collectives(job, stage, code.chunk, code.kind, seconds.dispatch, own, alone)
    return Block(seconds, again, cut)


def _send(plan: Plan, folded: Folded, number: int, stage: int, code: Code) -> Traffic | None:
    """Return what a class sends after a step; None where nothing leaves the stage."""
    target = hand_over(Step(code.kind, 0, code.chunk), stage, plan.wired)
    if target is None or target[0] == stage:
        return None
    return folded.traffic[send_name(code.kind, stage, code.chunk, plan.wired), number]


def _tail(job: Job, stage: int, folded: Folded) -> Tail:
    """Return what follows the last step of a stage."""
    plan, facts, device = job.plan, job.framework.optimiser, job.cluster.accelerator
    mine = job.trained(stage)
    moved = facts.held.value * held(job, mine, shared=False)
    moved += facts.updated.value * held(job, mine, shared=plan.zero >= 1)
    optimiser = pass_seconds(moved, device) + copying_seconds(job, stage)
    if job.offload.host_optimiser:
        optimiser = host_tail(job, stage, reduced=reduces(job) or plan.copies == 1)
    ends = stage in (0, plan.pipeline - 1)
    return Tail(
        gradients=_pieces(job, stage, _of_stage(folded, "gradients", stage)),
        overlapped=job.overlapped,
        embedding=folded.joint.get(("embedding",)) if ends else None,
        optimiser=optimiser,
        parameters=_of_stage(folded, "parameters", stage),
        mirrored=folded.joint.get(("twin", min(stage, plan.pipeline - 1 - stage))),
    )


def _of_stage(folded: Folded, what: str, stage: int) -> tuple[Traffic, ...]:
    """Return what the replicas of a stage do together of one kind, in the order of its making."""
    return tuple(
        traffic
        for (name, *rest), traffic in folded.joint.items()
        if (name, *rest[:1]) == (what, stage)
    )


def _pieces(
    job: Job, stage: int, reductions: tuple[Traffic, ...]
) -> tuple[tuple[Traffic, ...], ...]:
    """Return the reductions of a stage: all of them, or in pieces for each chunk that completes.

    Pieces of a chunk become ready in turn, and carry its share of the stage's parameters.
    """
    if not job.overlapped or not reductions:
        return (reductions,) if reductions else ()
    order, plan = job.order, job.plan
    number = max(1, min(MOST_BUCKETS, job.model.layers) // plan.chunks)
    groups = []
    for at in completing(order, stage):
        share = job.share_of(stage, order.codes[order.of[stage][at]].chunk) / number
        cut = tuple(each._replace(nbytes=each.nbytes * share) for each in reductions)
        groups.append(cut * number)
    return tuple(groups)
