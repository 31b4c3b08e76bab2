"""Blocks: the kernels of one stage chunk for one microbatch, with what they take.

    kernels of a layer --cost--> seconds --times layers--> block of each (stage, chunk, kind)

Blocks are costed once for each distinct share of layers, not for each microbatch: a step of a
trillion parameters has 205,000 blocks of six kinds.
"""

import math
from collections.abc import Hashable, Sequence

from clustersim.cost import collectives as closed
from clustersim.cost.compute import Seconds, chain_seconds
from clustersim.program.collectives.ring import Load, ring_load
from clustersim.program.fold import Name
from clustersim.program.job import Job
from clustersim.program.ops import FORWARD, KINDS
from clustersim.traffic import Traffic
from clustersim.workload import kernels as work
from clustersim.workload.kernels import Collective, Kernel


class TensorRings:
    """The ring of every tensor group, and what blocks take with it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._loads: dict[tuple[int, int], Load] = {}
        self._patterns: dict[tuple[int, int], tuple[float, int]] = {}
        self._blocks: dict[Hashable, tuple[Seconds, Seconds]] = {}

    def load(self, stage: int, replica: int) -> Load:
        """Return the load of a group's ring on the links."""
        if (stage, replica) not in self._loads:
            group = self.job.placement.tensor_group(stage, replica)
            self._loads[stage, replica] = ring_load(self.job.cluster, [group])
        return self._loads[stage, replica]

    def pattern(self, stage: int, replica: int) -> tuple[float, int]:
        """Return what a block's time depends on: the ring's bandwidth [B/s] and its nodes."""
        if self.job.plan.tensor == 1:
            return math.inf, 1
        if (stage, replica) not in self._patterns:
            load = self.load(stage, replica)
            bandwidth = load.bandwidth(self.job.cluster.links.capacities)
            self._patterns[stage, replica] = bandwidth, load.nodes
        return self._patterns[stage, replica]

    def kinds(self, replica: int) -> Hashable:
        """Return the patterns of all stages of a replica."""
        return tuple(self.pattern(stage, replica) for stage in range(self.job.plan.pipeline))

    def cost(self, collective: Collective, pattern: tuple[float, int]) -> closed.Cost:
        """Return the closed form of a collective of a group."""
        bandwidth, nodes = pattern
        tensor, library = self.job.plan.tensor, self.job.cluster.library
        return closed.ring(
            collective.operation, collective.nbytes, tensor, nodes, bandwidth, library
        )

    def block(
        self, stage: int, chunk: int, kind: str, pattern: tuple[float, int]
    ) -> tuple[Seconds, Seconds]:
        """Return the time of a block, and of it what is computed a second time."""
        job = self.job
        layers = job.plan.layers_of(job.model, stage, chunk)
        key = (layers, *job.ends(stage, chunk), kind, pattern)
        if key not in self._blocks:
            self._blocks[key] = self._costed(stage, chunk, kind, layers, pattern)
        return self._blocks[key]

    def _costed(
        self, stage: int, chunk: int, kind: str, layers: int, pattern: tuple[float, int]
    ) -> tuple[Seconds, Seconds]:
        job = self.job

        def chain(kernels: Sequence[Kernel]) -> Seconds:
            return chain_seconds(
                kernels,
                job.cluster.accelerator,
                job.precision,
                lambda collective: self.cost(collective, pattern).seconds,
            )

        before, layer, again, after = block_kernels(job, stage, chunk, kind)
        repeated = chain(again) * layers
        seconds = chain(before) + chain(layer) * layers + repeated + chain(after)
        return seconds.dispatched(job.framework.dispatch.value), repeated

    def traffic(self, replica: int) -> dict[Name, Traffic]:
        """Return the collectives of a replica's tensor groups as traffic, by name."""
        found: dict[Name, Traffic] = {}
        for stage in range(self.job.plan.pipeline):
            pattern, load = self.pattern(stage, replica), self.load(stage, replica)
            for collective in collectives_of(self.job, stage):
                cost = self.cost(collective, pattern)
                found[tensor_name(stage, collective)] = Traffic(
                    f"{collective.operation} of tensor group, stage {stage}",
                    load.links,
                    load.weights,
                    cost.wire_bytes,
                    cost.latency,
                )
        return found


def block_kernels(
    job: Job, stage: int, chunk: int, kind: str
) -> tuple[list[Kernel], list[Kernel], list[Kernel], list[Kernel]]:
    """Return the kernels of a block: before, each layer, each layer again, and after."""
    part, first_last = job.part, job.ends(stage, chunk)
    first, last = first_last
    facts = job.framework.pipeline
    gathers = facts.gathers_forward if kind == FORWARD else facts.gathers_backward
    received = not (first if kind == FORWARD else last)
    times = gathers.value if facts.sharded.value and received else 0
    handed = work.boundary_gather(part, times)
    if kind == FORWARD:
        below = work.embedding_forward(part) if first else []
        above = work.head_forward(part) if last else []
        return handed + below, work.layer_forward(part), [], above
    above = work.head_backward(part) if last else []
    below = work.embedding_backward(part) if first else []
    again = work.layer_forward(part) if job.recompute == "full" else []
    return handed + above, work.layer_backward(part), again, below


def collectives_of(job: Job, stage: int) -> list[Collective]:
    """Return each different collective of a stage's blocks once."""
    found: dict[tuple[str, float], Collective] = {}
    for chunk in range(job.plan.chunks):
        for kind in KINDS:
            for kernels in block_kernels(job, stage, chunk, kind):
                for kernel in kernels:
                    if isinstance(kernel, Collective):
                        found[kernel.operation, kernel.nbytes] = kernel
    return list(found.values())


def tensor_name(stage: int, collective: Collective) -> Name:
    """Return the name of a collective of a stage's tensor groups."""
    return ("tensor", collective.operation, stage, collective.nbytes)


def cut_at_collectives(
    job: Job, stage: int, chunk: int, kind: str, dispatch: float, traffic: dict[Name, Traffic]
) -> tuple[float | Traffic, ...]:
    """Return a block as times of kernels with its collectives between them.

    Parameters
    ----------
    dispatch : by how much the host is slower than the whole block, at the end of it [s]
    """
    before, layer, again, after = block_kernels(job, stage, chunk, kind)
    layers = job.plan.layers_of(job.model, stage, chunk)
    segments: list[float | Traffic] = []
    seconds = 0.0
    for kernel in [*before, *((again + layer) * layers), *after]:
        if isinstance(kernel, Collective):
            segments += [seconds, traffic[tensor_name(stage, kernel)]]
            seconds = 0.0
        else:
            device, precision = job.cluster.accelerator, job.precision
            seconds += chain_seconds([kernel], device, precision, lambda _: 0.0).compute
    return (*segments, seconds + dispatch)


def tensor_wire(job: Job, rings: TensorRings, stage: int, pattern: tuple[float, int]) -> float:
    """Return what each hop of a tensor group's ring carries for one microbatch [B]."""
    wire = 0.0
    for chunk in range(job.plan.chunks):
        layers = job.plan.layers_of(job.model, stage, chunk)
        for kind in KINDS:
            before, layer, again, after = block_kernels(job, stage, chunk, kind)
            for kernels, times in ((before, 1), (layer, layers), (again, layers), (after, 1)):
                for kernel in kernels:
                    if isinstance(kernel, Collective):
                        wire += times * rings.cost(kernel, pattern).wire_bytes
    return wire
