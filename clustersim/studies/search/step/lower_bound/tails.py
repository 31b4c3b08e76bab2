"""Least times of the operations after the last step, for each different stage of a division.

    reduction of gradients | optimiser | gather of new weights

A reduction that overlaps with the last backwards is exposed from the end of its stage on by what
those cannot hide.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.cost.closed_form import Cost
from clustersim.cost.compute import pass_seconds
from clustersim.memory.states import memory_recipe
from clustersim.program.collectives.axes import Call
from clustersim.program.job import Job
from clustersim.program.movement.transfers import gathers, reductions
from clustersim.program.tail import MOST_BUCKETS
from clustersim.program.weights import on_rank
from clustersim.studies.search.step.lower_bound.division import StageKinds
from clustersim.studies.search.step.lower_bound.quickest import GroupKey, QuickestCollectives
from clustersim.workload.finetune import trainable
from clustersim.workload.kernels import Axis
from clustersim.workload.parameters import Parameters, embedding_parameters, head_parameters


@dataclass(frozen=True, eq=False)
class TailTimes:
    """Least times after the last step of each different stage, in columns [s], and its states.

    Attributes
    ----------
    start : latency of the reductions
    reduced : time of the reductions
    piece : time of the last piece of them, where they overlap with backwards
    updated : time of the optimiser and of the gathers after it
    held : training states and runtime on the device [B]
    """

    start: Floats
    reduced: Floats
    piece: Floats
    updated: Floats
    held: Floats

    @classmethod
    def stacked(cls, rows: Sequence["TailTimes"]) -> "TailTimes":
        """Return the times of several layouts, a row each."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.array([getattr(row, name) for row in rows]) for name in names))

    def of(self, number: Integers) -> "TailTimes":
        """Return the times of the stages by the numbers of their kinds, by row."""
        return TailTimes(*(getattr(self, field.name)[:, number] for field in fields(self)))


class Tails:
    """The operations after the last step of the stages of a job.

    Parameters
    ----------
    job : of one layout; those of equal degrees, sharding and number of ends have the same
    """

    def __init__(self, job: Job, collectives: QuickestCollectives) -> None:
        self._job, self._collectives = job, collectives
        self._groups: dict[Axis, GroupKey] = {}
        self._recipe = memory_recipe(job)
        layers = dict.fromkeys(job.model.stack)  # the different ones, in order
        self._layers = [trainable(job.model, layer, job.finetune) for layer in layers]
        self._embedding, self._logits = _ends(job)

    def of(self, stages: StageKinds, chunks: int) -> TailTimes:
        """Return the least times of some stages."""
        rows = [
            self._of_stage(self._parameters(*stage), chunks, sum(stage[0]))
            for stage in zip(
                stages.layers.tolist(), stages.first.tolist(), stages.last.tolist(), strict=True
            )
        ]
        return TailTimes(*np.array(rows).T)

    def _parameters(self, layers: list[float], first: float, last: float) -> Parameters:
        """Return the trained parameters of a stage."""
        total = self._embedding.scaled(first).plus(self._logits.scaled(last))
        for count, layer in zip(layers, self._layers, strict=True):
            total = total.plus(layer.scaled(count))
        return total

    def _of_stage(self, trained: Parameters, chunks: int, layers: float) -> tuple[float, ...]:
        job = self._job
        reduced = self._costs(reductions(job, trained))
        gathered = self._costs(gathers(job, trained))
        pieces = math.inf if chunks > 1 else pieces_of(job.model.layers)
        last = reduced[-1].latency + _moved(reduced[-1:]) / pieces if reduced else 0.0
        parts = 1.0
        if job.framework.gradients.gather_overlap:
            parts = chunks if chunks > 1 else max(1.0, layers)
        return (
            sum(cost.latency for cost in reduced),
            sum(cost.seconds for cost in reduced),
            last,
            self._optimiser(trained)
            + sum(cost.latency for cost in gathered)
            + _moved(gathered) / parts,
            self._held(trained),
        )

    def _held(self, trained: Parameters) -> float:
        """Return the least training states of a rank on its device, with its runtime [B]."""
        recipe, plan, offload = self._recipe, self._job.plan, self._job.offload
        if offload.parameters:
            return recipe.runtime
        sharded = on_rank(plan, trained, sharded=True)
        whole = on_rank(plan, trained)
        held = recipe.weights * (sharded if plan.zero >= 3 else whole)
        held += recipe.gradients * (sharded if plan.zero >= 2 else whole)
        if not offload.optimiser:
            held += (recipe.master + recipe.optimiser) * (sharded if plan.zero >= 1 else whole)
        elif plan.zero >= 2:
            held -= recipe.gradients * sharded
        return recipe.runtime + held

    def _costs(self, calls: Iterator[Call]) -> list[Cost]:
        """Return the costs of collectives that run one after another."""
        costs = []
        for axis, operation, nbytes in calls:
            if axis not in self._groups:
                self._groups[axis] = self._collectives.key(self._job, axis)
            costs.append(self._collectives.cost(self._groups[axis], operation, nbytes))
        return [cost for cost in costs if cost is not None]

    def _optimiser(self, trained: Parameters) -> float:
        """Return the time of the optimiser on the device [s]."""
        job = self._job
        if job.offload.host_optimiser:
            return 0.0
        passes, plan = job.framework.optimiser, job.plan
        moved = passes.held * on_rank(plan, trained)
        moved += passes.updated * on_rank(plan, trained, sharded=plan.zero >= 1)
        return pass_seconds(moved, job.cluster.accelerator)


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


def _ends(job: Job) -> tuple[Parameters, Parameters]:
    """Return the trained parameters of the embedding and of the logits, as in `program.weights`."""
    if job.finetune is not None:
        return Parameters(), Parameters()
    before = embedding_parameters(job.model)
    after = head_parameters(job.model, alone=not job.plan.wired.ends_meet)
    return (
        Parameters() if "embedding" in job.frozen_ends else before,
        Parameters(whole=after.whole) if "logits" in job.frozen_ends else after,
    )
