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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clustersim.program.blocks import Blocks, Call
from clustersim.program.communicators import OF_CELL
from clustersim.program.fold import Name
from clustersim.program.job import Job
from clustersim.program.movement.overlap import OnStage, Shared
from clustersim.program.steps import WHOLE
from clustersim.traffic import Traffic
from clustersim.workload.kernels import Axis, Collective

ROUNDING = 1e-9
"""Share of a link by which demands that fit exactly may exceed it."""


class Use(NamedTuple):
    """The use of a link by collectives that run one after another.

    Attributes
    ----------
    demand : maximum rate of one of them, share of the capacity
    seconds : time in which the link carries the bytes of one microbatch [s]
    """

    demand: float
    seconds: float


NO_USE = Use(0.0, 0.0)
Uses = Mapping[int, Use]
"""By link."""


@dataclass(frozen=True)
class Contention:
    """The collectives of blocks that share links.

    Attributes
    ----------
    inner, moves : by stage, the axes of the collectives that share links
    always : whether they do in every step, rather than only during the reduction of gradients
    bound : maximum by which sharing can lengthen a forward and backward, share of its time
    """

    inner: dict[int, frozenset[Axis]]
    moves: dict[int, frozenset[Axis]]
    always: bool
    bound: float

    def __bool__(self) -> bool:
        """Whether any collective shares links."""
        return any([*self.inner.values(), *self.moves.values()])


NO_CONTENTION = Contention({}, {}, always=False, bound=0.0)


def contention_of(
    job: Job,
    blocks: Blocks,
    sends: Sequence[Mapping[Name, Traffic]],
    joint: Mapping[Name, Traffic],
    bound: float,
) -> Contention:
    """Return the collectives of blocks that other traffic can slow down.

    Parameters
    ----------
    sends : stage transfers of each replica
    joint : collectives of all replicas
    bound : maximum by which sharing may lengthen a forward and backward, share of its time
    """
    table = UseTable(job, blocks, joint)
    total = table.total(sends)
    contended = {link for link, use in total.items() if use.demand > 1 + ROUNDING}
    inner: dict[int, frozenset[Axis]] = {}
    moves: dict[int, frozenset[Axis]] = {}
    always, worst = False, 0.0
    for stage in range(job.plan.pipeline):
        moved, gradients = table.moves(stage), table.gradients(stage)
        for replica in range(job.plan.data if table.cell(stage, 0) else 1):
            own = _sequence(table.inner(stage), table.cell(stage, replica))
            delays = {
                link: total[link].seconds
                - max(use.get(link, NO_USE).seconds for use in (own, moved))
                for link in contended.intersection([*own, *moved])
            }
            share = max(delays.values(), default=0.0) / _duration(job, blocks, stage, replica)
            worst = max(worst, share)
            if share <= bound:
                continue
            always = always or any(
                delay > gradients.get(link, NO_USE).seconds * (1 + ROUNDING)
                for link, delay in delays.items()
            )
            for calls, axes in zip(blocks.calls(stage), (inner, moves), strict=True):
                crossing = table.axes(stage, replica, calls, contended)
                axes[stage] = axes.get(stage, frozenset()) | crossing
    return Contention(inner, moves, always, worst)


def _duration(job: Job, blocks: Blocks, stage: int, replica: int) -> float:
    """Return the shortest time of a forward and backward of a chunk [s]."""
    pattern = blocks.pattern(stage, replica)
    return min(
        sum(blocks.block(stage, chunk, kind, pattern)[0].total for kind in WHOLE)
        for chunk in range(job.plan.chunks)
    )


class UseTable:
    """The use of links by the collectives of each stage and replica, each computed once."""

    def __init__(self, job: Job, blocks: Blocks, joint: Mapping[Name, Traffic]) -> None:
        self._job, self._blocks, self._joint = job, blocks, joint
        self._computed: dict[tuple[str, int, int], dict[int, Use]] = {}

    def total(self, sends: Sequence[Mapping[Name, Traffic]]) -> dict[int, Use]:
        """Return the use of links by everything that can run at the same time."""
        plan, total = self._job.plan, dict[int, Use]()
        for stage in range(plan.pipeline):
            for uses in (self.inner(stage), self.moves(stage), self.gradients(stage)):
                _add_concurrent(total, uses)
            for replica in range(plan.data):
                _add_concurrent(total, self.cell(stage, replica))
        for transfers in sends:
            for traffic in transfers.values():
                _add_concurrent(total, self._of([(traffic, 1.0 / plan.chunks)]))
        return total

    def inner(self, stage: int) -> Uses:
        """Return the use by collectives between kernels whose groups join replicas."""
        return self._of_calls("inner", stage, 0)

    def cell(self, stage: int, replica: int) -> Uses:
        """Return the use by collectives between kernels whose groups are of one replica."""
        return self._of_calls("cell", stage, replica)

    def moves(self, stage: int) -> Uses:
        """Return the use by gathers of weights and reductions of gradients in blocks."""
        return self._of_calls("moves", stage, 0)

    def gradients(self, stage: int) -> Uses:
        """Return the use by reductions during the last backward, for one microbatch."""
        if not self._job.overlapped_reduction:
            return {}
        times = 1.0 / self._job.plan.microbatches
        names = [name for name in self._joint if name[:2] == ("gradients", stage)]
        return self._of([(self._joint[name], times) for name in names])

    def axes(
        self, stage: int, replica: int, calls: Iterable[Call], links: set[int]
    ) -> frozenset[Axis]:
        """Return the axes of those collectives that cross some links."""
        return frozenset(
            call.axis
            for call in calls
            if not links.isdisjoint(_traffic(self._blocks, stage, replica, call).links)
        )

    def _of_calls(self, role: str, stage: int, replica: int) -> Uses:
        key = role, stage, replica
        if key not in self._computed:
            inner, moves = self._blocks.calls(stage)
            calls = {
                call: times
                for call, times in (moves if role == "moves" else inner).items()
                if role == "moves" or (call.axis in OF_CELL) == (role == "cell")
            }
            chunks = self._job.plan.chunks
            self._computed[key] = self._of(
                [
                    (_traffic(self._blocks, stage, replica, call), times / chunks)
                    for call, times in calls.items()
                ]
            )
        return self._computed[key]

    def _of(self, collectives: Iterable[tuple[Traffic, float]]) -> dict[int, Use]:
        """Return the use by collectives that run one after another, each a number of times."""
        uses: dict[int, Use] = {}
        capacities = self._job.cluster.links.capacities
        for traffic, times in collectives:
            rate = traffic.uncontended_rate(capacities)
            for link, weight in zip(traffic.links, traffic.weights, strict=True):
                use, share = uses.get(link, NO_USE), weight / capacities[link]
                seconds = use.seconds + share * traffic.nbytes * times
                uses[link] = Use(max(use.demand, share * rate), seconds)
        return uses


