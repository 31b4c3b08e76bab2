"""Blocks: the kernels of one stage chunk for one microbatch, and their time.

    operations of a layer --cost--> seconds --over the layers--> block of each (stage, chunk, kind)

The time of each different layer is computed once, not for each microbatch: a step of a trillion
parameters has 205,000 blocks of six kinds.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, product
from typing import Final

import numpy as np

from clustersim.arrays import Floats
from clustersim.cost.compute import Seconds, chain_seconds, overlapped_step
from clustersim.program.blocks.layer_times import AT_ONCE, Late, LayerTimes
from clustersim.program.blocks.units import (
    NOT_SHARED,
    Move,
    Shared,
    SharedCollectives,
    Unit,
    Units,
    total_seconds,
)
from clustersim.program.blocks.work import (
    BlockWork,
    Transfers,
    UnitWork,
    calls_by_stage,
    kind_of_layers,
    operations_of,
    work_of,
)
from clustersim.program.collectives.axes import Call, Communicators, Pattern
from clustersim.program.job import Job
from clustersim.program.movement.offload import HostLink
from clustersim.program.movement.sharding import local_seconds
from clustersim.program.program import Block
from clustersim.program.schedules.steps import WHOLE, Code
from clustersim.timeline import BACKWARD, FORWARD, KINDS
from clustersim.traffic import Name, Traffic
from clustersim.workload.kernels import Axis, Collective, Kernel, Overlapped

OPPOSITE: Final = {FORWARD: BACKWARD, BACKWARD: FORWARD}
"""The block of another microbatch that runs concurrently with a block, by kind."""


class Blocks:
    """The blocks of a job: their work, their collectives, and their times.

    Attributes
    ----------
    kinds : of steps that have a block: those of the schedule, and whole ones
    calls : by stage, how often a rank runs each collective for one microbatch
    communicators : of these collectives
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.kinds = [*dict.fromkeys([*WHOLE, *(code.kind for code in job.order.codes)])]
        self._work = work_of(job, self.kinds)
        self.calls = calls_by_stage(job, self._work)
        self.communicators = Communicators(job, operations_of(self.calls))
        self._times = LayerTimes(job, self.communicators.seconds)
        self._host = HostLink(job) if job.offload.any else None
        self._shortest: dict[tuple[int, int, bytes], Floats] = {}
        self._longest: dict[object, float] = {}
        self._blocks = self._all_times()

    @property
    def axes(self) -> list[Axis]:
        """The axes with collectives inside blocks."""
        return list(self.communicators.operations)

    def work(self, stage: int, chunk: int, kind: str) -> BlockWork:
        """Return what a block runs."""
        return self._work[self.job.layers.content(stage, chunk), kind]

    # --- time ------------------------------------------------------------------------------------

    def block(self, stage: int, chunk: int, kind: str, pattern: Pattern) -> tuple[Seconds, Seconds]:
        """Return the time of a block, and the share of it that is recomputed."""
        return self._blocks[self._key(stage, chunk, kind, pattern)]

    def step(self, stage: int, code: Code, pattern: Pattern) -> tuple[Seconds, Seconds]:
        """Return the same for a step, which may be concurrent with another."""
        own, recomputed = self.block(stage, code.chunk, code.kind, pattern)
        if code.paired is None:
            return own, recomputed
        kind, chunk = code.paired
        other, _ = self.block(stage, chunk, kind, pattern)
        own = overlapped_step(own, other, self.job.cluster.occupied)
        return self.job.dispatch.of(own), recomputed

    def disturbed(
        self, stage: int, code: Code, pattern: Pattern, more: Floats | float, delay: float
    ) -> Floats:
        """Return the time of a step whose device or host is slower than others [s].

        The step takes the longer of what its device and its host need, or both where the host
        waits for each kernel; it is idle where the device follows the host.  With faster kernels
        it still takes the time of its collectives, as far as it did before.

        Parameters
        ----------
        more : additional time of its kernels [s]
        delay : by which the host dispatches each kernel later [s]
        """
        seconds, _ = self.step(stage, code, pattern)
        busy, issued = seconds.busy + more, self.job.dispatch.issued(seconds, delay)
        if self.job.dispatch.launches_wait:
            return np.asarray(busy + issued)
        work, waits = self.work(stage, code.chunk, code.kind), issued - busy
        if self.job.adapter_units and work.transfers:  # as in `_alone`
            waits = seconds.dispatch + issued - self.job.dispatch.issued(seconds) - more
        waits = np.maximum(0.0, waits)
        if code.paired is None and not self.job.experts.overlapped:
            scale = 1.0 + more / seconds.compute if seconds.compute else 1.0
            waits = np.maximum(waits, self._followed(work, code.kind, pattern, scale, delay))
        least = 0.0
        if np.min(more) < 0:
            least = min(seconds.total, self._collectives(stage, code, pattern))
        return np.maximum(busy + waits, least)

    def _collectives(self, stage: int, code: Code, pattern: Pattern) -> float:
        """Return the time of the collectives between kernels, or of the moves if these are longer.

        Steps of all replicas have the same [s].
        """
        key = self._key(stage, code.chunk, code.kind, pattern)
        if key not in self._longest:
            work = self.work(stage, code.chunk, code.kind)
            seconds_of = partial(self.communicators.seconds, pattern=pattern)
            inner, moved = (sum(map(seconds_of, each)) for each in (work.inner, work.moved))
            self._longest[key] = max(inner, moved)
        return self._longest[key]

    def _followed(
        self, work: BlockWork, kind: str, pattern: Pattern, scale: Floats | float, delay: float
    ) -> Floats:
        """Return the idle time of a block after its host has waited for routing, by layers [s]."""
        idle = np.zeros(())
        if kind == FORWARD and self.job.experts.synchronised:
            for unit, times in work.counts:
                assert unit.layer is not None
                idle = idle + times * self._times.followed(unit.layer, pattern, scale, delay)
        return idle

    def shortest(self, stage: int) -> Floats:
        """Return for each replica the shortest time of a forward and backward of a chunk [s]."""
        key = self._key_of_stage(stage)
        if key not in self._shortest:
            numbers = self.communicators.pattern_numbers[stage]
            _, inverse = np.unique(numbers, return_inverse=True)
            seconds = [
                min(
                    sum(self.block(stage, chunk, kind, pattern)[0].total for kind in WHOLE)
                    for chunk in range(self.job.plan.chunks)
                )
                for pattern in self.communicators.patterns(stage)
            ]
            self._shortest[key] = np.array(seconds)[inverse]
        return self._shortest[key]

    def _all_times(self) -> dict[object, tuple[Seconds, Seconds]]:
        """Return the times of all blocks, each different one computed once."""
        chunks, times = range(self.job.plan.chunks), dict[object, tuple[Seconds, Seconds]]()
        different = {self._key_of_stage(stage): stage for stage in range(self.job.plan.pipeline)}
        for stage in different.values():
            for pattern in self.communicators.patterns(stage):
                for chunk, kind in product(chunks, self.kinds):
                    key = self._key(stage, chunk, kind, pattern)
                    if key not in times:
                        times[key] = self._block(stage, chunk, kind, pattern)
        return times

    def _key_of_stage(self, stage: int) -> tuple[int, int, bytes]:
        """Return what the times of all blocks of a stage depend on."""
        exchanged = self.job.experts.overlapped
        numbers = self.communicators.pattern_numbers[stage]
        return stage if exchanged else -1, self.job.layers.alike[stage], numbers.tobytes()

    def _key(self, stage: int, chunk: int, kind: str, pattern: Pattern) -> object:
        """Return what the time of a block depends on."""
        exchanged = self.job.experts.overlapped and kind in OPPOSITE
        return self.job.layers.content(stage, chunk), kind, pattern, stage if exchanged else None

    def _block(
        self, stage: int, chunk: int, kind: str, pattern: Pattern
    ) -> tuple[Seconds, Seconds]:
        work = self.work(stage, chunk, kind)
        own, recomputed = self._alone(work, kind, pattern)
        if self.job.experts.overlapped and kind in OPPOSITE:
            opposite = OPPOSITE[kind]
            other, _ = self._alone(self.work(stage, chunk, opposite), opposite, pattern)
            own = self._exchanging(stage, own, other)
        return own, recomputed

    def _alone(self, work: BlockWork, kind: str, pattern: Pattern) -> tuple[Seconds, Seconds]:
        """Return the time of a block without another microbatch, and its recomputed share."""
        job, (before, after) = self.job, work.ends
        seconds = self._times.chain(before.kernels, pattern)
        seconds = seconds + self._times.chain(after.kernels, pattern)
        seconds = seconds if kind == FORWARD else seconds.of_backward()
        repeated = Seconds()
        for unit, times in work.counts:
            assert unit.layer is not None
            own, recomputed = self._times.layer(unit.layer, kind_of_layers(self.job, kind), pattern)
            seconds = seconds + (own + recomputed) * times
            repeated = repeated + recomputed * times
        if work.transfers:
            exposed = self._exposed_moves(work, kind, pattern)
            if job.adapter_units:  # the host cannot issue ahead while the device waits for a layer
                idle = (self._issued(unit, kind, pattern).dispatch for unit in work.units)
                seconds = seconds._replace(dispatch=sum(idle))
            seconds += exposed
        return job.dispatch.of(seconds), repeated

    def _exchanging(self, stage: int, own: Seconds, other: Seconds) -> Seconds:
        """Return a block whose exchange overlaps with the opposite block of another microbatch.

        Megatron-Core, ``overlap_moe_expert_parallel_comm``.  All blocks of a stage have the mean of
        those that run alone and those that do not: the forwards that follow its first backward.
        """
        job, cluster = self.job, self.job.cluster
        units = job.experts.exchange_units
        occupied = cluster.occupied if units is None else units / cluster.accelerator.compute_units
        forwards = job.order.columns(stage)[0] == KINDS.index(FORWARD)
        share = float(forwards[int(forwards.argmin()) :].sum() / forwards.sum())
        return job.dispatch.of(overlapped_step(own, other, occupied, share))

    def _exposed_moves(self, work: BlockWork, kind: str, pattern: Pattern) -> Seconds:
        """Return the additional time of a block due to moves of its weights and gradients.

        Kernels that overlap with a collective have the rest of the device, as in
        `cost.compute.overlapped_seconds`.
        """
        job, ahead = self.job, self._ahead
        units = self._units(work, kind, pattern)
        exposed = total_seconds(units, ahead) - sum(unit.compute for unit in units)
        carried = [move for unit in units for move in unit.moves]
        local = local_seconds(job, work.moved)
        by_channel = _by_channel(exposed, carried)
        network = sum(move.seconds for move in carried if move.channel == "network")
        slowed = job.cluster.occupied * max(0.0, network - by_channel.data) if ahead else 0.0
        return by_channel + Seconds(data=local, slowed=slowed)

    # --- units -----------------------------------------------------------------------------------

    @property
    def _ahead(self) -> int:
        """Units that are fetched ahead of the current one."""
        sharding = self.job.framework.sharding
        return 0 if sharding is None else sharding.prefetch

    def units(
        self, stage: int, code: Code, pattern: Pattern, shared: SharedCollectives
    ) -> Units | None:
        """Return a block unit by unit; None where none of its collectives shares links."""
        concurrent = code.paired is not None or self.job.experts.overlapped
        if not shared.any or (concurrent and not shared.serial):
            return None
        work = self.work(stage, code.chunk, code.kind)
        units = self._units(work, code.kind, pattern, shared)
        if not any(unit.segments or any(move.shared for move in unit.moves) for unit in units):
            return None
        seconds, _ = self.block(stage, code.chunk, code.kind, pattern)
        rest = max(0.0, seconds.total - total_seconds(units, self._ahead))
        return Units(units, self._ahead, rest, shared.always)

    def _units(
        self, work: BlockWork, kind: str, pattern: Pattern, shared: SharedCollectives = NOT_SHARED
    ) -> tuple[Unit, ...]:
        """Return a block unit by unit: what precedes its layers, each layer, what follows them."""
        units, waits = list[Unit](), AT_ONCE
        for unit in work.units:
            whole = self._issued(unit, kind, pattern)
            units.append(
                Unit(
                    whole.total,
                    self._moves(unit.fetch, pattern, shared.moves, waits),
                    self._moves(unit.push, pattern, shared.moves),
                    self._segments(unit.kernels, whole.total, pattern, shared.inner),
                )
            )
            waits = AT_ONCE
            if unit.layer is not None:
                waits = self._times.late(unit.layer, unit.kernels, kind, pattern, whole)
        return tuple(units)

    def _issued(self, unit: UnitWork, kind: str, pattern: Pattern) -> Seconds:
        """Return the time of a unit, and that of a host that is not ahead: moves are launches."""
        if unit.layer is None:
            seconds = self._times.chain(unit.kernels, pattern)
            seconds = seconds if kind == FORWARD else seconds.of_backward()
        else:
            own, recomputed = self._times.layer(unit.layer, kind_of_layers(self.job, kind), pattern)
            seconds = own + recomputed
        if not self.job.adapter_units:
            return seconds._replace(dispatch=0.0)
        moves = len([*unit.fetch, *unit.push])
        return self.job.dispatch.of(seconds._replace(launches=seconds.launches + moves))

    def _moves(
        self,
        transfers: Transfers,
        pattern: Pattern,
        shared: Mapping[Call, Shared],
        late: Late = AT_ONCE,
    ) -> tuple[Move, ...]:
        """Return the time of transfers, each on its channel, and when they are requested."""
        return tuple(
            Move(
                "network",
                self.communicators.seconds(transfer, pattern),
                shared.get(Call.of(transfer)) if shared else None,
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

    def _segments(
        self,
        kernels: Iterable[Kernel],
        busy: float,
        pattern: Pattern,
        shared: Mapping[Call, Shared],
    ) -> tuple[float | Shared, ...]:
        """Return the time of a unit with those of its inner collectives that share links.

        Kernels that overlap with a collective run during its uncontended time; the rest follows
        it.  The other kernels of the unit are divided evenly between the collectives.
        """
        if not shared:
            return ()
        collectives: list[tuple[Shared, float, float]] = []
        for kernel in kernels:
            collective = kernel.moved if isinstance(kernel, Overlapped) else kernel
            if not isinstance(collective, Collective):
                continue
            if (traffic := shared.get(Call.of(collective))) is not None:
                uncontended = self.communicators.seconds(collective, pattern)
                longer = max(0.0, self._times.chain([kernel], pattern).busy - uncontended)
                collectives.append((traffic, uncontended, longer))
        if not collectives:
            return ()
        others = max(0.0, busy - sum(seconds + longer for _, seconds, longer in collectives))
        share = others / (len(collectives) + 1)
        pieces = [piece for traffic, _, longer in collectives for piece in (share, traffic, longer)]
        return (*pieces, share)

    # --- steps -----------------------------------------------------------------------------------

    def fused(self, stage: int, code: Code, pattern: Pattern, shared: SharedCollectives) -> Block:
        """Return the block of a step with its collectives fused, but for those that share links."""
        seconds, recomputed = self.step(stage, code, pattern)
        units = self.units(stage, code, pattern, shared)
        if units is not None:
            seconds, recomputed = self.block(stage, code.chunk, code.kind, pattern)
        return Block(seconds, recomputed, (seconds.total,), units)

    def split(
        self, stage: int, code: Code, pattern: Pattern, traffic: Mapping[Name, Traffic]
    ) -> Block:
        """Return the block of a step as times of kernels with its collectives between them.

        Kernels that overlap with a collective run during its uncontended time; the rest follows it.
        By how much the host is slower than the whole block is added at its end.
        """
        own, recomputed = self.step(stage, code, pattern)
        work = self.work(stage, code.chunk, code.kind)
        kernels = {unit.layer: unit.kernels for unit, _ in work.counts}
        layers = (kernels.get(layer, []) for layer in self.job.layers.stacked(stage, code.chunk))
        before, after = (unit.kernels for unit in work.ends)
        segments: list[float | Traffic] = []
        seconds, free = 0.0, 1 - self.job.cluster.occupied
        for kernel in chain.from_iterable([before, *layers, after]):
            if not isinstance(kernel, Collective | Overlapped):
                seconds += self._seconds_of([kernel], pattern)
                continue
            concurrent = kernel.kernels if isinstance(kernel, Overlapped) else ()
            collective = kernel.moved if isinstance(kernel, Overlapped) else kernel
            segments += [seconds, traffic[tensor_name(stage, Call.of(collective))]]
            uncontended = self.communicators.seconds(collective, pattern)
            seconds = max(0.0, self._seconds_of(concurrent, pattern) - free * uncontended)
        return Block(own, recomputed, (*segments, seconds + own.dispatch))

    def _seconds_of(self, kernels: Iterable[Kernel], pattern: Pattern) -> float:
        """Return the time of kernels whose collectives occupy no compute units [s]."""
        seconds_of = partial(self.communicators.seconds, pattern=pattern)
        return chain_seconds(kernels, self.job.device, seconds_of).compute


def tensor_name(stage: int, call: Call) -> Name:
    """Return the name of a collective of a stage's tensor groups."""
    return ("tensor", call.operation, stage, call.nbytes)


def _by_channel(seconds: float, moves: Sequence[Move]) -> Seconds:
    """Return exposed time, divided over network and host in proportion to their moves."""
    moving = sum(move.seconds for move in moves)
    if not moving:
        return Seconds()
    network = sum(move.seconds for move in moves if move.channel == "network") / moving
    return Seconds(data=seconds * network, host=seconds * (1 - network), launches=len(moves))
