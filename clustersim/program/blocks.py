"""Blocks: the kernels of one stage chunk for one microbatch, with what they take.

    kernels of a layer --cost--> seconds --times layers--> block of each (stage, chunk, kind)

Blocks are costed once for each distinct share of layers, not for each microbatch: a step of a
trillion parameters has 205,000 blocks of six kinds.
"""

from collections.abc import Hashable, Sequence

from clustersim.cost.collectives import Cost
from clustersim.cost.compute import Seconds, chain_seconds
from clustersim.program.collectives.communicator import Communicator
from clustersim.program.fold import Name
from clustersim.program.job import Job
from clustersim.program.ops import FORWARD, KINDS
from clustersim.traffic import Traffic
from clustersim.workload import kernels as work
from clustersim.workload.kernels import Collective, Kernel


class TensorGroups:
    """The communicator of every tensor group, and what blocks take with it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._communicators: dict[tuple[int, int], Communicator] = {}
        self._patterns: dict[tuple[int, int], Hashable] = {}
        self._examples: dict[Hashable, Communicator] = {}
        self._blocks: dict[Hashable, tuple[Seconds, Seconds]] = {}
        self._moved: dict[Hashable, dict[tuple[str, str], float]] = {}
        self._carried: dict[tuple[int, int], dict[int, float]] = {}
        self._operations = _operations(job)

    def communicator(self, stage: int, replica: int) -> Communicator:
        """Return the communicator of a group."""
        key = stage, replica
        if key not in self._communicators:
            group = self.job.placement.tensor_group(stage, replica)
            self._communicators[key] = self.job.communicator([group])
        return self._communicators[key]

    def pattern(self, stage: int, replica: int) -> Hashable:
        """Return what a block's time depends on: how the group lies and what its links let by."""
        if self.job.plan.tensor == 1:
            return None
        key = stage, replica
        if key not in self._patterns:
            communicator = self.communicator(stage, replica)
            pattern = communicator.signature(self._operations)
            self._patterns[key] = pattern
            self._examples.setdefault(pattern, communicator)
        return self._patterns[key]

    def kinds(self, replica: int) -> Hashable:
        """Return the patterns of all stages of a replica."""
        return tuple(self.pattern(stage, replica) for stage in range(self.job.plan.pipeline))

    def cost(self, collective: Collective, pattern: Hashable) -> Cost:
        """Return the closed form of a collective of a group."""
        return self._examples[pattern].cost(collective.operation, collective.nbytes)

    def block(
        self, stage: int, chunk: int, kind: str, pattern: Hashable
    ) -> tuple[Seconds, Seconds]:
        """Return the time of a block, and of it what is computed a second time."""
        job = self.job
        layers = job.plan.layers_of(job.model, stage, chunk)
        key = (layers, *job.ends(stage, chunk), kind, pattern)
        if key not in self._blocks:
            self._blocks[key] = self._costed(stage, chunk, kind, layers, pattern)
        return self._blocks[key]

    def _costed(
        self, stage: int, chunk: int, kind: str, layers: int, pattern: Hashable
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
            communicator = self.communicator(stage, replica)
            for collective in collectives_of(self.job, stage):
                found[tensor_name(stage, collective)] = communicator.traffic(
                    f"{collective.operation} of tensor group, stage {stage}",
                    collective.operation,
                    collective.nbytes,
                )
        return found

    def carried(self, stage: int, replica: int) -> dict[int, float]:
        """Return what a group's collectives put on each link for one microbatch [B]."""
        key = stage, replica
        if key not in self._carried:
            carried: dict[int, float] = {}
            streams = self._streams(stage, self.pattern(stage, replica))
            for (algorithm, operation), each in streams.items():
                load = self.communicator(stage, replica).load(algorithm, operation)
                for link, share in load.shares.items():
                    carried[link] = carried.get(link, 0.0) + share * each
            self._carried[key] = carried
        return self._carried[key]

    def _streams(self, stage: int, pattern: Hashable) -> dict[tuple[str, str], float]:
        """Return what a stage's groups of one pattern move by each algorithm and operation [B].

        Of the buffers of one microbatch, protocol counted.
        """
        key = stage, pattern
        if key not in self._moved:
            moved: dict[tuple[str, str], float] = {}
            example = self._examples[pattern]
            for (operation, nbytes), times in _calls(self.job, stage).items():
                cost = example.cost(operation, nbytes)
                way = cost.algorithm, operation
                wire = cost.nbytes / example.load(*way).unit
                moved[way] = moved.get(way, 0.0) + times * wire
            self._moved[key] = moved
        return self._moved[key]


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


def _operations(job: Job) -> list[str]:
    """Return what the ranks of tensor groups do together, in order of the alphabet."""
    stages = range(job.plan.pipeline)
    return sorted({each.operation for stage in stages for each in collectives_of(job, stage)})


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


def _calls(job: Job, stage: int) -> dict[tuple[str, float], int]:
    """Return how often a tensor group of a stage runs each collective for one microbatch."""
    calls: dict[tuple[str, float], int] = {}
    for chunk in range(job.plan.chunks):
        layers = job.plan.layers_of(job.model, stage, chunk)
        for kind in KINDS:
            before, layer, again, after = block_kernels(job, stage, chunk, kind)
            for kernels, times in ((before, 1), (layer, layers), (again, layers), (after, 1)):
                for kernel in kernels:
                    if isinstance(kernel, Collective):
                        call = kernel.operation, kernel.nbytes
                        calls[call] = calls.get(call, 0) + times
    return calls
