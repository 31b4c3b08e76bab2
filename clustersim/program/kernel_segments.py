"""Segments of a block: the time of its kernels between two collectives of its cell.

    | kernels | all-reduce | kernels | all-reduce | kernels |      segments 0, 1, 2

At each collective the ranks of a cell wait for the slowest one, so that a cell takes the sum over
the segments of the longest time of a rank, and not the longest sum.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from clustersim.cost.compute import chain_seconds
from clustersim.program.blocks import kernels_of_ends, layer_kernels, layers_in_order
from clustersim.program.communicators import OF_CELL
from clustersim.program.job import Job
from clustersim.topology.accelerator import Accelerator
from clustersim.workload.kernels import Collective, Kernel, Overlapped

Floats = NDArray[np.float64]

WHOLE_BLOCK = 1.0
"""Clock of a device without a power cap, relative to that of the others."""


class KernelSegments:
    """The segments of the blocks of a job, each computed once for a clock.

    `seconds` and `attention` are arrays with a value for each segment [s].
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._segments: dict[object, tuple[Floats, Floats]] = {}
        self._devices: dict[float, Accelerator] = {}

    def of(
        self, stage: int, chunk: int, kind: str, clock: float = WHOLE_BLOCK
    ) -> tuple[Floats, Floats]:
        """Return the time of the kernels of a block by segment, and that of attention in it [s].

        Parameters
        ----------
        clock : rate of kernels that are limited by compute, relative to that of other devices
        """
        job = self._job
        key = job.layers.stacked(stage, chunk), job.plan.ends(stage, chunk), kind, clock
        if key not in self._segments:
            before, after = kernels_of_ends(job, stage, chunk, kind)
            layers = (
                layer_kernels(job, stacked, kind)
                for stacked in layers_in_order(job, stage, chunk, kind)
            )
            kernels = chain(before, *layers, after)
            self._segments[key] = _segments(kernels, self._device(clock))
        return self._segments[key]

    def _device(self, clock: float) -> Accelerator:
        if clock not in self._devices:
            self._devices[clock] = clocked(self._job.cluster.accelerator, clock)
        return self._devices[clock]


def clocked(device: Accelerator, clock: float) -> Accelerator:
    """Return a device with another clock of its compute units; its memory is as fast as before."""
    ragged = device.gemm_ragged
    return replace(
        device,
        peak={precision: clock * rate for precision, rate in device.peak.items()},
        gemm_ragged=None if ragged is None else clock * ragged,
    )


def _segments(kernels: Iterable[Kernel], device: Accelerator) -> tuple[Floats, Floats]:
    """Return the time of all kernels and of attention, by segment [s]."""
    seconds, attention = [0.0], [0.0]
    for kernel in kernels:
        collective = kernel.moved if isinstance(kernel, Overlapped) else kernel
        if isinstance(collective, Collective) and collective.axis in OF_CELL:
            seconds.append(0.0)
            attention.append(0.0)
        own = kernel.kernels if isinstance(kernel, Overlapped) else [kernel]
        taken = chain_seconds(own, device, _no_time)
        seconds[-1] += taken.compute
        attention[-1] += taken.attention
    return np.array(seconds), np.array(attention)


def _no_time(_: Collective) -> float:
    return 0.0


__all__ = ["KernelSegments", "clocked"]
