"""Contention inside blocks: collectives that run at the same time on links that cannot carry both.

    inner        collectives between the kernels of a layer: tensor, context and expert groups
    moves        gathers of weights ahead of the layers, reductions of gradients after them
    gradients    reductions during the last backward, where blocks do not reduce them

Each of these runs one collective after another, and up to three run at the same time, next to those
of other cells and to stage transfers.  The closed form of a block is exact where every link can
carry all of them at full rate.  Where a link cannot, but sharing it can lengthen the block by no
more than a bound, the closed form is kept.  Otherwise the block is replayed unit by unit, with the
collectives on such links in the network.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from clustersim.arrays import Booleans, Floats
from clustersim.program.blocks.blocks import Blocks
from clustersim.program.blocks.units import OnStage, Shared, SharedCollectives
from clustersim.program.collectives.axes import OF_CELL, Call
from clustersim.program.job import Job
from clustersim.program.links.usage import InnerTraffic
from clustersim.records import dataclass
from clustersim.traffic import (
    LinkRows,
    Name,
    Traffic,
    TrafficRows,
    Transfers,
    added,
    largest_of,
    link_rows,
)
from clustersim.workload.kernels import Axis

ROUNDING = 1e-9
"""Share of a link by which demands that fit exactly may exceed it."""


MOST_DELAYS = 2**20
"""Delays that are computed at the same time, which bounds their memory."""


class Uses(NamedTuple):
    """The use of links by collectives that run one after another, a row for each group of them.

    Attributes
    ----------
    demand : maximum rate of one of them on each link, share of the capacity
    seconds : time in which each link carries the bytes of one microbatch [s]
    """

    demand: LinkRows
    seconds: LinkRows


@dataclass(frozen=True)
class Contention:
    """The collectives of blocks that share links.

    Attributes
    ----------
    inner, moves : by stage, those between kernels, and those that move weights and gradients
    always : whether they do in every step, rather than only during the reduction of gradients
    bound : maximum by which sharing can lengthen a forward and backward, share of its time
    """

    inner: dict[int, list[Call]]
    moves: dict[int, list[Call]]
    always: bool
    bound: float

    def __bool__(self) -> bool:
        """Whether any collective shares links."""
        return any([*self.inner.values(), *self.moves.values()])


NO_CONTENTION = Contention({}, {}, always=False, bound=0.0)


def contention_of(
    blocks: Blocks,
    inner: InnerTraffic,
    sends: Transfers,
    joint: Transfers,
    bound: float,
    met: Booleans | None = None,
) -> Contention:
    """Return the collectives of blocks that other traffic can slow down.

    Parameters
    ----------
    sends : stage transfers of all replicas
    joint : collectives of all replicas
    bound : maximum by which sharing may lengthen a forward and backward, share of its time
    met : links of the machine that other jobs use as well, for as long as they like
    """
    table = UseTable(blocks.job, inner, joint)
    demand, seconds = table.totals(sends)
    if met is not None:
        demand[met] = np.inf
        seconds[met] += blocks.job.plan.microbatches * seconds.max(initial=0.0) + 1.0
    contended = demand > 1 + ROUNDING
    between, moves = dict[int, list[Call]](), dict[int, list[Call]]()
    always, worst = False, 0.0
    for stage, calls in enumerate(inner.calls):
        delays = table.delays(stage, contended, seconds)
        shares = delays.largest(delays.values) / blocks.shortest(stage)
        worst = max(worst, float(shares.max()))
        slowed = shares > bound
        if not slowed.any():
            continue
        gradients = table.gradients(stage).seconds.totals(len(seconds))[delays.links]
        longer = delays.values > gradients * (1 + ROUNDING)
        always = always or bool((longer & slowed[delays.row]).any())
        between[stage] = table.sharing(stage, calls.inner, contended, slowed)
        moves[stage] = table.sharing(stage, calls.moves, contended, slowed)
    return Contention(between, moves, always, worst)


class UseTable:
    """The use of links by the collectives of each stage, of all replicas or of each."""

    def __init__(self, job: Job, inner: InnerTraffic, joint: Transfers) -> None:
        self._job, self._inner, self._joint = job, inner, joint
        self._computed: dict[tuple[str, int], Uses] = {}

    def totals(self, sends: Transfers) -> tuple[Floats, Floats]:
        """Return demand and time of each link by everything that can run at the same time."""
        plan = self._job.plan
        uses = [self._of([(traffic, 1.0 / plan.chunks)], plan.data) for traffic in sends.values()]
        for stage in range(plan.pipeline):
            uses += [self.inner(stage), self.moves(stage), self.gradients(stage), self.cell(stage)]
        links = len(self._job.cluster.loaded)
        demand, seconds = np.zeros(links), np.zeros(links)
        for use in uses:
            demand += use.demand.totals(links)
            seconds += use.seconds.totals(links)
        return demand, seconds

    def delays(self, stage: int, contended: Booleans, seconds: Floats) -> LinkRows:
        """Return the time of other traffic on contended links that a replica uses [s].

        Parameters
        ----------
        seconds : of all traffic on each link [s]
        """
        replicas, links = self._job.plan.data, len(seconds)
        moved = self.moves(stage).seconds.totals(links)
        inner = self.inner(stage).seconds.totals(links)
        cell = self.cell(stage).seconds
        cell = cell.only(contended[cell.links])
        others = np.flatnonzero(contended & ((moved > 0) | (inner > 0)))
        longest = np.argsort(np.maximum(inner, moved)[others] - seconds[others], kind="stable")
        enough = max(np.diff(cell.starts).max() + 1, MOST_DELAYS // replicas)
        others = others[longest[:enough]]  # no replica uses all of these itself
        row = np.repeat(np.arange(replicas), len(others))
        everywhere = link_rows(row, np.tile(others, replicas), np.zeros(len(row)), replicas)
        own = added([cell, everywhere], replicas)
        most = np.maximum(own.values + inner[own.links], moved[own.links])
        return own.with_values(seconds[own.links] - most)

    def inner(self, stage: int) -> Uses:
        """Return the use by collectives between kernels whose groups join replicas."""
        return self._of_calls("inner", stage)

    def cell(self, stage: int) -> Uses:
        """Return the use by collectives between kernels whose groups are of one replica, by row."""
        return self._of_calls("cell", stage)

    def moves(self, stage: int) -> Uses:
        """Return the use by gathers of weights and reductions of gradients in blocks."""
        return self._of_calls("moves", stage)

    def gradients(self, stage: int) -> Uses:
        """Return the use by reductions during the last backward, for one microbatch."""
        overlapped = self._job.overlapped_reduction
        times = 1.0 / self._job.plan.microbatches
        names = [name for name in self._joint if name[:2] == ("gradients", stage)]
        return self._of([(self._joint[name], times) for name in names if overlapped], 1)

    def sharing(
        self, stage: int, calls: Collection[Call], links: Booleans, replicas: Booleans
    ) -> list[Call]:
        """Return the collectives of an axis of which one of some replicas crosses some links."""
        crossing: set[Axis] = set()
        for call in calls:
            crossed = self._inner.of(stage, call).crossings
            of_cell = call.axis in OF_CELL
            if (links[crossed.links] & (replicas[crossed.row] if of_cell else True)).any():
                crossing.add(call.axis)
        return [call for call in calls if call.axis in crossing]

    def _of_calls(self, role: str, stage: int) -> Uses:
        key = role, stage
        if key not in self._computed:
            of_stage = self._inner.calls[stage]
            calls = {
                call: times
                for call, times in (of_stage.moves if role == "moves" else of_stage.inner).items()
                if role == "moves" or (call.axis in OF_CELL) == (role == "cell")
            }
            chunks = self._job.plan.chunks
            collectives = [
                (self._inner.of(stage, call), times / chunks) for call, times in calls.items()
            ]
            self._computed[key] = self._of(
                collectives, self._job.plan.data if role == "cell" else 1
            )
        return self._computed[key]

    def _of(self, collectives: Iterable[tuple[TrafficRows, float]], rows: int) -> Uses:
        """Return the use by collectives that run one after another, each a number of times."""
        capacities = self._job.cluster.loaded.capacities
        demands, seconds = [], []
        for traffic, times in collectives:
            crossed = traffic.crossings
            shares = crossed.with_values(crossed.values / capacities[crossed.links])
            demands.append(shares.scaled(traffic.uncontended_rates(capacities)))
            seconds.append(shares.scaled(traffic.nbytes * times))
        return Uses(largest_of(demands, rows), added(seconds, rows))


# --- traffic --------------------------------------------------------------------------------------

MOST_IN_PAIRS = 0.1
"""Bound of the delay up to which two concurrent steps keep their closed form, share of their time.

