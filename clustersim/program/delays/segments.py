"""Segments of a block: the time of its kernels between two points at which ranks wait.

    | kernels | all-reduce | kernels | all-reduce | kernels |      segments 0, 1, 2

At each collective the ranks of a cell wait for the slowest one, so that a cell takes the sum over
the segments of the longest time of a rank, and not the longest sum.  Replicas wait for each other
as well, after several segments, at collectives that all of them take part in:

    replica 0   | layer | gather | layer      | gather | layer |
    replica 1   | layer      | gather | layer | gather | layer |      both wait for the slower one

Such are exchanges of tokens between experts, and gathers of the weights of a layer that begin where
the layer before it ends.  A gather that is requested a layer ahead makes no replica wait before it
is a whole layer behind, which it hardly ever is, and an exchange next to the computation of another
microbatch is hidden by it.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustersim.arrays import Floats
from clustersim.cost.compute import Seconds, chain_seconds
from clustersim.program.blocks.blocks import Blocks
from clustersim.program.blocks.work import Transfers, UnitWork
from clustersim.program.collectives.axes import OF_CELL, groups_along
from clustersim.timeline import FORWARD
from clustersim.topology.accelerator import Accelerator, clocked
from clustersim.workload.kernels import Axis, Collective, Kernel, Overlapped

WHOLE_BLOCK = 1.0
"""Clock of a device without a power cap, relative to that of the others."""


class Segments(NamedTuple):
    """The segments of a block.

    Attributes
    ----------
    seconds, attention : time of all kernels and of attention, by segment [s]
    fastest : smallest factor of this time: products at the peak rate of the device, passes at the
        bandwidth of its memory [unitless]
    waits : the first segment, and those before which replicas wait for each other
    """

    seconds: Floats
    attention: Floats
    fastest: Floats
    waits: NDArray[np.int64]


class SyncPoints:
    """The collectives inside the blocks of a job at which replicas wait for each other."""

    def __init__(self, blocks: Blocks) -> None:
        self._job, self._blocks = blocks.job, blocks

    @cached_property
    def axes(self) -> frozenset[Axis]:
        """The axes of these collectives between the kernels of a layer."""
        paired = any(code.paired for code in self._job.order.codes)
        if paired or self._job.experts.overlapped:
            return frozenset()
        axes = {call.axis for calls in self._blocks.calls for call in calls.inner}
        return frozenset(axes - {*OF_CELL})

    def at_gather(self, fetched: Transfers) -> bool:
        """Return whether replicas wait for each other where something is fetched for a layer."""
        sharding = self._job.framework.sharding
        ahead = sharding is not None and sharding.prefetch > 0 and not self._job.adapter_units
        return not ahead and any(isinstance(each, Collective) for each in fetched)

    def in_stage(self, stage: int) -> bool:
        """Return whether blocks of a stage have such collectives."""
        return stage in self._axes_of_stages

    @property
    def everywhere(self) -> bool:
        """Whether blocks of all stages have such collectives."""
        return len(self._axes_of_stages) == self._job.plan.pipeline

    def with_replica(self, replica: int) -> tuple[int, ...]:
        """Return the replicas that wait for a replica, and for each other, itself included."""
        return self._pools[replica]

    @cached_property
    def _axes_of_stages(self) -> dict[int, set[Axis]]:
        """For each stage with such collectives their axes."""
        of_stages: dict[int, set[Axis]] = {}
        for stage, calls in enumerate(self._blocks.calls):
            axes = {call.axis for call in calls.inner} & self.axes
            for chunk in range(self._job.plan.chunks):
                for unit in self._blocks.work(stage, chunk, FORWARD).units:
                    if self.at_gather(unit.fetch):
                        axes |= {each.axis for each in unit.fetch if isinstance(each, Collective)}
            if axes:
                of_stages[stage] = axes
        return of_stages

    @cached_property
    def _pools(self) -> list[tuple[int, ...]]:
        """For each replica those that it shares groups with, directly or by others."""
        job = self._job
        placement, count = job.placement.own, job.plan.data
        cells = placement.cells
        replica_of = np.empty(cells.size, np.int64)
        replica_of[cells.ravel()] = np.broadcast_to(np.arange(count)[:, None], cells.shape).ravel()
        pool = np.arange(count)
        for stage, axes in self._axes_of_stages.items():
            for axis in sorted(axes - {*OF_CELL}):
                _join(pool, replica_of[groups_along(placement, axis)[stage]])
        members: dict[int, list[int]] = {}
        for replica, number in enumerate(pool.tolist()):
            members.setdefault(number, []).append(replica)
        return [tuple(members[number]) for number in pool.tolist()]


def _join(pool: NDArray[np.int64], groups: Sequence[NDArray[np.int64]]) -> None:
    """Give replicas that are in one group the same number."""
    for group in groups:
        numbers = pool[group]
        pool[np.isin(pool, numbers)] = numbers.min()


class KernelSegments:
    """The segments of the blocks of a job, each computed once for a clock."""

    def __init__(self, blocks: Blocks, points: SyncPoints) -> None:
        self._job, self._blocks, self._points = blocks.job, blocks, points
        self._segments: dict[object, Segments] = {}
        self._devices: dict[float, Accelerator] = {}

    def of(self, stage: int, chunk: int, kind: str, clock: float = WHOLE_BLOCK) -> Segments:
        """Return the segments of a block.

        Parameters
        ----------
        clock : rate of kernels that are limited by compute, relative to that of other devices
        """
        key = self._job.layers.content(stage, chunk), kind, clock
        if key not in self._segments:
            kernels = [*self._with_waits(self._blocks.work(stage, chunk, kind).units)]
            device = self._device(clock)
            self._segments[key] = _segments(kernels, self._points.axes, device, self._job.peak)
        return self._segments[key]

    def _device(self, clock: float) -> Accelerator:
        if clock not in self._devices:
            self._devices[clock] = clocked(self._job.device, clock)
        return self._devices[clock]

    def _with_waits(self, units: Iterable[UnitWork]) -> Iterator[Kernel | None]:
        """Yield the kernels of units, and None before those where replicas wait."""
        for unit in units:
            if self._points.at_gather(unit.fetch):
                yield None
            yield from unit.kernels


def _segments(
    kernels: Sequence[Kernel | None], axes: frozenset[Axis], device: Accelerator, peak: float
) -> Segments:
    """Return the segments of kernels, of which None marks a point where replicas wait.

    Parameters
    ----------
    axes : of the collectives at which replicas wait
    peak : rate of products that no device exceeds [FLOP/s]
    """
    seconds, attention, least, waits = [0.0], [0.0], [0.0], [0]
    times_of: dict[int, Seconds] = {}  # layers of one kind have the same kernels
    for kernel in kernels:
        collective = kernel.moved if isinstance(kernel, Overlapped) else kernel
        axis = collective.axis if isinstance(collective, Collective) else None
        waiting = kernel is None or axis in axes
        if waiting:
            waits.append(len(seconds))
        if waiting or axis in OF_CELL:
            seconds.append(0.0)
            attention.append(0.0)
            least.append(0.0)
        if kernel is None:
            continue
        own = kernel.kernels if isinstance(kernel, Overlapped) else [kernel]
        taken = times_of.get(id(kernel))
        if taken is None:
            taken = times_of[id(kernel)] = chain_seconds(own, device, lambda _: 0.0)
        seconds[-1] += taken.compute
        attention[-1] += taken.attention
        limit = taken.flops / peak + taken.stream * device.memory_achieved
        least[-1] += min(taken.compute, limit)
    times = np.array(seconds)
    fastest = np.divide(least, times, out=np.ones(len(times)), where=times > 0)
    return Segments(times, np.array(attention), fastest, np.array(waits))
