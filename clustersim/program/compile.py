"""From a job to a program: for each rank class its steps, blocks, transfers and tail.

job --blocks--> what each step computes
    --transfers--> what is handed on --fold--> one actor for each class of ranks
    --loads--> what the links carry
"""

from clustersim.cost.compute import pass_seconds
from clustersim.plan.parallelism import Plan
from clustersim.program import states
from clustersim.program.blocks import Blocks, cut_at_collectives
from clustersim.program.fold import Folded, Name, fold
from clustersim.program.groups import Pattern
from clustersim.program.job import Job
from clustersim.program.loads import carried_by_links, fusion_bound_of, limits_of
from clustersim.program.offloading import host_tail
from clustersim.program.ops import (
    KINDS,
    Actor,
    Block,
    Fused,
    Position,
    Program,
    Step,
    Tail,
    hand_over,
)
from clustersim.program.schedules import grid
from clustersim.program.sharding import reduces
from clustersim.program.transfers import joint_collectives, norm_sync, stage_transfers
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
        stages=plan.pipeline,
        chunks=plan.chunks,
        microbatches=plan.microbatches,
        parts=1 if together else plan.cell,
        blocking=job.framework.pipeline.blocking.value,
        norm_sync=norm_sync(job),
        capacities=folded.capacities,
        link_names=folded.link_names,
        fused=Fused(whole, bound),
        carried=carried,
        limits=limits_of(job, blocks, sends, joint),
    )


def _actors(
    job: Job, blocks: Blocks, folded: Folded, *, whole: bool, together: bool
) -> list[Actor]:
    """Return the actors: by replica class, then stage, then tensor part where not folded."""
    plan = job.plan
    rows = grid(plan.schedule, plan.pipeline, plan.microbatches, plan.chunks)
    tails = [_tail(job, stage, folded) for stage in range(plan.pipeline)]
    actors = []
    for number, replicas in enumerate(folded.classes):
        for stage, steps in enumerate(rows):
            pattern = blocks.pattern(stage, replicas[0])
            own = None if whole else _of_class(folded, number)
            codes = [(kind, chunk) for chunk in range(plan.chunks) for kind in KINDS]
            work = {c: _block(job, blocks, stage, *c, pattern, own) for c in codes}
            send = {c: _send(plan, folded, number, stage, *c) for c in codes}
            multiplicity = len(replicas) * (plan.cell if together else 1)
            for part in range(1 if together else plan.cell):
                position = Position(number, stage, part)
                actors.append(
                    Actor(position, multiplicity, replicas, steps, work, send, tails[stage])
                )
    return actors


def _of_class(folded: Folded, number: int) -> dict[Name, Traffic]:
    """Return the traffic of one replica class, by name."""
    return {name: moved for (name, whose), moved in folded.traffic.items() if whose == number}


def _block(
    job: Job, blocks: Blocks, stage: int, kind: str, chunk: int,
    pattern: Pattern, own: dict[Name, Traffic] | None,
) -> Block:  # fmt: skip
    """Return a block, all in one piece unless the traffic of its class is given."""
    seconds, again = blocks.block(stage, chunk, kind, pattern)
    if own is None:
        return Block(seconds, again, (seconds.total,))

    def alone(collective: Collective) -> float:
        return blocks.groups.cost(collective, pattern).seconds

    cut = cut_at_collectives(job, stage, chunk, kind, seconds.dispatch, own, alone)
    return Block(seconds, again, cut)


def _send(
    plan: Plan, folded: Folded, number: int, stage: int, kind: str, chunk: int
) -> Traffic | None:
    """Return what a class hands on after a step; None at either end of the pipeline."""
    from_here = hand_over(Step(kind, 0, chunk), stage, plan.pipeline, plan.chunks)
    if from_here is None or plan.pipeline == 1:
        return None
    return folded.traffic[("send", kind, stage), number]


def _tail(job: Job, stage: int, folded: Folded) -> Tail:
    """Return what follows the last step of a stage."""
    plan, facts, device = job.plan, job.framework.optimiser, job.cluster.accelerator
    mine = job.trained(stage)
    moved = facts.held.value * states.held(job, mine, shared=False)
    moved += facts.updated.value * states.held(job, mine, shared=plan.zero >= 1)
    optimiser = pass_seconds(moved, device)
    if job.offload.host_optimiser:
        optimiser = host_tail(job, stage, reduced=reduces(job) or plan.copies == 1)
    ends = stage in (0, plan.pipeline - 1)
    return Tail(
        gradients=_pieces(job, _of_stage(folded, "gradients", stage)),
        overlapped=job.overlapped,
        embedding=folded.joint.get(("embedding",)) if ends else None,
        optimiser=optimiser,
        parameters=_of_stage(folded, "parameters", stage),
    )


def _of_stage(folded: Folded, what: str, stage: int) -> tuple[Traffic, ...]:
    """Return what the replicas of a stage do together of one kind, in the order of its making."""
    return tuple(
        traffic
        for (name, *rest), traffic in folded.joint.items()
        if (name, *rest[:1]) == (what, stage)
    )


def _pieces(job: Job, reductions: tuple[Traffic, ...]) -> tuple[Traffic, ...]:
    """Return reductions cut into pieces that become ready in turn, where they are overlapped."""
    pieces = min(MOST_BUCKETS, job.model.layers) if job.overlapped else 1
    cut = tuple(each._replace(nbytes=each.nbytes / pieces) for each in reductions)
    return cut * pieces