Above it the links are too slow to hide the collectives of one step behind the kernels of the other:
the steps then run one after another, which is an upper bound of their time.
"""


def shared_name(stage: int, call: Call) -> Name:
    """Return the name of a collective inside blocks of a stage."""
    return ("shared", stage, *call)


def shared_traffic(
    inner: InnerTraffic, contention: Contention
) -> tuple[dict[Name, TrafficRows], dict[Name, TrafficRows]]:
    """Return the collectives that share links: of each replica, and of all replicas together."""
    of_replicas: dict[Name, TrafficRows] = {}
    of_stages: dict[Name, TrafficRows] = {}
    for stage in range(len(inner.calls)):
        for call in (*contention.inner.get(stage, ()), *contention.moves.get(stage, ())):
            transfers = of_replicas if call.axis in OF_CELL else of_stages
            transfers[shared_name(stage, call)] = inner.of(stage, call)
    return of_replicas, of_stages


def shared_collectives(
    contention: Contention,
    stage: int,
    of_class: Mapping[Name, Traffic],
    of_stages: Mapping[Name, Traffic],
) -> SharedCollectives:
    """Return the collectives of a stage that share links, as traffic of a replica class."""

    def traffic(call: Call) -> Shared:
        name = shared_name(stage, call)
        return OnStage(of_stages[name]) if name in of_stages else of_class[name]

    return SharedCollectives(
        {call: traffic(call) for call in contention.inner.get(stage, ())},
        {call: traffic(call) for call in contention.moves.get(stage, ())},
        contention.always,
        contention.bound > MOST_IN_PAIRS,
    )
