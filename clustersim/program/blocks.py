"""Blocks: the kernels of one stage chunk for one microbatch, with what they take.

    operations of a layer --cost--> seconds --over the layers--> block of each (stage, chunk, kind)

Layers are costed once for each that differs, not for each microbatch: a step of a trillion
parameters has 205,000 blocks of six kinds.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clustersim.cost.compute import Seconds, chain_seconds
from clustersim.program.fold import Name
from clustersim.program.groups import OF_CELL, Groups, Pattern
from clustersim.program.job import Job, StackedLayer
from clustersim.program.ops import FORWARD, KINDS
from clustersim.traffic import Traffic
from clustersim.workload.kernels import Axis, Collective, Kernel, flat
from clustersim.workload.layers.ends import boundary_gather
from clustersim.workload.ops import Op, backward, forward


class Blocks:
    """The blocks of a job, and the groups that their collectives run in."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._calls = {stage: _calls(job, stage) for stage in range(job.plan.pipeline)}
        self.groups = Groups(job, _operations(self._calls.values()))
        self._blocks: dict[object, tuple[Seconds, Seconds]] = {}
        self._layers: dict[object, tuple[Seconds, Seconds]] = {}
        self._carried: dict[tuple[int, int], dict[int, float]] = {}

    @property
    def axes(self) -> list[Axis]:
        """The axes whose groups work together inside blocks."""
        return list(self.groups.operations)

    def pattern(self, stage: int, replica: int) -> Pattern:
        """Return what the times of the blocks of a stage of a replica depend on."""
        return self.groups.pattern(stage, replica)

    def block(self, stage: int, chunk: int, kind: str, pattern: Pattern) -> tuple[Seconds, Seconds]:
        """Return the time of a block, and of it what is computed a second time."""
        job = self.job
        key = job.stacked(stage, chunk), job.ends(stage, chunk), kind, pattern
        if key not in self._blocks:
            self._blocks[key] = self._costed(stage, chunk, kind, pattern)
        return self._blocks[key]

    def _costed(
        self, stage: int, chunk: int, kind: str, pattern: Pattern
    ) -> tuple[Seconds, Seconds]:
        job = self.job
        before, after = around(job, stage, chunk, kind)
        seconds = self._chain(before, pattern) + self._chain(after, pattern)
        repeated = Seconds()
        for stacked, times in Counter(job.stacked(stage, chunk)).items():
            own, again = self._layer(stacked, kind, pattern)
            seconds, repeated = seconds + (own + again) * times, repeated + again * times
        return seconds.dispatched(job.framework.dispatch.value), repeated

    def _layer(self, stacked: StackedLayer, kind: str, pattern: Pattern) -> tuple[Seconds, Seconds]:
        """Return what a layer takes, and what running parts of it again adds to that."""
        key = stacked, kind, pattern
        if key not in self._layers:
            ops = self.job.ops(stacked.layer)
            again = [op for op in ops if op.name in stacked.again and kind != FORWARD]
            own = self._ops(ops, kind, pattern), self._ops(again, FORWARD, pattern)
            self._layers[key] = own
        return self._layers[key]

    def _ops(self, ops: Iterable[Op], kind: str, pattern: Pattern) -> Seconds:
        """Return what operations take forward or backward."""
        total = Seconds()
        for op in ops:
            total += self._chain(op.forward if kind == FORWARD else op.backward, pattern)
        return total

    def _chain(self, kernels: Iterable[Kernel], pattern: Pattern) -> Seconds:
        def moved(what: Collective) -> float:
            return self.groups.cost(what, pattern).seconds

        cluster = self.job.cluster
        return chain_seconds(kernels, cluster.accelerator, moved, cluster.occupied)

    # --- links ---------------------------------------------------------------------------------

    def traffic(self, replica: int) -> dict[Name, Traffic]:
        """Return the collectives of a replica's tensor groups as traffic, by name."""
        found: dict[Name, Traffic] = {}
        for stage, calls in self._calls.items():
            communicator = self.groups.communicator("tensor", stage, replica)
            for axis, operation, nbytes in calls:
                if axis == "tensor":
                    found[tensor_name(stage, operation, nbytes)] = communicator.traffic(
                        f"{operation} of tensor group, stage {stage}", operation, nbytes
                    )
        return found

    def carried(self, stage: int, replica: int) -> dict[int, float]:
        """Return what the collectives of a cell put on each link for one microbatch [B]."""
        key = stage, replica
        if key not in self._carried:
            self._carried[key] = self.on_links(OF_CELL, stage, replica)
        return self._carried[key]

    def carried_by_stage(self, stage: int) -> dict[int, float]:
        """Return what collectives of all replicas of a stage put on each link [B]."""
        others = tuple(axis for axis in self.axes if axis not in OF_CELL)
        return self.on_links(others, stage, 0)

    def on_links(self, axes: Sequence[Axis], stage: int, replica: int) -> dict[int, float]:
        """Return what collectives of some axes put on each link for one microbatch [B]."""
        total: dict[int, float] = {}
        for axis in axes:
            calls = [
                (operation, nbytes, times)
                for (whose, operation, nbytes), times in self._calls[stage].items()
                if whose == axis
            ]
            if calls:
                for link, nbytes in self.groups.carried(axis, stage, replica, calls).items():
                    total[link] = total.get(link, 0.0) + nbytes
        return total


