"""Blocks: the kernels of one stage chunk for one microbatch, with what they take.

    operations of a layer --cost--> seconds --over the layers--> block of each (stage, chunk, kind)

Layers are costed once for each that differs, not for each microbatch: a step of a trillion
parameters has 205,000 blocks of six kinds.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from clustersim.cost.compute import Seconds, beside_step, chain_seconds
from clustersim.program.communicators import OF_CELL, Groups, Pattern
from clustersim.program.fold import Name
from clustersim.program.job import Job, StackedLayer
from clustersim.program.movement.around_layers import Moves, moves_of
from clustersim.program.movement.offload import HostLink
from clustersim.program.movement.overlap import Move, Unit, total_seconds
from clustersim.program.movement.sharding import share_seconds
from clustersim.program.steps import BACKWARD, FORWARD, INPUT, WEIGHT, WHOLE, Code
from clustersim.traffic import Traffic
from clustersim.workload.kernels import Axis, Collective, Kernel, Overlapped, flat
from clustersim.workload.layers.ends import boundary_gather
from clustersim.workload.offload import HostCopy
from clustersim.workload.ops import Op, backward, forward, of_inputs, of_weights


class Blocks:
    """The blocks of a job, and the groups that their collectives run in."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._calls = {stage: _calls(job, stage) for stage in range(job.plan.pipeline)}
        self.groups = Groups(job, _operations(self._calls.values()))
        self._blocks: dict[object, tuple[Seconds, Seconds]] = {}
        self._layers: dict[object, tuple[Seconds, Seconds]] = {}
        self._carried: dict[tuple[int, int], dict[int, float]] = {}
        self._host = HostLink(job) if job.offload.any else None

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

    def step(self, stage: int, code: Code, pattern: Pattern) -> tuple[Seconds, Seconds]:
        """Return the same of a step, with what it runs beside."""
        own, again = self.block(stage, code.chunk, code.kind, pattern)
        if code.paired is None:
            return own, again
        kind, chunk = code.paired
        other, _ = self.block(stage, chunk, kind, pattern)
        own = beside_step(own, other, self.job.cluster.occupied)
        return self.job.dispatched(own), again

    def _costed(
        self, stage: int, chunk: int, kind: str, pattern: Pattern
    ) -> tuple[Seconds, Seconds]:
        job = self.job
        before, after = around(job, stage, chunk, kind)
        seconds = self._chain(before, pattern) + self._chain(after, pattern)
        seconds = seconds if kind == FORWARD else seconds.of_backward()
        repeated = Seconds()
        for stacked, times in Counter(job.stacked(stage, chunk)).items():
            own, again = self._layer(stacked, kind, pattern)
            seconds, repeated = seconds + (own + again) * times, repeated + again * times
        if moves := moves_of(job, stage, chunk, kind):
            seconds += self._moved(moves, (stage, chunk, kind), pattern)
        return job.dispatched(seconds), repeated

    def _moved(self, moves: Moves, block: tuple[int, int, str], pattern: Pattern) -> Seconds:
        """Return what a block takes longer since its weights and gradients come and go.

        What runs beside a collective has the rest of the device, as in `cost.beside_seconds`.
        """
        stage, chunk, kind = block
        before, after = around(self.job, stage, chunk, kind)
        layers = []
        for stacked in in_order(self.job, stage, chunk, kind):
            own, again = self._layer(stacked, kind, pattern)
            layers.append((own + again).busy)
        ends = [self._chain(kernels, pattern).busy for kernels in (before, after)]
        units = [
            Unit(busy, self._carry(fetch, pattern), self._carry(push, pattern))
            for busy, (fetch, push) in zip([ends[0], *layers, ends[1]], moves, strict=True)
        ]
        sharding = self.job.framework.sharding
        ahead = 0 if sharding is None else sharding.prefetch.value
        exposed = total_seconds(units, ahead) - sum(unit.compute for unit in units)
        carried = [move for unit in units for move in (*unit.fetch, *unit.push)]
        asked = [what for move in moves for part in move for what in part]
        beside = share_seconds(self.job, (what for what in asked if isinstance(what, Collective)))
        told = _exposed(exposed, carried)
        network = sum(move.seconds for move in carried if move.channel == "network")
        slower = self.job.cluster.occupied * max(0.0, network - told.data) if ahead else 0.0
        return told + Seconds(data=beside, slowed=slower)

    def _carry(self, what: Sequence[Collective | HostCopy], pattern: Pattern) -> tuple[Move, ...]:
        """Return what moves take, each on its channel."""
        return tuple(
            Move("network", self.groups.cost(each, pattern).seconds)
            if isinstance(each, Collective)
            else Move(each.direction, self._host.seconds(each) if self._host else 0.0)
            for each in what
        )

    def _layer(self, stacked: StackedLayer, kind: str, pattern: Pattern) -> tuple[Seconds, Seconds]:
        """Return what a layer takes, and what running parts of it again adds to that."""
        key = stacked, kind, pattern
        if key not in self._layers:
            ops = self.job.ops(stacked.layer)
            repeats = kind in (BACKWARD, INPUT)
            again = [op for op in ops if op.name in stacked.recomputed and repeats]
            captured = self.job.captured(stacked.layer)
            graph = Seconds(replays=float(bool(captured)))
            own = self._ops(ops, kind, pattern, captured) + graph
            self._layers[key] = own, self._ops(again, FORWARD, pattern, captured)
        return self._layers[key]

    def _ops(
        self, ops: Iterable[Op], kind: str, pattern: Pattern, captured: Collection[str]
    ) -> Seconds:
        """Return what operations take forward or backward, some of them captured in a graph."""
        total = Seconds()
        for op in ops:
            kernels = op.forward if kind == FORWARD else part_of(op.backward, kind)
            seconds = self._chain(kernels, pattern).skewed(op.skew)
            seconds = seconds if kind == FORWARD else seconds.of_backward()
            total += seconds.captured() if op.name in captured else seconds
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


