"""Times of layers: the kernels of one layer for one microbatch, forward, backward and recomputed.

    operations of a layer --cost--> seconds of each kind of step

The time of each different layer is computed once, not for each microbatch.
"""

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, Final, NamedTuple

from clustersim.arrays import Floats
from clustersim.bounded_cache import BoundedCache
from clustersim.cost.compute import Seconds, chain_seconds, followed_seconds
from clustersim.program.blocks.work import backward_kernels
from clustersim.program.collectives.axes import Pattern
from clustersim.program.job import Job
from clustersim.program.layers import StackedLayer
from clustersim.program.movement.sharding import tails
from clustersim.timeline import BACKWARD, FORWARD, INPUT
from clustersim.workload.kernels import Collective, Kernel, Overlapped
from clustersim.workload.ops import Op

Communication = Callable[[Collective, Pattern], Any]
"""The time of a collective of the groups of a pattern, or an array of its times in places [s]."""


class Late(NamedTuple):
    """When the data of the next unit are requested while a layer runs.

    Attributes
    ----------
    gather, copy : time before the end of the layer at which its weights are gathered, and copied
        from the host [s]; None at the start of the layer
    """

    gather: float | None = None
    copy: float | None = None


AT_ONCE = Late()


class LayerTimes:
    """The times of the layers of a job, and of other chains of kernels.

    Parameters
    ----------
    communication : time of the collectives between the kernels
    """

    def __init__(self, job: Job, communication: Communication) -> None:
        self._job, self._communication = job, communication
        self._known: dict[object, tuple[Seconds, Seconds]] = {}
        self._own: dict[object, Seconds] = {}
        self._late: dict[object, Late] = {}
        self._routed: dict[object, list[Seconds]] = {}

    def layer(self, stacked: StackedLayer, kind: str, pattern: Pattern) -> tuple[Seconds, Seconds]:
        """Return the time of a layer, and the additional time of its recomputation."""
        key = stacked, kind, pattern
        if key not in self._known:
            layers, repeats = self._job.layers, kind in (BACKWARD, INPUT)
            captured = layers.captured(stacked.layer)
            recomputed = [
                op for op in layers.ops(stacked.layer) if op.name in stacked.recomputed and repeats
            ]
            added = self._ops(recomputed, FORWARD, pattern, captured)
            self._known[key] = self._without_recomputation(stacked, kind, pattern), added
        return self._known[key]

    def _without_recomputation(self, stacked: StackedLayer, kind: str, pattern: Pattern) -> Seconds:
        """Return the time of a layer, the same for all that it may recompute."""
        key = stacked.layer, kind, pattern
        if key not in self._own:
            layers = self._job.layers
            ops, captured = layers.ops(stacked.layer), layers.captured(stacked.layer)
            graph = Seconds(replays=float(bool(captured)))
            own = self._ops(ops, kind, pattern, captured) + graph
            if kind == FORWARD and self._job.experts.synchronised:
                idle: Any = self.followed(stacked, pattern)
                own = own._replace(dispatch=idle if idle.ndim else float(idle))
            self._own[key] = own
        return self._own[key]

    def late(
        self,
        stacked: StackedLayer,
        kernels: Iterable[Kernel],
        kind: str,
        pattern: Pattern,
        whole: Seconds,
    ) -> Late:
        """Return when the data of the next unit are requested, as `program.movement.sharding`.

        Parameters
        ----------
        whole : of the layer
        """
        if not self._job.adapter_units:
            return AT_ONCE
        key = stacked, kind, pattern
        if key not in self._late:
            last = (self.chain(tail, pattern) for tail in tails(kernels, kind))
            self._late[key] = Late(*(self._lead(whole, tail, kind) for tail in last))
        return self._late[key]

    def _lead(self, whole: Seconds, tail: Seconds, kind: str) -> float:
        """Return the time from a request to the end of a layer [s].

        The device is before the tail, and the host has issued what comes before the request: in the
        forward the whole layer, in the backward all but the tail.
        """
        dispatch = self._job.dispatch
        later = 0.0 if kind == FORWARD else dispatch.issued(tail.of_backward())
        issued = dispatch.issued(whole)
        return whole.total - max(whole.busy - tail.busy, issued - later)

    def chain(self, kernels: Iterable[Kernel], pattern: Pattern) -> Seconds:
        """Return the time of kernels one after another."""

        def seconds_of(collective: Collective) -> Any:
            return self._communication(collective, pattern)

        job = self._job
        return chain_seconds(kernels, job.device, seconds_of, job.cluster.occupied)

    def followed(
        self,
        stacked: StackedLayer,
        pattern: Pattern,
        scale: Floats | float = 1.0,
        delay: float = 0.0,
    ) -> Floats:
        """Return the idle time of a layer's forward after the host has waited for its routing.

        Parameters
        ----------
        scale : time of the kernels, relative to that on an undisturbed device
        delay : by which the host dispatches each kernel later [s]
        """
        dispatch, key = self._job.dispatch, (stacked, pattern)
        if key not in self._routed:
            self._routed[key] = self._routed_chains(stacked, pattern)
        return followed_seconds(
            (dispatch.issued(chain, delay), chain.compute * scale + (chain.busy - chain.compute))
            for chain in self._routed[key]
        )

    def _routed_chains(self, stacked: StackedLayer, pattern: Pattern) -> list[Seconds]:
        """Return the time of the operations of a layer's forward that need its routing."""
        layers = self._job.layers
        captured, followed = layers.captured(stacked.layer), layers.followed(stacked.layer)
        return [
            self._ops([op], FORWARD, pattern, captured)
            for op in layers.ops(stacked.layer)
            if op.name in followed
        ]

    def _ops(
        self, ops: Iterable[Op], kind: str, pattern: Pattern, captured: Collection[str]
    ) -> Seconds:
        """Return the time of operations forward or backward, some of them captured in a graph."""
        return Seconds.sum([self._op(op, kind, pattern, op.name in captured) for op in ops])

    def _op(self, op: Op, kind: str, pattern: Pattern, captured: bool) -> Seconds:
        """Return the time of an operation, known from other layouts if it needs its device only."""
        kernels, device = op.forward if kind == FORWARD else op.backward, self._job.device
        priced = partial(self._priced, op, kind, pattern, captured)
        if any(isinstance(kernel, WITH_COLLECTIVES) for kernel in kernels):
            return priced()
        key = id(device), kernels, kind, op.skew, captured
        return _PRICED.get(key, 1, lambda: (priced(), device))[0]

    def _priced(self, op: Op, kind: str, pattern: Pattern, captured: bool) -> Seconds:
        kernels = op.forward if kind == FORWARD else backward_kernels(op.backward, kind)
        seconds = self.chain(kernels, pattern).skewed(op.skew)
        seconds = seconds if kind == FORWARD else seconds.of_backward()
        return seconds.captured() if captured else seconds


WITH_COLLECTIVES: Final = (Collective, Overlapped)
"""Kernels whose time depends on places of ranks."""

_PRICED: Final = BoundedCache(1 << 15, 1)
"""The latest operations by device, as `cost.compute` keeps kernels: a layout shares most of its
operations with others that differ in their degrees of experts, their places or their pipeline."""