def _traffic(blocks: Blocks, stage: int, replica: int, call: Call) -> Traffic:
    communicator = blocks.communicators.communicator(call.axis, stage, replica)
    name = f"{call.operation} of {call.axis} group, stage {stage}"
    return communicator.traffic(name, call.operation, call.nbytes)


def _add_concurrent(total: dict[int, Use], uses: Uses) -> None:
    """Add the use by collectives that run at the same time as the others."""
    for link, (demand, seconds) in uses.items():
        use = total.get(link, NO_USE)
        total[link] = Use(use.demand + demand, use.seconds + seconds)


def _sequence(first: Uses, second: Uses) -> Uses:
    """Return the use by two sets of collectives, one after another."""
    uses = dict(first)
    for link, (demand, seconds) in second.items():
        use = uses.get(link, NO_USE)
        uses[link] = Use(max(use.demand, demand), use.seconds + seconds)
    return uses


# --- traffic --------------------------------------------------------------------------------------


def shared_name(stage: int, axis: Axis, operation: str, nbytes: float) -> Name:
    """Return the name of a collective inside blocks of a stage."""
    return ("shared", stage, axis, operation, nbytes)


def shared_traffic(
    job: Job, blocks: Blocks, contention: Contention
) -> tuple[list[dict[Name, Traffic]], dict[Name, Traffic]]:
    """Return the collectives that share links: of each replica, and of all replicas together."""
    of_replicas: list[dict[Name, Traffic]] = [{} for _ in range(job.plan.data)]
    of_stages: dict[Name, Traffic] = {}
    for stage in range(job.plan.pipeline):
        axes = (by_stage.get(stage, ()) for by_stage in (contention.inner, contention.moves))
        for sharing, calls in zip(axes, blocks.calls(stage), strict=True):
            for call in (call for call in calls if call.axis in sharing):
                name = shared_name(stage, *call)
                if call.axis not in OF_CELL:
                    of_stages[name] = _traffic(blocks, stage, 0, call)
                    continue
                for replica, transfers in enumerate(of_replicas):
                    transfers[name] = _traffic(blocks, stage, replica, call)
    return of_replicas, of_stages


MOST_IN_PAIRS = 0.1
"""Bound of the delay up to which two concurrent steps keep their closed form, share of their time.

Above it the links are too slow to hide the collectives of one step behind the kernels of the other:
the steps then run one after another, which is an upper bound of their time.
"""


class SharedCollectives:
    """The collectives of a stage of a replica class that share links.

    Attributes
    ----------
    always : as in `Contention`
    serial : whether concurrent steps run one after another
    """

    def __init__(
        self,
        contention: Contention,
        stage: int,
        of_class: Mapping[Name, Traffic],
        of_stages: Mapping[Name, Traffic],
    ) -> None:
        self._stage, self._of_class, self._of_stages = stage, of_class, of_stages
        self._inner = contention.inner.get(stage, frozenset())
        self._moves = contention.moves.get(stage, frozenset())
        self.always = contention.always
        self.serial = contention.bound > MOST_IN_PAIRS

    def __bool__(self) -> bool:
        """Whether any collective of the stage shares links."""
        return bool(self._inner or self._moves)

    def inner(self, collective: Collective) -> Shared | None:
        """Return a collective between kernels as traffic; None where its closed form is kept."""
        return self._traffic(collective) if collective.axis in self._inner else None

    def move(self, collective: Collective) -> Shared | None:
        """Return a gather or reduction as traffic; None where its closed form is kept."""
        return self._traffic(collective) if collective.axis in self._moves else None

    def _traffic(self, collective: Collective) -> Shared | None:
        axis, operation, nbytes = collective.axis, collective.operation, collective.nbytes
        name = shared_name(self._stage, axis, operation, nbytes)
        if name in self._of_stages:
            return OnStage(self._of_stages[name])
        return self._of_class.get(name)
