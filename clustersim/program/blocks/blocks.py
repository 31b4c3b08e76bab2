"""Blocks: the kernels of one stage chunk for one microbatch, and their time.

    operations of a layer --cost--> seconds --over the layers--> block of each (stage, chunk, kind)

The time of each different layer is computed once, not for each microbatch: a step of a trillion
parameters has 205,000 blocks of six kinds.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from clustersim.arrays import adjacent
from clustersim.cost.compute import Seconds, chain_seconds, overlapped_step
from clustersim.program.blocks.expert_exchange import OPPOSITE, overlapped_exchange
from clustersim.program.blocks.kernels import kernels_of_ends, layer_kernels, layers_in_order
from clustersim.program.blocks.layer_times import AT_ONCE, Late, LayerTimes
from clustersim.program.blocks.moves import Moves, moves_of
from clustersim.program.blocks.units import Move, Shared, Unit, Units, total_seconds
from clustersim.program.collectives.axes import OF_CELL, Communicators, Pattern
from clustersim.program.job import Job
from clustersim.program.links.tables import Name
from clustersim.program.movement.limiter import limited
from clustersim.program.movement.offload import HostLink
from clustersim.program.movement.sharding import local_seconds
from clustersim.program.schedules.steps import WHOLE, Code
from clustersim.timeline import FORWARD
from clustersim.traffic import LinkRows, Traffic, TrafficRows, added
from clustersim.workload.kernels import Axis, Collective, Kernel, Overlapped, flat
from clustersim.workload.offload import HostCopy

if TYPE_CHECKING:
    from clustersim.program.links.contention import SharedCollectives


class Call(NamedTuple):
    """A collective inside blocks."""

    axis: Axis
    operation: str
    nbytes: float


class Blocks:
    """The blocks of a job, and the communicators of their collectives."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._by_role = _calls_by_stage(job)
        self._calls = {stage: inner + moves for stage, (inner, moves) in self._by_role.items()}
        self.communicators = Communicators(job, _operations(self._calls.values()))
        self._blocks: dict[object, tuple[Seconds, Seconds]] = {}
        self._times = LayerTimes(job, self._communication)
        self._host = HostLink(job) if job.offload.any else None

    @property
    def axes(self) -> list[Axis]:
        """The axes with collectives inside blocks."""
        return list(self.communicators.operations)

    def calls(self, stage: int) -> tuple[Counter[Call], Counter[Call]]:
        """Return how often a rank of a stage runs each collective for one microbatch.

        First those between kernels, then those that move weights and gradients.
        """
        return self._by_role[stage]

    def pattern(self, stage: int, replica: int) -> Pattern:
        """Return the signatures on which the times of blocks of a cell depend, by axis."""
        return self.communicators.pattern(stage, replica)

    def _communication(self, collective: Collective, pattern: Pattern) -> float:
        return self.communicators.cost(collective, pattern).seconds

    # --- time ------------------------------------------------------------------------------------

    def block(self, stage: int, chunk: int, kind: str, pattern: Pattern) -> tuple[Seconds, Seconds]:
        """Return the time of a block, and the share of it that is recomputed."""
        job = self.job
        overlapped = job.software.experts.overlapped and kind in OPPOSITE
        key = job.layers.content(stage, chunk), kind, pattern, stage if overlapped else None
        if key not in self._blocks:
            own, recomputed = self._block(stage, chunk, kind, pattern)
            if overlapped:
                other, _ = self._block(stage, chunk, OPPOSITE[kind], pattern)
                own = overlapped_exchange(job, stage, own, other)
            self._blocks[key] = own, recomputed
        return self._blocks[key]

    def step(self, stage: int, code: Code, pattern: Pattern) -> tuple[Seconds, Seconds]:
        """Return the same for a step, which may be concurrent with another."""
        own, recomputed = self.block(stage, code.chunk, code.kind, pattern)
        if code.paired is None:
            return own, recomputed
        kind, chunk = code.paired
        other, _ = self.block(stage, chunk, kind, pattern)
        own = overlapped_step(own, other, self.job.cluster.occupied)
        return self.job.software.dispatch.of(own), recomputed

    def _block(
        self, stage: int, chunk: int, kind: str, pattern: Pattern
    ) -> tuple[Seconds, Seconds]:
        job = self.job
        before, after = kernels_of_ends(job, stage, chunk, kind)
        seconds = self._times.chain(before, pattern) + self._times.chain(after, pattern)
        seconds = seconds if kind == FORWARD else seconds.of_backward()
        repeated = Seconds()
        for stacked, times in Counter(job.layers.stacked(stage, chunk)).items():
            own, recomputed = self._times.layer(stacked, kind, pattern)
            seconds = seconds + (own + recomputed) * times
            repeated = repeated + recomputed * times
        if moves := moves_of(job, stage, chunk, kind):
            exposed = self._exposed_moves(moves, (stage, chunk, kind), pattern)
            if limited(job):  # the host cannot issue ahead while the device waits for a layer
                issued = replace(seconds, launches=seconds.launches + exposed.launches)
                seconds = replace(seconds, dispatch=job.software.dispatch.of(issued).dispatch)
            seconds += exposed
        return job.software.dispatch.of(seconds), repeated

    def _exposed_moves(
        self, moves: Moves, block: tuple[int, int, str], pattern: Pattern
    ) -> Seconds:
        """Return the additional time of a block due to moves of its weights and gradients.

        Kernels that overlap with a collective have the rest of the device, as in
        `cost.compute.overlapped_seconds`.
        """
        job, ahead = self.job, self._ahead
        units = self._units(moves, block, pattern, None)
        exposed = total_seconds(units, ahead) - sum(unit.compute for unit in units)
        carried = [move for unit in units for move in (*unit.fetch, *unit.push)]
        transfers = [transfer for unit in moves for part in unit for transfer in part]
        collectives = (move for move in transfers if isinstance(move, Collective))
        local = local_seconds(job, collectives)
        shared_out = _by_channel(exposed, carried)
        network = sum(move.seconds for move in carried if move.channel == "network")
        slowed = job.cluster.occupied * max(0.0, network - shared_out.data) if ahead else 0.0
        return shared_out + Seconds(data=local, slowed=slowed)

    @property
    def _ahead(self) -> int:
        """Units that are fetched ahead of the current one."""
        sharding = self.job.software.sharding
        return 0 if sharding is None else sharding.prefetch

    def _units(
        self,
        moves: Moves,
        block: tuple[int, int, str],
        pattern: Pattern,
        shared: "SharedCollectives | None",
    ) -> tuple[Unit, ...]:
        """Return a block unit by unit: what precedes its layers, each layer, what follows them.

        Parameters
        ----------
        shared : the collectives of the block that share links; None for the closed form
        """
        stage, chunk, kind = block
        before, after = kernels_of_ends(self.job, stage, chunk, kind)
        pieces = [(before, self._times.chain(before, pattern).busy)]
        late: list[Late] = [AT_ONCE, AT_ONCE]
        for stacked in layers_in_order(self.job, stage, chunk, kind):
            own, recomputed = self._times.layer(stacked, kind, pattern)
            kernels = [] if shared is None else layer_kernels(self.job, stacked, kind)
            pieces.append((kernels, (own + recomputed).busy))
            late.append(self._times.late(stacked, kind, pattern))
        pieces.append((after, self._times.chain(after, pattern).busy))
        return tuple(
            Unit(
                busy,
                self._moves(fetch, pattern, shared, waits),
                self._moves(push, pattern, shared),
                () if shared is None else self._segments(kernels, busy, pattern, shared),
            )
            for (kernels, busy), waits, (fetch, push) in zip(pieces, late, moves, strict=True)
        )

    def _segments(
        self, kernels: Iterable[Kernel], busy: float, pattern: Pattern, shared: "SharedCollectives"
    ) -> tuple[float | Shared, ...]:
        """Return the time of a unit with those of its inner collectives that share links.

        Kernels that overlap with a collective run during its uncontended time; the rest follows
        it.  The other kernels of the unit are divided evenly between the collectives.
        """
        collectives: list[tuple[Shared, float, float]] = []
        for kernel in kernels:
            collective = kernel.moved if isinstance(kernel, Overlapped) else kernel
            if isinstance(collective, Collective) and (traffic := shared.inner(collective)):
                uncontended = self.communicators.cost(collective, pattern).seconds
                longer = max(0.0, self._times.chain([kernel], pattern).busy - uncontended)
                collectives.append((traffic, uncontended, longer))
        if not collectives:
            return ()
        others = max(0.0, busy - sum(seconds + longer for _, seconds, longer in collectives))
        share = others / (len(collectives) + 1)
        pieces = [piece for traffic, _, longer in collectives for piece in (share, traffic, longer)]
        return (*pieces, share)

    def _moves(
        self,
        transfers: Sequence[Collective | HostCopy],
        pattern: Pattern,
        shared: "SharedCollectives | None",
        late: Late = AT_ONCE,
    ) -> tuple[Move, ...]:
        """Return the time of transfers, each on its channel, and when they are requested."""
        return tuple(
            Move(
                "network",
                self.communicators.cost(transfer, pattern).seconds,
                None if shared is None else shared.move(transfer),
                late.gather,
            )
            if isinstance(transfer, Collective)
            else Move(
                transfer.direction,
                self._host.seconds(transfer) if self._host else 0.0,
                late=late.copy,
            )
            for transfer in transfers
        )

    def units(
        self, stage: int, code: Code, pattern: Pattern, shared: "SharedCollectives"
    ) -> Units | None:
        """Return a block unit by unit; None where none of its collectives shares links."""
        concurrent = code.paired is not None or self.job.software.experts.overlapped
        if not shared or (concurrent and not shared.serial):
            return None
        moves = moves_of(self.job, stage, code.chunk, code.kind)
        moves = moves or [([], [])] * (len(self.job.layers.stacked(stage, code.chunk)) + 2)
        units = self._units(moves, (stage, code.chunk, code.kind), pattern, shared)
        carried = [move for unit in units for move in (*unit.fetch, *unit.push)]
        if not any(unit.segments for unit in units) and not any(move.shared for move in carried):
            return None
        seconds, _ = self.block(stage, code.chunk, code.kind, pattern)
        rest = max(0.0, seconds.total - total_seconds(units, self._ahead))
        return Units(units, self._ahead, rest, shared.always)

    # --- links -----------------------------------------------------------------------------------

    def traffic(self) -> dict[Name, TrafficRows]:
        """Return the collectives of the tensor groups of all replicas as traffic, by name."""
        return {
            tensor_name(stage, call.operation, call.nbytes): self.traffic_of(stage, call)
            for stage, calls in self._calls.items()
            for call in calls
            if call.axis == "tensor"
        }

    def traffic_of(self, stage: int, call: Call) -> TrafficRows:
        """Return a collective of a stage as traffic: of each replica, or of all in one row."""
        name = f"{call.operation} of {call.axis} group, stage {stage}"
        rows = self.communicators.rows_of(call.axis, range(stage, stage + 1))
        return self.communicators.along(call.axis).traffic(name, call.operation, call.nbytes, rows)

    @cached_property
    def runs(self) -> list[range]:
        """Adjacent stages that run the same collectives for a microbatch."""
        return adjacent([*self._calls.values()])

    def carried(self, run: range) -> LinkRows:
        """Return the load of collectives of each cell of a run on links, for a microbatch [B]."""
        return self._on_links(OF_CELL, run, self.job.plan.data)

    def carried_by_stage(self, run: range) -> LinkRows:
        """Return the load of collectives of all replicas of each stage of a run on links [B]."""
        return self._on_links([axis for axis in self.axes if axis not in OF_CELL], run, 1)

    def carried_along(self, axis: Axis, run: range) -> LinkRows:
        """Return the load of collectives of one axis on links, for one microbatch, by row [B]."""
        calls = [
            (call.operation, call.nbytes, times)
            for call, times in self._calls[run.start].items()
            if call.axis == axis
        ]
        rows = self.communicators.rows_of(axis, run)
        return self.communicators.along(axis).carried(calls, rows)

    def _on_links(self, axes: Iterable[Axis], run: range, rows: int) -> LinkRows:
        parts = [self.carried_along(axis, run) for axis in axes if axis in self.axes]
        return added(parts, rows * len(run))


