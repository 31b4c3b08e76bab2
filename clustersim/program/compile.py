"""Compilation of a job to a program: for each rank class its steps, blocks, transfers and tail.

job --blocks--> work of each step
    --transfers--> traffic --fold--> one actor for each class of ranks
    --link usage--> load of the links
"""

from functools import cached_property

import numpy as np

from clustersim.arrays import Integers, numbered
from clustersim.cost.compute import pass_seconds
from clustersim.plan.parallelism import Plan
from clustersim.program.blocks.blocks import Blocks, split_at_collectives
from clustersim.program.collectives.axes import Pattern
from clustersim.program.delays.delays import Delays
from clustersim.program.fold import Folded, ReplicaTraffic
from clustersim.program.job import Job
from clustersim.program.links.contention import (
    NO_CONTENTION,
    SharedCollectives,
    contention_of,
    shared_traffic,
)
from clustersim.program.links.in_use import LinksInUse
from clustersim.program.links.tables import Name
from clustersim.program.links.usage import LinkUsage
from clustersim.program.movement.offload import host_tail
from clustersim.program.movement.parameter_gather import copy_seconds, expose_gathers
from clustersim.program.movement.sharding import reduces_in_blocks
from clustersim.program.movement.transfers import (
    joint_collectives,
    norm_sync,
    send_name,
    stage_transfers,
)
from clustersim.program.program import Actor, Block, Fused, Position, Program, Tail
from clustersim.program.schedules.steps import Code, Step, completing, receiver_of
from clustersim.traffic import Traffic
from clustersim.workload.kernels import Collective

MOST_BUCKETS = 16
"""Maximum number of pieces in which an overlapped gradient reduction is replayed."""

MOST_SHARING = 0.01
"""Maximum change of a block by collectives that share links with its own, share of its time."""


def compile_program(job: Job, *, fold_replicas: bool, fusion_bound: float) -> Program:
    """Return the program of a job.

    Parameters
    ----------
    fold_replicas : whether ranks that behave alike are replayed as one
    fusion_bound : maximum change of a fused block by other traffic, share of its time
    """
    compilation = Compilation(job, fusion_bound=fusion_bound)
    replicas = compilation.replicas
    return compilation.program(replicas.folded() if fold_replicas else replicas.unfolded())


