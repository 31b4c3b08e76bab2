"""Segments of a block: the time of its kernels between two collectives of its cell.

    | kernels | all-reduce | kernels | all-reduce | kernels |      segments 0, 1, 2

At each collective the ranks of a cell wait for the slowest one, so that a cell takes the sum over
the segments of the longest time of a rank, and not the longest sum.  Where replicas meet
(`synchronisation`), their cells wait for each other as well, after several segments.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustersim.cost.compute import chain_seconds
from clustersim.program.blocks.kernels import kernels_of_ends, layer_kernels, layers_in_order
from clustersim.program.blocks.moves import moves_of
from clustersim.program.collectives.axes import OF_CELL
from clustersim.program.delays.synchronisation import Meetings
from clustersim.program.job import Job
from clustersim.topology.accelerator import Accelerator
from clustersim.topology.clock_spread import clocked
from clustersim.workload.kernels import Axis, Collective, Kernel, Overlapped

Floats = NDArray[np.float64]

WHOLE_BLOCK = 1.0
"""Clock of a device without a power cap, relative to that of the others."""


class Segments(NamedTuple):
    """The segments of a block.

    Attributes
    ----------
    seconds, attention : time of all kernels and of attention, by segment [s]
    meetings : the first segment, and those before which replicas meet
    """

    seconds: Floats
    attention: Floats
    meetings: NDArray[np.int64]


class KernelSegments:
    """The segments of the blocks of a job, each computed once for a clock."""

    def __init__(self, job: Job, meetings: Meetings) -> None:
        self._job, self._meetings = job, meetings
        self._segments: dict[object, Segments] = {}
        self._devices: dict[float, Accelerator] = {}

    def of(self, stage: int, chunk: int, kind: str, clock: float = WHOLE_BLOCK) -> Segments:
        """Return the segments of a block.

        Parameters
        ----------
        clock : rate of kernels that are limited by compute, relative to that of other devices
        """
        job = self._job
        key = job.layers.content(stage, chunk), kind, clock
        if key not in self._segments:
            before, after = kernels_of_ends(job, stage, chunk, kind)
            layers = (
                layer_kernels(job, stacked, kind)
                for stacked in layers_in_order(job, stage, chunk, kind)
            )
            units = [before, *layers, after]
            moves = moves_of(job, stage, chunk, kind) or [([], [])] * len(units)
            gathered = (self._meetings.at_gather(fetch) for fetch, _ in moves)
            kernels = _with_meetings(zip(gathered, units, strict=True))
            device = self._device(clock)
            self._segments[key] = _segments(kernels, self._meetings.axes, device)
        return self._segments[key]

    def _device(self, clock: float) -> Accelerator:
        if clock not in self._devices:
            self._devices[clock] = clocked(self._job.device, clock)
        return self._devices[clock]


def _with_meetings(units: Iterable[tuple[bool, Iterable[Kernel]]]) -> Iterator[Kernel | None]:
    """Yield the kernels of units, and None before those where replicas meet."""
    for meets, kernels in units:
        if meets:
            yield None
        yield from kernels


def _segments(
    kernels: Iterable[Kernel | None], axes: frozenset[Axis], device: Accelerator
) -> Segments:
    """Return the segments of kernels, of which None marks a meeting.

    Parameters
    ----------
    axes : of the collectives at which replicas meet
    """
    seconds, attention, meetings = [0.0], [0.0], [0]
    for kernel in kernels:
        collective = kernel.moved if isinstance(kernel, Overlapped) else kernel
        axis = collective.axis if isinstance(collective, Collective) else None
        meets = kernel is None or axis in axes
        if meets:
            meetings.append(len(seconds))
        if meets or axis in OF_CELL:
            seconds.append(0.0)
            attention.append(0.0)
        if kernel is None:
            continue
        own = kernel.kernels if isinstance(kernel, Overlapped) else [kernel]
        taken = chain_seconds(own, device, _no_time)
        seconds[-1] += taken.compute
        attention[-1] += taken.attention
    return Segments(np.array(seconds), np.array(attention), np.array(meetings))


def _no_time(_: Collective) -> float:
    return 0.0
