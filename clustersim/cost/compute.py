"""Time of kernels on a device, and of chains of them.

product, fused attention    the longer of its work and of its operands through memory
stream                      bytes at the achieved share of memory bandwidth
chain                       one after another, each with a launch overhead
"""

from collections.abc import Callable, Iterable
from operator import add
from typing import Any, Final, NamedTuple

import numpy as np

from clustersim.answers import in_brief
from clustersim.arrays import Floats
from clustersim.bounded_cache import BoundedCache
from clustersim.cost.kernels.attention import flash_seconds
from clustersim.cost.kernels.products import gemm_seconds
from clustersim.topology.accelerator import Accelerator
from clustersim.workload.kernels import (
    Collective,
    Flash,
    Gemm,
    Kernel,
    Overlapped,
    Stream,
)


def pass_seconds(nbytes: float, device: Accelerator) -> float:
    """Return the time of elementwise passes that read and write `nbytes` [s]."""
    share = min(device.memory_achieved, device.passes_limit)
    return nbytes / (device.memory_bandwidth * share)


class Seconds(NamedTuple):
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

    def __repr__(self) -> str:
        """Return the components in one short line."""
        return in_brief(self)

    def __add__(self, other: "Seconds") -> "Seconds":  # type: ignore[override]
        return Seconds(*map(add, self, other))

    def __mul__(self, times: float) -> "Seconds":  # type: ignore[override]
        values: Iterable[Any] = self
        return Seconds(*[value * times for value in values])

    @classmethod
    def sum(cls, chains: Iterable["Seconds"]) -> "Seconds":
        """Return the time of chains one after another."""
        several = [*chains]
        if len(several) == 1:
            return several[0]
        return cls(*map(sum, zip(*several, strict=True)))

    def skewed(self, skew: float) -> "Seconds":
        """Return the chain with a wait for a rank that computes `skew` times as long."""
        if skew == 1:
            return self
        return self._replace(imbalance=self.imbalance + (skew - 1) * self.compute)

    def captured(self) -> "Seconds":
        """Return the chain with its kernels in a graph, none issued separately."""
        return self._replace(launches=0, autograd=0.0)

    def of_backward(self) -> "Seconds":
        """Return the chain with its kernels issued by the autograd engine."""
        return self._replace(autograd=self.launches)

    def dispatched(
        self, seconds: float, replay: float = 0.0, autograd: float | None = None, *,
        waits: bool = False,
    ) -> "Seconds":  # fmt: skip
        """Return the chain issued by a host that needs `seconds` for each kernel.

        Its time is the larger of its device time and what the host takes to issue it: its
        launches times this, those of its autograd engine times `autograd` where that differs, and
        its replays times `replay`; both one after the other where the host waits for each kernel.
        A `dispatch` that it already has is the idle time of a device that the host follows.
        """
        issued = self.issued(seconds, replay, autograd)
        idle = max(self.dispatch, issued - self.busy)
        return self._replace(dispatch=issued if waits else idle)

    def issued(self, seconds: float, replay: float = 0.0, autograd: float | None = None) -> float:
        """Return the time of the host to issue the chain, as in `dispatched` [s]."""
        backward = seconds if autograd is None else autograd
        issued = (self.launches - self.autograd) * seconds + self.autograd * backward
        return issued + self.replays * replay


def followed_seconds(chain: Iterable[tuple[float, Floats | float]]) -> Floats:
    r"""Return by how long a device with an empty queue is idle while the host issues a chain [s].

    .. math:: \max_i \Bigl( \sum_{j \le i} h_j - \sum_{j < i} d_j \Bigr) - d_i

    at least 0, with h and d the time of the host to issue an operation and that of the device to
    run it: the makespan of two machines in series, whose second one starts an operation with its
    first kernel and ends it no earlier than the host has issued its last.  Device times may be
    arrays, of several runs of the chain.

    >>> first, last = followed_seconds([(1.0, 3.0), (1.0, 1.0)]), [(3.0, 1.0), (1.0, 3.0)]
    >>> float(first), float(followed_seconds(last))
    (0.0, 2.0)
    """
    host, device, busy = 0.0, np.zeros(()), np.zeros(())
    for issued, run in chain:
        host, busy = host + issued, busy + run
        device = np.maximum(device + run, host)
    return device - busy


def overlapped_step(own: Seconds, other: Seconds, occupied: float, share: float = 1.0) -> Seconds:
    """Return a chain concurrent with another: its expert exchange overlaps with their compute.

    DeepSeek-AI 2024, section 3.2.1, arXiv:2412.19437.  Other exposed components stay exposed.

    Parameters
    ----------
    occupied : share of the device's compute units that the exchange takes from the other
    share : of the chains of a step that run concurrently with another
    """
    hidden = share * min(own.expert, other.compute)
    slowed = own.slowed + occupied * hidden
    return own._replace(expert=own.expert - hidden, slowed=slowed, dispatch=0.0)


def chain_seconds(
    kernels: Iterable[Kernel],
    device: Accelerator,
    moved: Callable[[Collective], Any],
    occupied: float = 0.0,
) -> Seconds:
    """Return the time of a chain of kernels, one after another on one stream.

    Parameters
    ----------
    moved : time of a collective; an array for its times in several places, of which the components
        that depend on it are arrays then [s]
    occupied : share of the device's compute units that a collective takes from concurrent kernels
    """
    return Seconds.sum(_seconds(kernel, device, moved, occupied) for kernel in kernels)


def _seconds(
    kernel: Kernel, device: Accelerator, moved: Callable[[Collective], Any], occupied: float
) -> Seconds:
    """Return the time of one kernel."""
    if isinstance(kernel, Overlapped):
        inner, transfer = chain_seconds(kernel.kernels, device, moved), moved(kernel.moved)
        whole = overlapped_seconds(inner.compute, transfer, occupied)
        exposed = _larger(transfer - inner.compute, 0.0)
        slowed = Seconds(slowed=whole - inner.compute - exposed)
        return inner + _communication(kernel.moved, exposed) + slowed
    if isinstance(kernel, Collective):
        return _communication(kernel, moved(kernel))
    key = id(device), type(kernel), kernel
    return _PRICED.get(key, 1, lambda: (_alone(kernel, device), device))[0]


_PRICED: Final = BoundedCache(1 << 14, 1)
"""The latest kernels by device: layouts of a sweep and of a search have most of them in common.

A device that is kept has its number to itself.
"""


def _alone(kernel: Gemm | Stream | Flash, device: Accelerator) -> Seconds:
    """Return the time of a kernel that no collective concerns."""
    if isinstance(kernel, Stream):
        pause = kernel.launches * device.launch_overhead
        return Seconds(stream=pass_seconds(kernel.nbytes, device) + pause, launches=kernel.launches)
    if isinstance(kernel, Flash):
        return Seconds(attention=flash_seconds(kernel, device), launches=1, flops=kernel.flops)
    component = "attention" if kernel.attention else "gemm"
    seconds = gemm_seconds(kernel, device)
    return Seconds(**{component: seconds}, launches=kernel.launches, flops=kernel.flops)


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
    seconds: float = _larger(moved, compute + occupied * moved)
    return seconds


def _larger(value: Any, other: Any) -> Any:
    """Return the larger one of two numbers, of each pair where the first is an array."""
    return np.maximum(value, other) if isinstance(value, np.ndarray) else max(value, other)
