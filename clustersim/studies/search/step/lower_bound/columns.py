"""Cells of many layouts with their sharding, side by side: the columns of the arrays of a bound.

All columns have the same number of stages.  Their cells share times, their meshes the paths of
stage transfers.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.cost.closed_form import message_cost
from clustersim.plan.parallelism import Wiring
from clustersim.program.job import Job
from clustersim.program.movement.transfers import hop_paths, hops_of_microbatch, sent_bytes
from clustersim.records import dataclass
from clustersim.studies.search.step.lower_bound.cell_times import (
    AXES_IN_BLOCKS,
    CellTimesOf,
)
from clustersim.studies.search.step.lower_bound.jobs import LayoutJobs
from clustersim.studies.search.step.lower_bound.layout_values import (
    ANY_SHAPE,
    Cell,
    Layout,
    Mesh,
    Sharding,
)
from clustersim.studies.search.step.lower_bound.quickest import GroupKey, QuickestCollectives
from clustersim.studies.search.step.lower_bound.tails import TailTimes
from clustersim.traffic import LinkRows, link_rows
from clustersim.workload.kernels import Axis
from clustersim.workload.ops import Recompute

NO_LINKS = np.zeros(0, dtype=np.int64)
NO_ROWS = link_rows(NO_LINKS, NO_LINKS, np.zeros(0), 0)
"""Of layouts without a pipeline."""


class Column(NamedTuple):
    """A cell with its sharding."""

    cell: Cell
    sharding: Sharding = Sharding()


OfMesh = tuple[Mesh, Sharding, bool]
"""What decides the operations after the last step: the last is whether it is the only one."""


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


class HopLinks:
    """The links that transfers between stages share, of replicas whose cells share a node.

    Parameters
    ----------
    hops : pairs of stages
    crossings : flows on links, with as many rows for each hop as there are replicas
    capacities : of the links of the machine [B/s]
    """

    def __init__(
        self, hops: Sequence[tuple[int, int]], crossings: LinkRows, capacities: Floats
    ) -> None:
        links, index = np.unique(crossings.links, return_inverse=True)
        self._hops = hops
        self._flows = np.zeros((len(links), len(hops)))
        if len(hops):
            hop = crossings.row // (len(crossings) // len(hops))
            np.add.at(self._flows, (index, hop), crossings.values)
        self._flows /= capacities[links][:, None]
        self._seconds: dict[Wiring, float] = {}

    def seconds(self, wiring: Wiring) -> float:
        """Return the time of the busiest link for a byte of each rank and microbatch [s]."""
        if wiring not in self._seconds:
            times = hops_of_microbatch(wiring)
            counts = np.array([times[hop] for hop in self._hops])
            self._seconds[wiring] = float((self._flows @ counts).max(initial=0.0))
        return self._seconds[wiring]


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
    links : that these share
    sent : by a rank to the next stage for a microbatch [B]
    """

    of: tuple[Column, ...]
    stages: int
    times: tuple[CellTimesOf, ...]
    cell: Integers
    microbatches: Floats
    hops: Hops
    links: tuple[HopLinks, ...]
    sent: Floats

    def carried(self, wiring: Wiring) -> Floats:
        """Return the time of the busiest link for the transfers of a step [s]."""
        if wiring not in self._stacked:
            seconds = {links: links.seconds(wiring) for links in dict.fromkeys(self.links)}
            busiest = np.array([seconds[links] for links in self.links])
            self._stacked[wiring] = self.microbatches * busiest * self.sent
        return self._stacked[wiring]

    def stacked(self, name: str) -> Floats:
        """Return an array of `CellTimes` of all different cells."""
        if name not in self._stacked:
            self._stacked[name] = np.array([getattr(times.plain, name) for times in self.times])
        return self._stacked[name]

    def recomputed(self, recompute: Recompute) -> Floats:
        """Return what recomputation adds in all different cells, as `CellTimesOf.recomputed`."""
        once = Recompute(recompute.mode, recompute.ops)
        if once not in self._stacked:
            self._stacked[once] = np.array([times.recomputed(once) for times in self.times])
        return self._stacked[once]

    @cached_property
    def of_meshes(self) -> tuple[dict["OfMesh", Column], Integers]:
        """A column of each different mesh and sharding, and which of them each column has."""
        different: dict[OfMesh, Column] = {}
        numbers: dict[OfMesh, int] = {}
        places = []
        for column, count in zip(self.of, self.microbatches.tolist(), strict=True):
            key = column.cell.mesh, column.sharding, count == 1
            different.setdefault(key, column)
            places.append(numbers.setdefault(key, len(numbers)))
        return different, np.array(places, dtype=np.int64)

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
        self._groups: dict[Mesh, dict[Axis, GroupKey]] = {}
        self._paths: dict[Mesh, tuple[Floats, HopLinks]] = {}
        self._sent: dict[Cell, float] = {}
        self._messages: dict[tuple[float, ...], float] = {}

    def columns(self, requested: Sequence[Column], stages: int) -> Columns:
        """Return columns of layouts with some number of stages."""
        numbers: dict[CellTimesOf, int] = {}
        cells, microbatches, up, down, links, sent = [], [], [], [], [], []
        known: dict[Cell, _OfCell] = {}
        for cell, _ in requested:
            if cell not in known:
                known[cell] = self._of_cell(cell, numbers)
            of_cell = known[cell]
            cells.append(of_cell.number)
            microbatches.append(of_cell.microbatches)
            up.append(of_cell.hops[: stages - 1])
            down.append(of_cell.hops[stages - 1 :])
            links.append(of_cell.links)
            sent.append(of_cell.sent)
        return Columns(
            of=tuple(requested),
            stages=stages,
            times=tuple(numbers),
            cell=np.array(cells, dtype=np.int64),
            microbatches=np.array(microbatches, dtype=np.float64),
            hops=Hops(_table(up, stages - 1), _table(down, stages - 1)),
            links=tuple(links),
            sent=np.array(sent, dtype=np.float64),
        )

    def _of_cell(self, cell: Cell, numbers: dict[CellTimesOf, int]) -> "_OfCell":
        alike = self.jobs.alike(cell)
        if alike not in self._sent:
            self._sent[alike] = sent_bytes(self.jobs.of_cell(alike))
        nbytes = self._sent[alike]
        number = numbers.setdefault(self._times(cell, alike), len(numbers))
        facts, links = self._paths_of(cell)
        hops = np.array([self._message(nbytes, *path) for path in facts.tolist()])
        return _OfCell(number, self.jobs.microbatches(cell), hops, links, nbytes)

    def _times(self, cell: Cell, alike: Cell) -> CellTimesOf:
        """Return the times of a cell; cells with equal groups and tokens share them."""
        if cell.mesh not in self._groups:
            self._groups[cell.mesh] = self._groups_of(cell)
        groups = self._groups[cell.mesh]
        key = alike, *groups.items()
        if key not in self._cells:
            job = self.jobs.of_cell(alike)
            self._cells[key] = CellTimesOf(job, groups, self.collectives)
        return self._cells[key]

    def _groups_of(self, cell: Cell) -> dict[Axis, GroupKey]:
        """Return the groups of a mesh along the axes of a cell that have several ranks."""
        job = self.jobs.job(Layout(cell, ANY_SHAPE))
        plan = job.plan
        degrees = plan.tensor, plan.context, plan.expert, plan.expert_tensor
        of_axes = zip(AXES_IN_BLOCKS, degrees, strict=True)
        return {axis: self.collectives.key(job, axis) for axis, ranks in of_axes if ranks > 1}

    def _paths_of(self, cell: Cell) -> tuple[Floats, HopLinks]:
        """Return the paths up, then down, of the first replica, and the links that some share."""
        same = cell.mesh._replace(context_method="", expert=1, expert_tensor=1)
        if same not in self._paths:
            self._paths[same] = self._routed(self.jobs.job(Layout(cell, ANY_SHAPE)))
        return self._paths[same]

    def _routed(self, job: Job) -> tuple[Floats, HopLinks]:
        plan, cluster = job.plan, self.jobs.cluster
        up = [(stage, stage + 1) for stage in range(plan.pipeline - 1)]
        if not up:
            return np.zeros((0, 3)), HopLinks((), NO_ROWS, np.zeros(0))
        down, last = [(b, a) for a, b in up], plan.pipeline - 1
        hops = [*dict.fromkeys([*up, *down, (last, 0), (0, last)])]
        replicas = min(plan.data, max(1, cluster.node.devices // plan.cell))
        paths = hop_paths(job, hops, replicas)
        facts = np.stack([paths.network, paths.rates, paths.latency], axis=1)[::replicas]
        capacities = cluster.links.capacities  # of the links that have a number by now
        return facts[: 2 * len(up)], HopLinks(hops, paths.crossings, capacities)

    def _message(self, nbytes: float, network: float, rate: float, latency: float) -> float:
        key = nbytes, network, rate, latency
        if key not in self._messages:
            library = self.jobs.cluster.library
            cost = message_cost(nbytes, bool(network), rate, latency, library)
            self._messages[key] = cost.seconds
        return self._messages[key]


class _OfCell(NamedTuple):
    """What a column has of its cell; attributes as in `Columns`."""

    number: int
    microbatches: int
    hops: Floats
    links: HopLinks
    sent: float


def _table(rows: Sequence[Floats], width: int) -> Floats:
    return np.array(rows, dtype=np.float64).reshape(len(rows), width)
