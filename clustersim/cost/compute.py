"""Time of kernels on a device: a roofline with a roof that depends on the shape.

A matrix product runs at

    peak * best * e_tile * e_wave * k / (k + k_half)

where the idle part of the last wave of output tiles, and the part of a tile outside the matrix, are
wasted work, or at the rate of memory if that is lower.  Streams run at the achieved share of memory
bandwidth.  Every kernel has a launch overhead.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace

from clustersim.topology.accelerator import Accelerator, Tile
from clustersim.workload.kernels import (
    Collective,
    Flash,
    Gemm,
    Kernel,
    Overlapped,
    Stream,
)


def gemm_efficiency(gemm: Gemm, device: Accelerator) -> float:
    r"""Return the share of peak that a product of this shape reaches, if not limited by memory.

    .. math:: e_{best} \max_{tile} e_{tile} \frac{m n / r c}{\lceil waves \rceil U}
              \frac{k}{k + k_{1/2}}

    with r, c the tile's rows and columns, U = `compute_units` and waves = tiles / U. The library
    picks the best tile. Products of 8-bit numbers may have a rate and a depth of their own. Filling
    the pipeline takes as long at a lower peak, so that k_1/2 shrinks with it.
    """
    best, half = device.gemm_best, device.gemm_inner_half
    if gemm.width == 1:
        best = best if device.narrow_best is None else device.narrow_best
        half = half if device.narrow_inner_half is None else device.narrow_inner_half
    shape = max(_tile_share(gemm, tile, device.compute_units) for tile in device.tiles)
    slower = _peak(gemm, device) / device.peak_rate(gemm.peak)
    return best * shape * gemm.k / (gemm.k + half * slower)


def _peak(gemm: Gemm, device: Accelerator) -> float:
    """Return the peak of a product: that of ragged rows where it has them [FLOP/s]."""
    peak = device.peak_rate(gemm.peak)
    return min(peak, device.gemm_ragged) if gemm.ragged and device.gemm_ragged else peak


def _tile_share(gemm: Gemm, tile: Tile, units: int) -> float:
    """Return useful work over work done, with the waste of edge tiles and the last wave."""
    tiles = gemm.batch * math.ceil(gemm.m / tile.rows) * math.ceil(gemm.n / tile.columns)
    waves = math.ceil(tiles / units)
    useful = gemm.batch * gemm.m * gemm.n / (tile.rows * tile.columns)
    return tile.efficiency * useful / (waves * units)


def gemm_seconds(gemm: Gemm, device: Accelerator) -> float:
    """Return the time of a matrix product on the device [s]."""
    rate = _peak(gemm, device) * gemm_efficiency(gemm, device)
    return max(gemm.flops / rate, stream_seconds(gemm.nbytes, device)) + device.launch_overhead


def stream_seconds(nbytes: float, device: Accelerator) -> float:
    """Return the time to move `nbytes` through device memory [s]."""
    return nbytes / (device.memory_bandwidth * device.memory_achieved)


def pass_seconds(nbytes: float, device: Accelerator) -> float:
    """Return the time of elementwise passes that read and write `nbytes` [s]."""
    share = min(device.memory_achieved, device.passes_limit)
    return nbytes / (device.memory_bandwidth * share)


def flash_seconds(kernel: Flash, device: Accelerator) -> float:
    """Return the time of a fused attention kernel, heads padded to an available size [s]."""
    library = device.cudnn if kernel.cudnn and device.cudnn is not None else device.flash
    rate = library.backward if kernel.backward else library.forward
    sizes = device.flash_head_sizes
    built = next((size for size in sizes if size >= kernel.head_size), kernel.head_size)
    share = kernel.share * rate.at(kernel.sequence, built)
    done = kernel.flops * built / kernel.head_size
    seconds = done / (device.peak_rate(kernel.peak) * share)
    return max(seconds, stream_seconds(kernel.nbytes, device)) + device.launch_overhead


@dataclass(frozen=True)
class Seconds:
    """Time of a chain of kernels, by component [s].

    Attributes
    ----------
    gemm, attention, stream : device time by kind of kernel
    tensor, context, expert, data : exposed collectives of these groups; those that shard weights
        and gradients are part of `data`
    host : exposed copies to and from the host
    imbalance : wait for the rank with the most tokens
    slowed : additional time of kernels while concurrent collectives occupy compute units
    dispatch : by how much the host is slower in launching than the device in computing
    launches : kernels that the host dispatches [count]
    autograd : those that its autograd engine dispatches, in a backward [count]
    replays : graphs of kernels that it issues as a whole [count]
    flops : of the matrix products [FLOP]
    """

    gemm: float = 0.0
    attention: float = 0.0
    stream: float = 0.0
    tensor: float = 0.0
    context: float = 0.0
    expert: float = 0.0
    data: float = 0.0
    host: float = 0.0
    imbalance: float = 0.0
    slowed: float = 0.0
    dispatch: float = 0.0
    launches: int = 0
    autograd: float = 0.0
    replays: float = 0.0
    flops: float = 0.0

    @property
    def compute(self) -> float:
        """Device time without communication."""
        return self.gemm + self.attention + self.stream

    @property
    def exposed(self) -> float:
        """Exposed communication and copies."""
        return self.tensor + self.context + self.expert + self.data + self.host

    @property
    def busy(self) -> float:
        """All components but `dispatch`."""
        return self.compute + self.exposed + self.imbalance + self.slowed

    @property
    def total(self) -> float:
        """All components."""
        return self.busy + self.dispatch

    def __add__(self, other: "Seconds") -> "Seconds":
        return Seconds(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __mul__(self, times: int) -> "Seconds":
        return Seconds(*(getattr(self, f.name) * times for f in fields(self)))

    def skewed(self, skew: float) -> "Seconds":
        """Return the chain with a wait for a rank that computes `skew` times as long."""
        return replace(self, imbalance=self.imbalance + (skew - 1) * self.compute)

    def captured(self) -> "Seconds":
        """Return the chain with its kernels in a graph, none issued separately."""
        return replace(self, launches=0, autograd=0.0)

    def of_backward(self) -> "Seconds":
        """Return the chain with its kernels issued by the autograd engine."""
        return replace(self, autograd=self.launches)

    def dispatched(
        self, seconds: float, replay: float = 0.0, autograd: float | None = None, *,
        waits: bool = False,
    ) -> "Seconds":  # fmt: skip
        """Return the chain issued by a host that needs `seconds` for each kernel.

        Its time is the larger of its device time and what the host takes to issue it: its
        launches times this, those of its autograd engine times `autograd` where that differs, and
        its replays times `replay`; both one after the other where the host waits for each kernel.
        """
        issued = self.issued(seconds, replay, autograd)
        return replace(self, dispatch=issued if waits else max(0.0, issued - self.busy))

    def issued(self, seconds: float, replay: float = 0.0, autograd: float | None = None) -> float:
        """Return the time of the host to issue the chain, as in `dispatched` [s]."""
        backward = seconds if autograd is None else autograd
        issued = (self.launches - self.autograd) * seconds + self.autograd * backward
        return issued + self.replays * replay


def overlapped_step(own: Seconds, other: Seconds, occupied: float) -> Seconds:
    """Return a chain concurrent with another: its expert exchange overlaps with their compute.

    DeepSeek-AI 2024, section 3.2.1, arXiv:2412.19437.  Other exposed components stay exposed.

    Parameters
    ----------
    occupied : share of the device's compute units that the exchange takes from the other
    """
    hidden = min(own.expert, other.compute)
    slowed = own.slowed + occupied * hidden
    return replace(own, expert=own.expert - hidden, slowed=slowed, dispatch=0.0)


def chain_seconds(
    kernels: Iterable[Kernel],
    device: Accelerator,
    moved: Callable[[Collective], float],
    occupied: float = 0.0,
) -> Seconds:
    """Return the time of a chain of kernels, one after another on one stream.

    Parameters
    ----------
    moved : time of a collective [s]
    occupied : share of the device's compute units that a collective takes from concurrent kernels
    """
    total = Seconds()
    for kernel in kernels:
        total += _seconds(kernel, device, moved, occupied)
    return total


def _seconds(
    kernel: Kernel, device: Accelerator, moved: Callable[[Collective], float], occupied: float
) -> Seconds:
    """Return the time of one kernel."""
    if isinstance(kernel, Overlapped):
        inner, transfer = chain_seconds(kernel.kernels, device, moved), moved(kernel.moved)
        whole = overlapped_seconds(inner.compute, transfer, occupied)
        exposed = max(0.0, transfer - inner.compute)
        slowed = Seconds(slowed=whole - inner.compute - exposed)
        return inner + _communication(kernel.moved, exposed) + slowed
    if isinstance(kernel, Collective):
        return _communication(kernel, moved(kernel))
    if isinstance(kernel, Stream):
        pause = kernel.launches * device.launch_overhead
        return Seconds(stream=pass_seconds(kernel.nbytes, device) + pause, launches=kernel.launches)
    if isinstance(kernel, Flash):
        return Seconds(attention=flash_seconds(kernel, device), launches=1, flops=kernel.flops)
    component = "attention" if kernel.attention else "gemm"
    return Seconds(**{component: gemm_seconds(kernel, device)}, launches=1, flops=kernel.flops)


def _communication(collective: Collective, seconds: float) -> Seconds:
    return Seconds(**{_COMPONENT_OF.get(collective.axis, collective.axis): seconds}, launches=1)


_COMPONENT_OF = {"copies": "data", "expert-data": "data", "expert-tensor": "expert"}
"""Components of `Seconds` of axes without a component of the same name."""


def overlapped_seconds(compute: float, moved: float, occupied: float) -> float:
    r"""Return the time of kernels of `compute` seconds, with a concurrent collective [s].

    .. math:: \max(T, C + o T)

    with C = `compute`, T = `moved` and o = `occupied`: while the collective runs, the kernels have
    1 - o of the device. Their memory traffic is assumed to leave room for the collective.
    """
    return max(moved, compute + occupied * moved)