class Compilation:
    """A job compiled up to its traffic; its programs differ in which replicas are folded.

    Parameters
    ----------
    fusion_bound : maximum change of a fused block by other traffic, share of its time

    Attributes
    ----------
    fused : whether collectives are fused into blocks
    """

    def __init__(self, job: Job, *, fusion_bound: float) -> None:
        self._job = job
        self._blocks = blocks = Blocks(job)
        sends = stage_transfers(job)
        joint = joint_collectives(job, blocks.communicators)
        self._usage = LinkUsage(job, blocks, sends, joint)
        bound = self._usage.fusion_bound()
        self._whole = bound <= fusion_bound or blocks.axes != ["tensor"] or job.offload.any
        self._inner = {} if self._whole else blocks.traffic()
        contention = NO_CONTENTION
        if blocks.axes and (blocks.axes != ["tensor"] or job.offload.any):
            sent, most = sends | self._inner, min(fusion_bound, MOST_SHARING)
            contention = contention_of(job, blocks, sent, joint, most)
        own, of_stages = shared_traffic(job, blocks, contention)
        self._own, self._joint = sends | self._inner | own, joint | of_stages
        self._contention = contention
        self._delays = Delays(job, blocks)
        bound = contention.bound if contention else bound
        self.fused = Fused(self._whole and not contention, bound)

    @cached_property
    def replicas(self) -> ReplicaTraffic:
        """The traffic of all replicas, of which some may be folded."""
        links = self._job.cluster.links
        return ReplicaTraffic(self._own, self._joint, links.capacities, links.names, self._patterns)

    def program(self, folded: Folded) -> Program:
        """Return the program with some of the replicas folded, exact as `folded` is."""
        job, plan, carried = self._job, self._job.plan, self._carried
        tensor_ranks = plan.cell if folded.unfolded else 1
        return Program(
            actors=tuple(self._actors(folded, tensor_ranks)),
            wiring=plan.wired,
            microbatches=plan.microbatches,
            tensor_ranks=tensor_ranks,
            blocking=job.software.pipeline.blocking,
            norm_sync=norm_sync(job),
            capacities=folded.links.capacities,
            link_names=folded.links.names,
            fused=self.fused,
            carried=carried,
            limits=self._usage.limits(),
            crossings=self._usage.crossings(carried, self._inner),
        )

    @cached_property
    def _patterns(self) -> Integers:
        """For each replica, a number for the times of its blocks and its delays."""
        blocks = self._blocks.communicators.pattern_numbers
        return numbered(np.vstack([blocks, self._delays.colours]).T)

    @cached_property
    def _carried(self) -> LinksInUse:
        return self._usage.carried()

    def _actors(self, folded: Folded, tensor_ranks: int) -> list[Actor]:
        """Return the actors: by replica class, then stage, then tensor rank where not folded."""
        job, plan, blocks = self._job, self._job.plan, self._blocks
        tails = _tails(job, folded)
        others = [self._usage.seconds_of_others(stage) for stage in range(plan.pipeline)]
        actors = []
        for number, replicas in enumerate(folded.classes):
            traffic = folded.traffic[number]
            for stage in range(plan.pipeline):
                pattern = blocks.pattern(stage, replicas[0])
                tail = expose_gathers(job, blocks, stage, pattern, tails[stage], others[stage])
                own = None if self._whole else traffic
                shared = SharedCollectives(self._contention, stage, traffic, folded.joint)
                codes = job.order.times(stage)
                late = self._delays.of(stage, replicas[0], pattern)
                work = {
                    code: late.block(code, _block(job, blocks, stage, code, pattern, own, shared))
                    for code in codes
                }
                tail = late.tail(tail)
                send = {code: _send(plan, traffic, stage, code) for code in codes}
                multiplicity = len(replicas) * plan.cell // tensor_ranks
                for tensor_rank in range(tensor_ranks):
                    position = Position(number, stage, tensor_rank)
                    actors.append(
                        Actor(
                            position,
                            multiplicity,
                            replicas,
                            work,
                            send,
                            tail,
                            job.order,
                            late.extra,
                        )
                    )
        return actors


def _block(
    job: Job, blocks: Blocks, stage: int, code: Code, pattern: Pattern,
    own: dict[Name, Traffic] | None, shared: SharedCollectives,
) -> Block:  # fmt: skip
    """Return a block, fused unless the traffic of its class is given or collectives share links."""
    seconds, recomputed = blocks.step(stage, code, pattern)
    if own is None:
        units = blocks.units(stage, code, pattern, shared)
        if units is not None:
            seconds, recomputed = blocks.block(stage, code.chunk, code.kind, pattern)
        return Block(seconds, recomputed, (seconds.total,), units)

    def uncontended(collective: Collective) -> float:
        return blocks.communicators.cost(collective, pattern).seconds

    dispatch = seconds.dispatch
    segments = split_at_collectives(job, stage, code.chunk, code.kind, dispatch, own, uncontended)
    return Block(seconds, recomputed, segments)


def _send(plan: Plan, of_class: dict[Name, Traffic], stage: int, code: Code) -> Traffic | None:
    """Return the transfer of a class after a step; None where the result stays on the stage."""
    receiver = receiver_of(Step(code.kind, 0, code.chunk), stage, plan.wired)
    if receiver is None or receiver[0] == stage:
        return None
    return of_class[send_name(code.kind, stage, code.chunk, plan.wired)]


def _tails(job: Job, folded: Folded) -> list[Tail]:
    """Return for each stage the operations after its last step."""
    last = job.plan.pipeline - 1
    of_stages: dict[Name, list[Traffic]] = {}
    for (kind, *place), traffic in folded.joint.items():
        of_stages.setdefault((kind, *place[:1]), []).append(traffic)
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


def _optimiser_seconds(job: Job, stage: int) -> float:
    """Return the time of the optimiser step of a stage [s]."""
    if job.offload.host_optimiser:
        return host_tail(job, stage, reduced=reduces_in_blocks(job) or job.plan.copies == 1)
    passes, weights = job.software.optimiser, job.weights
    trained = weights.trained(stage)
    moved = passes.held * weights.on_rank(trained)
    moved += passes.updated * weights.on_rank(trained, sharded=job.plan.zero >= 1)
    return pass_seconds(moved, job.cluster.accelerator) + copy_seconds(job, stage)


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