class Call(NamedTuple):
    """A collective inside blocks."""

    axis: Axis
    operation: str
    nbytes: float


def around(job: Job, stage: int, chunk: int, kind: str) -> tuple[list[Kernel], list[Kernel]]:
    """Return the kernels of a block before its layers and after them."""
    first, last = job.ends(stage, chunk)
    facts = job.framework.pipeline
    gathers = facts.gathers_forward if kind == FORWARD else facts.gathers_backward
    received = not (first if kind == FORWARD else last)
    times = gathers.value if facts.sharded.value and received else 0
    handed = boundary_gather(job.part, times)
    if kind == FORWARD:
        below = forward(job.embedding) if first else []
        return handed + below, forward(job.head) if last else []
    above = backward(job.head) if last else []
    return handed + above, backward(job.embedding) if first else []


def layer_kernels(job: Job, stacked: StackedLayer, kind: str) -> list[Kernel]:
    """Return the kernels of a layer, those that are run again first."""
    ops = job.ops(stacked.layer)
    if kind == FORWARD:
        return forward(ops)
    return forward(op for op in ops if op.name in stacked.again) + backward(ops)


def _calls(job: Job, stage: int) -> Counter[Call]:
    """Return how often a rank of a stage takes part in each collective for one microbatch."""
    calls: Counter[Call] = Counter()

    def count(kernels: Iterable[Kernel], times: int) -> None:
        for kernel in flat(list(kernels)):
            if isinstance(kernel, Collective):
                calls[Call(kernel.axis, kernel.operation, kernel.nbytes)] += times

    for chunk in range(job.plan.chunks):
        for kind in KINDS:
            for kernels in around(job, stage, chunk, kind):
                count(kernels, 1)
            for stacked, times in Counter(job.stacked(stage, chunk)).items():
                count(layer_kernels(job, stacked, kind), times)
    return calls


def _operations(calls: Iterable[Counter[Call]]) -> dict[Axis, list[str]]:
    """Return for each axis what its groups do together, in order of the alphabet."""
    found: dict[Axis, set[str]] = {}
    for each in calls:
        for axis, operation, _ in each:
            found.setdefault(axis, set()).add(operation)
    return {axis: sorted(found[axis]) for axis in sorted(found)}


# --- blocks in pieces -----------------------------------------------------------------------------


def tensor_name(stage: int, operation: str, nbytes: float) -> Name:
    """Return the name of a collective of a stage's tensor groups."""
    return ("tensor", operation, stage, nbytes)


def cut_at_collectives(
    job: Job, stage: int, chunk: int, kind: str, dispatch: float, traffic: dict[Name, Traffic]
) -> tuple[float | Traffic, ...]:
    """Return a block as times of kernels with its collectives between them.

    Parameters
    ----------
    dispatch : by how much the host is slower than the whole block, at the end of it [s]
    """
    before, after = around(job, stage, chunk, kind)
    layers = [layer_kernels(job, stacked, kind) for stacked in job.stacked(stage, chunk)]
    segments: list[float | Traffic] = []
    seconds = 0.0
    for kernel in [*before, *(kernel for layer in layers for kernel in layer), *after]:
        if isinstance(kernel, Collective):
            name = tensor_name(stage, kernel.operation, kernel.nbytes)
            segments += [seconds, traffic[name]]
            seconds = 0.0
        else:
            device = job.cluster.accelerator
            seconds += chain_seconds([kernel], device, lambda _: 0.0).compute
    return (*segments, seconds + dispatch)
