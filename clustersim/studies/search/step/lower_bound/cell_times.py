"""Times of the layers of one cell, from which those of all blocks follow by addition.

    layer of each kind | embedding | logits | gather of an input      forward, backward, of inputs

The kernels are those of the cost model.  Collectives between them are the quickest of all groups
and have their links to themselves; exchanges of experts that a schedule can hide are left out.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from clustersim.arrays import Floats
from clustersim.cost.compute import Seconds
from clustersim.program.blocks.layer_times import LayerTimes
from clustersim.program.blocks.work import backward_kernels
from clustersim.program.collectives.axes import Call, Pattern
from clustersim.program.job import Job
from clustersim.program.layers import StackedLayer
from clustersim.records import dataclass
from clustersim.studies.search.step.lower_bound.quickest import Groups, QuickestCollectives
from clustersim.timeline import BACKWARD, FORWARD, INPUT
from clustersim.workload.kernels import Axis, Collective, Kernel
from clustersim.workload.layers.ends import boundary_gather
from clustersim.workload.ops import NONE, Recompute, backward, forward

KINDS: Final = (FORWARD, BACKWARD, INPUT)
"""Kinds of steps whose times are kept, in order."""

AXES_IN_BLOCKS: Final[tuple[Axis, ...]] = ("tensor", "context", "expert", "expert-tensor")
"""Axes of the collectives between kernels."""

BUSY, EXPERT, PLAIN, AUTOGRAD, REPLAYS, IDLE = range(6)
"""Columns of a time: device time [s], exchange of experts that is part of it [s], kernels that
Python and that the autograd engine launch, graphs, idle time of the device [s]."""

IN_ALL, IN_STATES = slice(0, 6), slice(6, 9)
"""These columns, and those of the device time by its states, as `step_bound.BOUNDED`: products and
attention, kernels that memory limits, and collectives other than that exchange [s]."""


@dataclass(frozen=True, eq=False)
class CellTimes:
    """Times by kind of step of the parts of a model, in cells that run the same kernels.

    Attributes
    ----------
    layers : by cell, kind of layer, kind of step and column
    embedding, logits, gather : by cell, kind of step and column
    """

    layers: Floats
    embedding: Floats
    logits: Floats
    gather: Floats


class CellTimesOf:
    """The times of the cells that run the kernels of one job, for any recomputation.

    Kernels are priced once for all these cells, whose collectives differ in their times.

    Parameters
    ----------
    groups : of each cell, those of the axes in `AXES_IN_BLOCKS`
    """

    def __init__(
        self, job: Job, groups: Sequence[Groups], collectives: QuickestCollectives
    ) -> None:
        self._job, self._groups, self._collectives = job, [*map(dict, groups)], collectives
        self._moved: dict[Call, Floats | float] = {}
        self._times = LayerTimes(job, self._seconds)
        self._recomputed: dict[Recompute, Floats] = {}
        self.plain = self._plain()

    def recomputed(self, recompute: Recompute) -> Floats:
        """Return the time that recomputation adds to the backward, by cell, layer and column."""
        if recompute not in self._recomputed:
            layers = stacked_layers(self._job, recompute)
            added = [self._times.layer(layer, BACKWARD, ())[1] for layer in layers]
            self._recomputed[recompute] = np.stack([*map(self._columns, added)], axis=1)
        return self._recomputed[recompute]

    def _seconds(self, collective: Collective, _: Pattern) -> Floats | float:
        """Return the time of a collective in each cell, or in all of them [s]."""
        call = Call.of(collective)
        if call not in self._moved:
            keys = [groups.get(call.axis) for groups in self._groups]
            seconds = {
                key: self._collectives.seconds(key, call.operation, call.nbytes) if key else 0.0
                for key in dict.fromkeys(keys)
            }
            times = [seconds[key] for key in keys]
            self._moved[call] = times[0] if len(seconds) == 1 else np.array(times)
        return self._moved[call]

    def _plain(self) -> CellTimes:
        job, layers = self._job, self._job.layers
        pipeline = job.framework.pipeline
        gathers = {
            kind: boundary_gather(job.shard, count if pipeline.sharded else 0)
            for kind, count in (
                (FORWARD, pipeline.gathers_forward),
                (BACKWARD, pipeline.gathers_backward),
            )
        }
        of_layers = [
            self._of_kinds(self._times.layer(layer, kind, ())[0] for kind in KINDS)
            for layer in stacked_layers(job, NONE)
        ]
        return CellTimes(
            layers=np.stack(of_layers, axis=1),
            embedding=self._of_end(forward(layers.embedding), backward(layers.embedding)),
            logits=self._of_end(forward(layers.head), backward(layers.head)),
            gather=self._of_end(gathers[FORWARD], gathers[BACKWARD]),
        )

    def _of_end(self, ahead: Iterable[Kernel], back: Iterable[Kernel]) -> Floats:
        """Return the times of kernels outside the layers by cell, kind of step and column."""
        back = list(back)
        times = [self._times.chain(ahead, ())]
        for kind in (BACKWARD, INPUT):
            times.append(self._times.chain(backward_kernels(back, kind), ()).of_backward())
        return self._of_kinds(times)

    def _of_kinds(self, times: Iterable[Seconds]) -> Floats:
        return np.stack([*map(self._columns, times)], axis=1)

    def _columns(self, seconds: Seconds) -> Floats:
        """Return a time by cell and column."""
        rows = np.empty((len(self._groups), IN_STATES.stop))
        for column, values in enumerate(_columns(seconds)):
            rows[:, column] = values
        return rows


def stacked_layers(job: Job, recompute: Recompute) -> list[StackedLayer]:
    """Return the different layers of a model, all of them with some recomputation."""
    return [
        StackedLayer(layer, recompute.of(job.layers.ops(layer)), recompute.outputs)
        for layer in job.model.kinds
    ]


def _columns(seconds: Seconds) -> tuple[Floats | float, ...]:
    return (
        seconds.busy,
        seconds.expert,
        seconds.launches - seconds.autograd,
        seconds.autograd,
        seconds.replays,
        seconds.dispatch,
        seconds.gemm + seconds.attention,
        seconds.stream,
        seconds.exposed - seconds.expert,
    )
