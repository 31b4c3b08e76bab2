"""Cells of many layouts with their sharding, side by side: the columns of the arrays of a bound.

All columns have the same number of stages.  Their cells share times, their meshes the paths of
stage transfers.
"""

from collections.abc import Iterable, Sequence
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
    Column,
    Layout,
    Mesh,
    Sharding,
)
from clustersim.studies.search.step.lower_bound.quickest import Groups, QuickestCollectives
from clustersim.studies.search.step.lower_bound.tails import AXES_OF_TAILS, TailTimes
from clustersim.traffic import LinkRows, link_rows
from clustersim.workload.ops import Recompute

NO_LINKS = np.zeros(0, dtype=np.int64)
NO_ROWS = link_rows(NO_LINKS, NO_LINKS, np.zeros(0), 0)
"""Of layouts without a pipeline."""


OfTail = tuple[Mesh, Sharding, bool, Groups]
"""What decides the operations after the last step: degrees, that of data for all copies of weights,
sharding, whether a step is the only one, and the groups that reduce and gather."""

CellRow = tuple[CellTimesOf, int]
"""The times of a cell: those of all cells with its kernels, and its row."""


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
    tails : what decides the operations after their last step
    stages : of the pipeline
    times : times of the different cells
    cell : which of the different cells each column has
    microbatches : of a replica
    hops : transfers between stages
    links : that these share
    sent : by a rank to the next stage for a microbatch [B]
    """

    of: tuple[Column, ...]
    tails: tuple[OfTail, ...]
    stages: int
    times: tuple[CellRow, ...]
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
            self._stacked[name] = np.array([getattr(of.plain, name)[row] for of, row in self.times])
        return self._stacked[name]

    def recomputed(self, recompute: Recompute) -> Floats:
        """Return what recomputation adds in all different cells, as `CellTimesOf.recomputed`."""
        once = Recompute(recompute.mode, recompute.ops)
        if once not in self._stacked:
            self._stacked[once] = np.array([of.recomputed(once)[row] for of, row in self.times])
        return self._stacked[once]

    @cached_property
    def of_tails(self) -> tuple[dict[OfTail, Column], Integers]:
        """A column of each different tail, and which of them each column has."""
        numbers: dict[OfTail, int] = {}
        places = [numbers.setdefault(tail, len(numbers)) for tail in self.tails]
        first = dict(zip(reversed(self.tails), reversed(self.of), strict=True))
        return {tail: first[tail] for tail in numbers}, np.array(places, dtype=np.int64)

    @cached_property
    def _stacked(self) -> dict[Any, Floats]:
        return {}

    @cached_property
    def tail_times(self) -> dict[Any, TailTimes]:
        """Times after the last step that are known, by division."""
        return {}


class ColumnTables:
    """Makes columns, and keeps the times of cells and the paths of meshes."""

    def __init__(self, jobs: LayoutJobs, collectives: QuickestCollectives) -> None:
        self.jobs, self.collectives = jobs, collectives
        self._cells: dict[tuple[Cell, Groups], CellRow] = {}
        self._paths: dict[Mesh, tuple[Floats, HopLinks]] = {}
        self._sent: dict[Cell, float] = {}
        self._messages: dict[tuple[float, ...], float] = {}

    def columns(self, requested: Sequence[Column], stages: int) -> Columns:
        """Return columns of layouts with some number of stages."""
        self._price(dict.fromkeys(cell for cell, _ in requested))
        numbers: dict[CellRow, int] = {}
        cells, tails, microbatches, up, down, links, sent = [], [], [], [], [], [], []
        known: dict[Cell, _OfCell] = {}
        for column in requested:
            cell = column.cell
            if cell not in known:
                known[cell] = self._of_cell(cell, numbers)
            of_cell = known[cell]
            cells.append(of_cell.number)
            tails.append(self._tail(column, of_cell.microbatches))
            microbatches.append(of_cell.microbatches)
            up.append(of_cell.hops[: stages - 1])
            down.append(of_cell.hops[stages - 1 :])
            links.append(of_cell.links)
            sent.append(of_cell.sent)
        return Columns(
            of=tuple(requested),
            tails=tuple(tails),
            stages=stages,
            times=tuple(numbers),
            cell=np.array(cells, dtype=np.int64),
            microbatches=np.array(microbatches, dtype=np.float64),
            hops=Hops(_table(up, stages - 1), _table(down, stages - 1)),
            links=tuple(links),
            sent=np.array(sent, dtype=np.float64),
        )

    def _price(self, cells: Iterable[Cell]) -> None:
        """Compute the times of cells that are not known, those with the same kernels together."""
        unknown: dict[Cell, dict[Groups, None]] = {}
        for cell in cells:
            alike, groups = self._alike(cell)
            if (alike, groups) not in self._cells:
                unknown.setdefault(alike, {})[groups] = None
        for alike, different in unknown.items():
            times = CellTimesOf(self.jobs.of_cell(alike), [*different], self.collectives)
            for row, groups in enumerate(different):
                self._cells[alike, groups] = times, row

    def _alike(self, cell: Cell) -> tuple[Cell, Groups]:
        """Return the cell whose kernels a cell has, and its own groups."""
        return self.jobs.alike(cell), self.collectives.groups(Column(cell), AXES_IN_BLOCKS)

    def _tail(self, column: Column, microbatches: int) -> OfTail:
        mesh = column.cell.mesh
        copies = mesh._replace(
            context=1, data=mesh.context * mesh.data, context_method="", order=()
        )
        groups = self.collectives.groups(column, AXES_OF_TAILS)
        return copies, column.sharding, microbatches == 1, groups

    def _of_cell(self, cell: Cell, numbers: dict[CellRow, int]) -> "_OfCell":
        key = alike, _ = self._alike(cell)
        if alike not in self._sent:
            self._sent[alike] = sent_bytes(self.jobs.of_cell(alike))
        nbytes = self._sent[alike]
        number = numbers.setdefault(self._cells[key], len(numbers))
        facts, links = self._paths_of(cell)
        hops = np.array([self._message(nbytes, *path) for path in facts.tolist()])
        return _OfCell(number, self.jobs.microbatches(cell), hops, links, nbytes)

    def _paths_of(self, cell: Cell) -> tuple[Floats, HopLinks]:
        """Return the paths up, then down, of the first replica, and the links that some share."""
        mesh = cell.mesh.placed
        if mesh not in self._paths:
            self._paths[mesh] = self._routed(self.jobs.job(Layout(cell, ANY_SHAPE)))
        return self._paths[mesh]

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
