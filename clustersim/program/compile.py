"""Compilation of a job to a program: for each rank class its steps, blocks, transfers and tail.

job --blocks--> work and time of each step
    --transfers--> traffic --links--> load, contention
    --fold--> one actor for each class of ranks, with its delays and its tail
"""

from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from clustersim.arrays import Booleans, Integers, numbered
from clustersim.plan.parallelism import Plan
from clustersim.program.blocks.blocks import Blocks
from clustersim.program.delays.delays import Delays
from clustersim.program.fold import Folded, JobTraffic, ReplicaTraffic
from clustersim.program.job import Job
from clustersim.program.links.contention import (
    NO_CONTENTION,
    contention_of,
    shared_collectives,
    shared_traffic,
)
from clustersim.program.links.in_use import LinksInUse
from clustersim.program.links.usage import InnerTraffic, LinkUsage
from clustersim.program.movement.transfers import (
    joint_collectives,
    norm_sync,
    send_name,
    stage_transfers,
)
from clustersim.program.program import Actor, Fused, Position, Program, Tail
from clustersim.program.schedules.steps import Code, Step, receiver_of
from clustersim.program.tail import expose_gathers, tails_of
from clustersim.traffic import Name, Traffic

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
    (folded,) = replicas.folded() if fold_replicas else replicas.unfolded()
    return compilation.program(folded)


class Compilation:
    """A job compiled up to its traffic; its programs differ in which replicas are folded.

    Parameters
    ----------
    fusion_bound : maximum change of a fused block by other traffic, share of its time
    met : links of the machine that other jobs use as well; None for a job that has it to itself

    Attributes
    ----------
    inner : the collectives inside blocks
    fused : whether collectives are fused into blocks
    """

    def __init__(self, job: Job, *, fusion_bound: float, met: Booleans | None = None) -> None:
        self._job = job
        self._blocks = blocks = Blocks(job)
        sends = stage_transfers(job)
        joint = joint_collectives(job, blocks.communicators)
        self.inner = inner = InnerTraffic(blocks)
        self._usage = LinkUsage(blocks, inner, sends, joint)
        bound = self._usage.fusion_bound()
        splits = inner.axes == ["tensor"] and not job.offload.any and met is None
        self._whole = bound <= fusion_bound or not splits
        self._split = {} if self._whole else inner.of_tensor_groups()
        self._contention = NO_CONTENTION
        if inner.axes and not splits:
            most = min(fusion_bound, MOST_SHARING)
            self._contention = contention_of(blocks, inner, sends, joint, most, met)
            bound = self._contention.bound if self._contention else bound
        own, of_stages = shared_traffic(inner, self._contention)
        self._own, self._joint = sends | self._split | own, joint | of_stages
        self._delays = Delays(blocks)
        self.fused = Fused(self._whole and not self._contention, bound)

    @cached_property
    def replicas(self) -> ReplicaTraffic:
        """The traffic of all replicas, of which some may be folded."""
        links = self._job.cluster.loaded
        return ReplicaTraffic([self.traffic], links.capacities, links.names)

    @property
    def traffic(self) -> JobTraffic:
        """The traffic of all replicas on the links of the machine."""
        return JobTraffic(self._own, self._joint, self._patterns)

    def program(self, folded: Folded) -> Program:
        """Return the program with some of the replicas folded, exact as `folded` is."""
        job, plan, carried = self._job, self._job.plan, self.carried
        tensor_ranks = plan.cell if folded.unfolded else 1
        return Program(
            actors=tuple(self._actors(folded, tensor_ranks)),
            wiring=plan.wired,
            microbatches=plan.microbatches,
            tensor_ranks=tensor_ranks,
            blocking=job.framework.pipeline.blocking,
            norm_sync=norm_sync(job),
            capacities=folded.links.capacities,
            link_names=folded.links.names,
            fused=self.fused,
            carried=carried,
            limits=self._usage.limits(),
            find_crossings=partial(self._usage.crossings, carried, self._split),
        )

    @cached_property
    def _patterns(self) -> Integers:
        """For each replica, a number for the times of its blocks and its delays."""
        blocks = self._blocks.communicators.pattern_numbers
        return numbered(np.vstack([blocks, self._delays.colours]).T)

    @cached_property
    def carried(self) -> LinksInUse:
        """Every link in use, with its load in the step."""
        return self._usage.carried()

    def _actors(self, folded: Folded, tensor_ranks: int) -> list[Actor]:
        """Return the actors: by replica class, then stage, then tensor rank where not folded."""
        plan, tails = self._job.plan, tails_of(self._job, folded)
        return [
            replace(actor, position=actor.position._replace(tensor_rank=rank)) if rank else actor
            for number, replicas in enumerate(folded.classes)
            for stage in range(plan.pipeline)
            for actor in [self._actor(folded, number, stage, tails[stage])]
            for rank in range(tensor_ranks)
        ]

    def _actor(self, folded: Folded, number: int, stage: int, tail: Tail) -> Actor:
        """Return a stage of a replica class."""
        job, traffic, replicas = self._job, folded.traffic[number], folded.classes[number]
        pattern = self._blocks.communicators.pattern(stage, replicas[0])
        delays = self._delays.of(stage, replicas[0], pattern)
        occupied = self._usage.seconds_of_others(stage)
        tail = delays.tail(expose_gathers(self._blocks, stage, pattern, tail, occupied))
        shared = shared_collectives(self._contention, stage, traffic, folded.joint)
        codes = job.order.times(stage)
        work = {
            code: self._blocks.fused(stage, code, pattern, shared)
            if self._whole
            else self._blocks.split(stage, code, pattern, traffic)
            for code in codes
        }
        return Actor(
            Position(number, stage),
            len(replicas) * (1 if folded.unfolded else job.plan.cell),
            replicas,
            {code: delays.block(code, block) for code, block in work.items()},
            {code: _send(job.plan, traffic, stage, code) for code in codes},
            tail,
            job.order,
            delays.extra,
        )


def _send(plan: Plan, of_class: dict[Name, Traffic], stage: int, code: Code) -> Traffic | None:
    """Return the transfer of a class after a step; None where the result stays on the stage."""
    receiver = receiver_of(Step(code.kind, 0, code.chunk), stage, plan.wired)
    if receiver is None or receiver[0] == stage:
        return None
    return of_class[send_name(code.kind, stage, code.chunk, plan.wired)]