def _exposed(seconds: float, moves: Sequence[Move]) -> Seconds:
    """Return exposed time, shared out over network and host as their moves take."""
    taken = sum(move.seconds for move in moves)
    if not taken:
        return Seconds()
    network = sum(move.seconds for move in moves if move.channel == "network") / taken
    return Seconds(data=seconds * network, host=seconds * (1 - network), launches=len(moves))


def in_order(job: Job, stage: int, chunk: int, kind: str) -> tuple[StackedLayer, ...]:
    """Return the layers of a chunk as a block runs through them."""
    stacked = job.stacked(stage, chunk)
    return stacked if kind == FORWARD else stacked[::-1]


class Call(NamedTuple):
    """A collective inside blocks."""

    axis: Axis
    operation: str
    nbytes: float


def part_of(kernels: Iterable[Kernel], kind: str) -> list[Kernel]:
    """Return what of the kernels of a backward a step of some kind runs: all, or its part."""
    if kind == INPUT:
        return of_inputs(kernels)
    return of_weights(kernels) if kind == WEIGHT else list(kernels)


def around(job: Job, stage: int, chunk: int, kind: str) -> tuple[list[Kernel], list[Kernel]]:
    """Return the kernels of a block before its layers and after them."""
    first, last = job.ends(stage, chunk)
    facts = job.framework.pipeline
    gathers = facts.gathers_forward if kind == FORWARD else facts.gathers_backward
    received = not (first if kind == FORWARD else last)
    times = gathers.value if facts.sharded.value and received else 0
    handed = boundary_gather(job.shard, times)
    if kind == FORWARD:
        below = forward(job.embedding) if first else []
        return handed + below, forward(job.head) if last else []
    above = part_of(handed + (backward(job.head) if last else []), kind)
    return above, part_of(backward(job.embedding), kind) if first else []


def layer_kernels(job: Job, stacked: StackedLayer, kind: str) -> list[Kernel]:
    """Return the kernels of a layer, those that are run again first."""
    ops = job.ops(stacked.layer)
    if kind == FORWARD:
        return forward(ops)
    repeated = forward(op for op in ops if op.name in stacked.recomputed) if kind != WEIGHT else []
    return repeated + part_of(backward(ops), kind)


def _calls(job: Job, stage: int) -> Counter[Call]:
    """Return how often a rank of a stage takes part in each collective for one microbatch."""
    calls: Counter[Call] = Counter()

    def count(kernels: Iterable[Kernel], times: int) -> None:
        for kernel in flat(list(kernels)):
            if isinstance(kernel, Collective):
                calls[Call(kernel.axis, kernel.operation, kernel.nbytes)] += times

    for chunk in range(job.plan.chunks):
        for kind in WHOLE:
            for kernels in around(job, stage, chunk, kind):
                count(kernels, 1)
            for stacked, times in Counter(job.stacked(stage, chunk)).items():
                count(layer_kernels(job, stacked, kind), times)
            for fetch, push in moves_of(job, stage, chunk, kind):
                count([each for each in (*fetch, *push) if isinstance(each, Collective)], 1)
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
    job: Job, stage: int, chunk: int, kind: str, dispatch: float, traffic: dict[Name, Traffic],
    alone: Callable[[Collective], float],
) -> tuple[float | Traffic, ...]:  # fmt: skip
    """Return a block as times of kernels with its collectives between them.

    What runs beside a collective goes on in its time as far as that takes on free links; the rest
    follows it.

    Parameters
    ----------
    alone : time of a collective on free links [s]
    dispatch : by how much the host is slower than the whole block, at the end of it [s]
    """
    before, after = around(job, stage, chunk, kind)
    layers = [layer_kernels(job, stacked, kind) for stacked in job.stacked(stage, chunk)]
    segments: list[float | Traffic] = []
    seconds, cluster = 0.0, job.cluster
    for kernel in [*before, *(kernel for layer in layers for kernel in layer), *after]:
        if isinstance(kernel, Collective | Overlapped):
            moved = kernel if isinstance(kernel, Collective) else kernel.moved
            kernels = () if isinstance(kernel, Collective) else kernel.kernels
            name = tensor_name(stage, moved.operation, moved.nbytes)
            segments += [seconds, traffic[name]]
            inner = chain_seconds(kernels, cluster.accelerator, alone).compute
            seconds = max(0.0, inner - (1 - cluster.occupied) * alone(moved))
        else:
            seconds += chain_seconds([kernel], cluster.accelerator, alone).compute
    return (*segments, seconds + dispatch)