def _by_channel(seconds: float, moves: Sequence[Move]) -> Seconds:
    """Return exposed time, divided over network and host in proportion to their moves."""
    moving = sum(move.seconds for move in moves)
    if not moving:
        return Seconds()
    network = sum(move.seconds for move in moves if move.channel == "network") / moving
    return Seconds(data=seconds * network, host=seconds * (1 - network), launches=len(moves))


# --- collectives ----------------------------------------------------------------------------------


def _calls_by_stage(job: Job) -> dict[int, tuple[Counter[Call], Counter[Call]]]:
    """Return for each stage the calls of its ranks; stages of the same layers have the same."""
    of_first = {stage: _calls(job, stage) for stage in dict.fromkeys(job.layers.alike)}
    return {stage: of_first[first] for stage, first in enumerate(job.layers.alike)}


def _calls(job: Job, stage: int) -> tuple[Counter[Call], Counter[Call]]:
    """Return how often a rank runs each collective for one microbatch: inner ones, then moves."""
    inner: Counter[Call] = Counter()
    moved: Counter[Call] = Counter()

    def count(calls: Counter[Call], kernels: Iterable[Kernel], times: int) -> None:
        for kernel in flat(list(kernels)):
            if isinstance(kernel, Collective):
                calls[Call(kernel.axis, kernel.operation, kernel.nbytes)] += times

    for chunk in range(job.plan.chunks):
        for kind in WHOLE:
            for kernels in kernels_of_ends(job, stage, chunk, kind):
                count(inner, kernels, 1)
            for stacked, times in Counter(job.layers.stacked(stage, chunk)).items():
                count(inner, layer_kernels(job, stacked, kind), times)
            for fetch, push in moves_of(job, stage, chunk, kind):
                count(moved, [move for move in (*fetch, *push) if isinstance(move, Collective)], 1)
    return inner, moved


