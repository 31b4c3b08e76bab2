"""Least times of the operations after the last step, for each different stage of a division.

    reduction of gradients | optimiser | gather of new weights

A reduction that overlaps with the last backwards is exposed from the end of its stage on by what
those cannot hide.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Final

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.cost.closed_form import Cost
from clustersim.cost.compute import pass_seconds
from clustersim.program.collectives.axes import Call
from clustersim.program.job import Job
from clustersim.program.movement.offload import host_tail
from clustersim.program.movement.transfers import gathers, reductions
from clustersim.program.tail import MOST_BUCKETS, orthogonal_seconds
from clustersim.program.weights import on_rank
from clustersim.records import dataclass
from clustersim.studies.search.step.lower_bound.division import StageKinds
from clustersim.studies.search.step.lower_bound.quickest import Groups, QuickestCollectives
from clustersim.studies.search.step.lower_bound.stage_parameters import StageParameters
from clustersim.workload.kernels import Axis
from clustersim.workload.parameters import Parameters

AXES_OF_TAILS: Final[tuple[Axis, ...]] = ("data", "copies", "expert-data")
"""Axes of the collectives after the last step."""


@dataclass(frozen=True, eq=False)
class TailTimes:
    """Least times after the last step of each different stage, in columns [s].

    Attributes
    ----------
    start : latency of the reductions
    reduced : time of the reductions
    piece : time of the last piece of them, where they overlap with backwards
    updated : time of the optimiser and of the gathers after it
    """

    start: Floats
    reduced: Floats
    piece: Floats
    updated: Floats

    @classmethod
    def stacked(cls, rows: Sequence["TailTimes"]) -> "TailTimes":
        """Return the times of several layouts, a row each."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.array([getattr(row, name) for row in rows]) for name in names))

    def rows(self, places: Integers) -> "TailTimes":
        """Return the times of layouts by the places of their rows."""
        return TailTimes(*(getattr(self, field.name)[places] for field in fields(self)))

    def of(self, number: Integers) -> "TailTimes":
        """Return the times of the stages by the numbers of their kinds, by row."""
        return TailTimes(*(getattr(self, field.name)[:, number] for field in fields(self)))


class Tails:
    """The operations after the last step of the stages of a job.

    Parameters
    ----------
    job : of one layout; those of equal degrees, sharding and number of ends have the same
    groups : along `AXES_OF_TAILS`
    """

    def __init__(self, job: Job, groups: Groups, collectives: QuickestCollectives) -> None:
        self._job, self._groups, self._collectives = job, dict(groups), collectives
        self._parameters = StageParameters(job)

    def of(self, stages: StageKinds, chunks: int) -> TailTimes:
        """Return the least times of some stages."""
        rows = [
            self._of_stage(self._parameters.of(*stage), chunks, stage[0])
            for stage in zip(
                stages.layers.tolist(), stages.first.tolist(), stages.last.tolist(), strict=True
            )
        ]
        return TailTimes(*np.array(rows).T)

    def _of_stage(self, trained: Parameters, chunks: int, layers: list[float]) -> tuple[float, ...]:
        job = self._job
        reduced = self._costs(reductions(job, trained))
        gathered = self._costs(gathers(job, trained))
        pieces = math.inf if chunks > 1 else pieces_of(job.model.layers)
        last = reduced[-1].latency + _moved(reduced[-1:]) / pieces if reduced else 0.0
        parts = 1.0
        if job.framework.gradients.gather_overlap:
            parts = chunks if chunks > 1 else max(1.0, sum(layers))
        return (
            sum(cost.latency for cost in reduced),
            sum(cost.seconds for cost in reduced),
            last,
            self._optimiser(trained, layers)
            + sum(cost.latency for cost in gathered)
            + _moved(gathered) / parts,
        )

    def _costs(self, calls: Iterator[Call]) -> list[Cost]:
        """Return the costs of collectives that run one after another."""
        costs = [
            self._collectives.cost(self._groups[axis], operation, nbytes)
            for axis, operation, nbytes in calls
        ]
        return [cost for cost in costs if cost is not None]

    def _optimiser(self, trained: Parameters, layers: list[float]) -> float:
        """Return the time of the optimiser [s]."""
        job = self._job
        if job.offload.host_optimiser:
            return host_tail(job, trained)
        passes, plan = job.framework.optimiser, job.plan
        moved = passes.held * on_rank(plan, trained)
        moved += passes.updated * on_rank(plan, trained, sharded=plan.zero >= 1)
        of_kinds = dict(zip(job.model.kinds, layers, strict=True))
        return pass_seconds(moved, job.cluster.accelerator) + orthogonal_seconds(job, of_kinds)


def exposed_reduction(tails: TailTimes, last_backward: Floats, chunks: int, layers: int) -> Floats:
    r"""Return the least exposed time of reductions that overlap with the last backwards [s].

    .. math:: \max(p, n l + r - b)

    with p the last piece, which begins after the backward, l the latency and r the time of all
    bytes, in n pieces one after another that become ready during the last backward of b.  Of a
    stage of several chunks only the last piece is counted.
    """
    if chunks > 1:
        return tails.piece
    whole = (pieces_of(layers) - 1) * tails.start + tails.reduced - last_backward
    return np.asarray(np.maximum(tails.piece, whole))


def pieces_of(layers: int) -> int:
    """Return the pieces in which the gradients of a stage of one chunk are reduced."""
    return max(1, min(MOST_BUCKETS, layers))


def _moved(costs: Sequence[Cost]) -> float:
    """Return the time of the bytes of collectives [s]."""
    return sum(cost.seconds - cost.latency for cost in costs)
