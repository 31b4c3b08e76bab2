"""Cells of many layouts with their sharding, side by side: the columns of the arrays of a bound.

All columns have the same number of stages.  Their cells share times, their meshes the paths of
stage transfers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.cost.closed_form import message_cost
from clustersim.program.job import Job
from clustersim.program.movement.transfers import hop_paths, sent_bytes
from clustersim.studies.search.step.lower_bound.cell_times import (
    AXES_IN_BLOCKS,
    CellTimesOf,
)
from clustersim.studies.search.step.lower_bound.jobs import LayoutJobs
from clustersim.studies.search.step.lower_bound.layout_values import (
    Cell,
    Layout,
    Mesh,
    Shape,
    Sharding,
)
from clustersim.studies.search.step.lower_bound.quickest import QuickestCollectives
from clustersim.studies.search.step.lower_bound.tails import TailTimes
from clustersim.workload.ops import Recompute

ANY_SHAPE = Shape("1f1b", 1, "with-ends")
"""The shape of jobs of which only the cell or the paths are read."""


class Column(NamedTuple):
    """A cell with its sharding."""

    cell: Cell
    sharding: Sharding = Sharding()


@dataclass(frozen=True, eq=False)
class Hops:
    """Least times of transfers between neighbouring stages, by column and stage [s].

    Attributes
    ----------
    up : from a stage to the next one
    down : from the next stage to this one
    """

    up: Floats
    down: Floats


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of layouts with the same number of stages.

    Attributes
    ----------
    of : cells with their sharding
    stages : of the pipeline
    times : times of the different cells
    cell : which of the different cells each column has
    microbatches : of a replica
    hops : transfers between stages
    """

    of: tuple[Column, ...]
    stages: int
    times: tuple[CellTimesOf, ...]
    cell: Integers
    microbatches: Floats
    hops: Hops

    def stacked(self, name: str) -> Floats:
        """Return an array of `CellTimes` of all different cells."""
        if name not in self._stacked:
            self._stacked[name] = np.array([getattr(times.plain, name) for times in self.times])
        return self._stacked[name]

    def recomputed(self, recompute: Recompute, name: str) -> Floats:
        """Return an array of `Recomputed` of all different cells."""
        once = Recompute(recompute.mode, recompute.ops)
        key = once, name
        if key not in self._stacked:
            self._stacked[key] = np.array(
                [getattr(times.recomputed(once), name) for times in self.times]
            )
        return self._stacked[key]

    @cached_property
    def _stacked(self) -> dict[Any, Floats]:
        return {}

    @cached_property
    def tails(self) -> dict[Any, TailTimes]:
        """Times after the last step that are known, by division."""
        return {}


class ColumnTables:
    """Makes columns, and keeps the times of cells and the paths of meshes."""

    def __init__(self, jobs: LayoutJobs, collectives: QuickestCollectives) -> None:
        self.jobs, self.collectives = jobs, collectives
        self._cells: dict[object, CellTimesOf] = {}
        self._paths: dict[Mesh, Floats] = {}
        self._messages: dict[tuple[float, ...], float] = {}

    def columns(self, requested: Sequence[Column], stages: int) -> Columns:
        """Return columns of layouts with some number of stages."""
        numbers: dict[CellTimesOf, int] = {}
        cells, microbatches, up, down = [], [], [], []
        known: dict[Cell, tuple[int, int, Floats]] = {}
        for cell, _ in requested:
            if cell not in known:
                job = self.jobs.job(Layout(cell, ANY_SHAPE))
                number = numbers.setdefault(self._times(cell, job), len(numbers))
                known[cell] = number, job.plan.microbatches, self._hops(cell.mesh, job)
            number, count, hops = known[cell]
            cells.append(number)
            microbatches.append(count)
            up.append(hops[: stages - 1])
            down.append(hops[stages - 1 :])
        return Columns(
            of=tuple(requested),
            stages=stages,
            times=tuple(numbers),
            cell=np.array(cells, dtype=np.int64),
            microbatches=np.array(microbatches, dtype=np.float64),
            hops=Hops(_table(up), _table(down)),
        )

    def _times(self, cell: Cell, job: Job) -> CellTimesOf:
        """Return the times of a cell; cells with equal groups and tokens share them."""
        plan = job.plan
        degrees = dict(
            zip(
                AXES_IN_BLOCKS,
                (plan.tensor, plan.context, plan.expert, plan.expert_tensor),
                strict=True,
            )
        )
        groups = {
            axis: self.collectives.key(job, axis) for axis, ranks in degrees.items() if ranks > 1
        }
        same = cell.mesh._replace(data=1, pipeline=1, order=())
        key = same, cell.micro, cell.sequence_parallel, *groups.items(), job.routing
        if key not in self._cells:
            self._cells[key] = CellTimesOf(job, groups, self.collectives)
        return self._cells[key]

    def _hops(self, mesh: Mesh, job: Job) -> Floats:
        """Return the times of the transfers up, then down, of the first replica [s]."""
        stages = mesh.pipeline
        if stages == 1:
            return np.zeros(0)
        same = mesh._replace(context_method="", expert=1, expert_tensor=1)
        if same not in self._paths:
            up = [(stage, stage + 1) for stage in range(stages - 1)]
            paths = hop_paths(job, [*up, *((b, a) for a, b in up)], 1)
            self._paths[same] = np.stack([paths.network, paths.rates, paths.latency], axis=1)
        nbytes = sent_bytes(job)
        return np.array([self._message(nbytes, *path) for path in self._paths[same].tolist()])

    def _message(self, nbytes: float, network: float, rate: float, latency: float) -> float:
        key = nbytes, network, rate, latency
        if key not in self._messages:
            library = self.jobs.cluster.library
            cost = message_cost(nbytes, bool(network), rate, latency, library)
            self._messages[key] = cost.seconds
        return self._messages[key]


def _table(rows: Sequence[Floats]) -> Floats:
    return np.array(rows, dtype=np.float64).reshape(len(rows), -1)