def _operations(calls: Iterable[Counter[Call]]) -> dict[Axis, list[str]]:
    """Return for each axis the collectives of its groups, in alphabetical order."""
    operations: dict[Axis, set[str]] = {}
    for of_stage in calls:
        for axis, operation, _ in of_stage:
            operations.setdefault(axis, set()).add(operation)
    return {axis: sorted(operations[axis]) for axis in sorted(operations)}


# --- blocks in segments ---------------------------------------------------------------------------


def tensor_name(stage: int, operation: str, nbytes: float) -> Name:
    """Return the name of a collective of a stage's tensor groups."""
    return ("tensor", operation, stage, nbytes)


def split_at_collectives(
    job: Job, stage: int, chunk: int, kind: str, dispatch: float, traffic: dict[Name, Traffic],
    uncontended: Callable[[Collective], float],
) -> tuple[float | Traffic, ...]:  # fmt: skip
    """Return a block as times of kernels with its collectives between them.

    Kernels that overlap with a collective run during its uncontended time; the rest follows it.

    Parameters
    ----------
    dispatch : by how much the host is slower than the whole block, added at its end [s]
    uncontended : time of a collective on uncontended links [s]
    """
    before, after = kernels_of_ends(job, stage, chunk, kind)
    layers = [layer_kernels(job, stacked, kind) for stacked in job.layers.stacked(stage, chunk)]
    segments: list[float | Traffic] = []
    seconds, device, occupied = 0.0, job.device, job.cluster.occupied
    for kernel in [*before, *(kernel for layer in layers for kernel in layer), *after]:
        if isinstance(kernel, Collective | Overlapped):
            collective = kernel if isinstance(kernel, Collective) else kernel.moved
            kernels = () if isinstance(kernel, Collective) else kernel.kernels
            name = tensor_name(stage, collective.operation, collective.nbytes)
            segments += [seconds, traffic[name]]
            inner = chain_seconds(kernels, device, uncontended).compute
            seconds = max(0.0, inner - (1 - occupied) * uncontended(collective))
        else:
            seconds += chain_seconds([kernel], device, uncontended).compute
    return (*segments, seconds + dispatch)
