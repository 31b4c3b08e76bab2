"""A communicator: groups of ranks, and the algorithm of their library for each operation and size.

    groups --by algorithm--> loads on links --cost--> choice of the tuner --> traffic

As NCCL does at start-up, it computes the rings and trees of its ranks once; each call uses the
algorithm and protocol that the tuner ranks fastest, unless the scenario prescribes one.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from clustersim.arrays import Floats, Integers
from clustersim.cost import closed_form
from clustersim.cost.closed_form import Cost, StepCounts
from clustersim.errors import PlanError
from clustersim.program.collectives.load import CROSSBAR, Load
from clustersim.program.collectives.messages import Arrangement, Messages, arrangements
from clustersim.program.collectives.rounds import ROUNDS
from clustersim.program.collectives.switched import shares_in_fabric
from clustersim.topology.cluster import Cluster
from clustersim.traffic import LinkRows, Traffic, TrafficRows, added, link_rows

HALVES = ("all-reduce", "reduce-scatter", "all-gather")

RUNS: dict[str, tuple[str, ...]] = {
    "ring": (*HALVES, "broadcast", "reduce", "barrier"),
    "tree": ("all-reduce", "barrier"),
    "nvls": HALVES,
    "nvls-tree": ("all-reduce",),
    "sharp": ("all-reduce",),
    "hierarchical": HALVES,
    "torus": HALVES,
    "halving-doubling": HALVES,
    "doubling": ("all-reduce",),
    "binomial": ("broadcast", "reduce"),
    "bruck": ("all-gather", "all-to-all"),
    "pairwise": ("all-to-all", "send"),
    "grouped": ("all-to-all", "send"),
    "dissemination": ("barrier",),
}
"""The operations that each algorithm supports."""

TWICE = ("ring", "hierarchical", "torus")
"""Algorithms whose all-reduce has twice the load of its halves."""


class Prescribed(NamedTuple):
    """An algorithm that the scenario prescribes, and the location, with which messages begin."""

    algorithm: str
    where: str


MOST_MESSAGES = 2**18
"""Messages whose routes are made at the same time, which bounds their memory."""


MOST_COSTS = 4096
"""Costs of a communicator that are kept."""


class Communicator:
    """Groups of devices that run the same collectives at the same time.

    Also the groups of many cells or stages, a row each, whose groups are in equivalent places: they
    have the same algorithms and messages, but each its own routes.

    Parameters
    ----------
    groups : devices of each group in rank order; or of each group of each row
    fixed : prescribed algorithms, by operation

    Raises
    ------
    PlanError
        from `cost` and `traffic`, where a prescribed algorithm is not possible.
    """

    def __init__(
        self,
        cluster: Cluster,
        groups: ArrayLike,
        fixed: Mapping[str, Prescribed] | None = None,
    ) -> None:
        self.cluster = cluster
        devices = np.asarray(groups, dtype=np.int64)
        self._devices = devices if devices.ndim == 3 else devices[None]
        numbers, found = arrangements(cluster, self._devices[0])
        self._kinds = [(kind, np.flatnonzero(numbers == i)) for i, kind in enumerate(found)]
        span = max((kind.span for kind in found), key=lambda span: (span.nodes, span.ranks))
        self.span = span._replace(shared=_share_nodes(cluster, self._devices[0]))
        self._fixed = fixed or {}
        self._loads: dict[tuple[str, str], Load] = {}
        self._seconds: dict[tuple[str, str], Floats] = {}
        self._costs: dict[tuple[str, float, int], Cost] = {}

    @property
    def rows(self) -> int:
        """Rows of groups."""
        return len(self._devices)

    @property
    def _first(self) -> Arrangement:
        """The arrangement of the first group."""
        return next(kind for kind, groups in self._kinds if 0 in groups)

    # --- cost ------------------------------------------------------------------------------------

    def cost(self, operation: str, nbytes: float, row: int = 0) -> Cost:
        """Return the cost of an uncontended operation, by the algorithm that the library chooses.

        Parameters
        ----------
        nbytes : the whole buffer; for an all-to-all, what each rank sends [B]
        """
        key = operation, nbytes, row
        if key not in self._costs:
            names = self.choices(operation)
            costs = [self.cost_of(name, operation, nbytes, row) for name in names]
            if len(self._costs) >= MOST_COSTS:
                self._costs.clear()
            self._costs[key] = closed_form.ranked_first(costs)
        return self._costs[key]

    def cost_of(self, algorithm: str, operation: str, nbytes: float, row: int = 0) -> Cost:
        """Return the cost of an uncontended operation by one algorithm, with its best protocol."""
        load = self.load(algorithm, operation)
        return closed_form.collective_cost(
            algorithm,
            operation,
            0.0 if operation == "barrier" else nbytes,
            self.span,
            float(self.seconds_per_byte(algorithm, operation)[row]),
            float(load.units[row]),
            self.cluster.library,
            self._steps(algorithm, operation),
        )

    def traffic(self, name: str, operation: str, nbytes: float) -> Traffic:
        """Return an operation as traffic on links, by the algorithm that the library chooses."""
        return self.traffic_rows(name, operation, nbytes).of_row(0)

    def traffic_rows(self, name: str, operation: str, nbytes: float) -> TrafficRows:
        """Return the same as arrays, of the first row of groups."""
        cost = self.cost(operation, nbytes)
        load = self.load(cost.algorithm, operation)
        first = load.total.take([0])
        crossings = first.with_values(first.values / load.unit)
        amounts = (np.array([each]) for each in (cost.nbytes, cost.latency, cost.rate))
        return TrafficRows(name, crossings, *amounts)

    def choices(self, operation: str) -> list[str]:
        """Return the possible algorithms of an operation.

        Raises
        ------
        PlanError
            when the prescribed one is not possible, or none of the library is.
        """
        if operation in self._fixed:
            name, where = self._fixed[operation]
            if problem := self.obstacle(name, operation):
                raise PlanError(f"{where}: '{name}' {problem}")
            return [name]
        library = self.cluster.library
        names = library.choices.get(operation, ())
        possible = [name for name in names if not self.obstacle(name, operation)]
        if not possible:
            reasons = "; ".join(f"{name} {self.obstacle(name, operation)}" for name in names)
            raise PlanError(
                f"collectives.{operation}: library '{library.name}' has no algorithm for this group"
                f" ({reasons or 'its file names none for this operation'})"
            )
        return possible

    def signatures(self, operations: Sequence[str]) -> list[Hashable]:
        """Return for each row what the costs of operations depend on.

        It is equal for groups in equivalent places on the machine.
        """
        pairs = [(name, operation) for operation in operations for name in self.choices(operation)]
        common = self.span, tuple((*pair, self._steps(*pair)) for pair in pairs)
        seconds = [self.seconds_per_byte(*pair).tolist() for pair in pairs]
        return [(common, each) for each in zip(*seconds, strict=True)]

    def seconds_per_byte(self, algorithm: str, operation: str) -> Floats:
        """Return for each row the time of a byte of the buffer on uncontended links [s/B]."""
        key = algorithm, operation
        if key not in self._seconds:
            load = self.load(*key)  # its routes may be links that are new
            self._seconds[key] = load.seconds_per_byte(self.cluster.links.capacities)
        return self._seconds[key]

    def _steps(self, algorithm: str, operation: str) -> StepCounts | None:
        """Return the steps of an algorithm that depend on more than the span of the group."""
        return self._first.torus_steps(operation) if algorithm == "torus" else None

    # --- load ------------------------------------------------------------------------------------

    def load(self, algorithm: str, operation: str) -> Load:
        """Return the load of an operation on each link, for each byte of the buffer."""
        key = algorithm, operation
        if key not in self._loads:
            self._loads[key] = self._load(algorithm, operation)
        return self._loads[key]

    def _load(self, algorithm: str, operation: str) -> Load:
        if algorithm in TWICE and operation == "all-reduce":
            once = self.load(algorithm, "all-gather")
            twice = once.total.with_values(2 * once.total.values)
            return Load((twice,), 2 * once.units)
        phases = tuple(self._phases(algorithm, operation))
        if algorithm in ROUNDS:
            units = np.max([np.zeros(self.rows), *(p.largest(p.values) for p in phases)], axis=0)
            return Load(phases, np.where(units > 0, units, 1.0))
        unit = closed_form.bus_factor(operation, self.span.ranks) / self._flows(algorithm)
        return Load(phases, np.full(self.rows, unit))

    def _phases(self, algorithm: str, operation: str) -> Iterator[LinkRows]:
        """Yield the load of each round, or of all messages of a pipelined algorithm."""
        messages = [kind.messages(algorithm, operation) for kind, _ in self._kinds]
        for at_once in zip(*messages, strict=True):
            parts = [
                part
                for (_, groups), sent in zip(self._kinds, at_once, strict=True)
                for part in self._carried(groups, sent)
            ]
            if algorithm == "sharp":
                parts.append(self._reduced_in_fabric())
            yield added(parts, self.rows)

    def _carried(self, groups: Integers, sent: Messages) -> Iterator[LinkRows]:
        """Yield the load of messages of some of the groups, part by part."""
        devices = self._devices[:, groups].reshape(-1, self._devices.shape[2])
        row = np.repeat(np.arange(self.rows), len(groups))
        step = max(1, MOST_MESSAGES // max(1, len(sent.share)))
        for first in range(0, len(devices), step):
            some = slice(first, first + step)
            yield load_of_messages(self.cluster, devices[some], sent, row[some], self.rows)

    def _reduced_in_fabric(self) -> LinkRows:
        entries = [
            (row, link, share)
            for row, groups in enumerate(self._devices.tolist())
            for group in groups
            for link, share in shares_in_fabric(self.cluster, group)
        ]
        row, link, share = (np.array(column) for column in zip(*entries, strict=True))
        return link_rows(row, link, share, self.rows)

    def _flows(self, algorithm: str) -> int:
        """Return the number of equal flows that leave a rank or a node."""
        if self.span.nodes > 1:
            return self.span.fullest
        return self._first.rings if algorithm == "ring" else 1

    def obstacle(self, algorithm: str, operation: str) -> str:
        """Return why an algorithm is not possible for an operation; an empty text if it is."""
        if operation not in RUNS[algorithm]:
            return f"has no {operation} (it has {', '.join(RUNS[algorithm])})"
        needs, met = self._needs(algorithm)
        return "" if met else f"needs {needs}"

    def _needs(self, algorithm: str) -> tuple[str, bool]:
        """Return what an algorithm needs, in words, and whether this group has it."""
        cluster, span = self.cluster, self.span
        several = span.nodes > 1
        counts = {count for kind, _ in self._kinds for count in kind.counts}
        even = several and len(counts) == 1
        reduces = cluster.node.reduces > 0
        if algorithm == "tree":
            return "a group over several nodes", several
        if algorithm == "nvls":
            return "a group in one node with a switch that reduces", reduces and not several
        if algorithm == "nvls-tree":
            needs = "equally many devices, above one, on several nodes with switches that reduce"
            return needs, reduces and even and span.fullest > 1
        if algorithm == "sharp":
            needs = "equally many devices on several nodes of a fabric with switches that reduce"
            return needs, cluster.fabric.reduces and even
        if algorithm == "hierarchical":
            needs = "equally many devices, above one, on several nodes"
            return needs, even and span.fullest > 1
        if algorithm == "torus":
            fills = all(kind.box is not None for kind, _ in self._kinds)
            return "a group that fills a box of a torus", fills
        if algorithm in ("doubling", "halving-doubling"):
            return "a power of two of ranks", span.ranks & (span.ranks - 1) == 0
        return "", True


def _share_nodes(cluster: Cluster, groups: Integers) -> bool:
    """Return whether two of some groups have members on the same node."""
    nodes = np.sort(groups // cluster.node.devices, axis=1)
    own = np.ones_like(nodes, dtype=np.bool_)
    own[:, 1:] = nodes[:, 1:] != nodes[:, :-1]
    return bool(len(np.unique(nodes)) < np.count_nonzero(own))


def load_of_messages(
    cluster: Cluster, groups: Integers, sent: Messages, row: Integers, rows: int
) -> LinkRows:
    """Return the load of messages of groups, a row of groups each.

    Parameters
    ----------
    groups : devices of each group
    row : of each group
    """
    parts = []
    entering, leaving = sent.source == CROSSBAR, sent.target == CROSSBAR
    direct = ~(entering | leaving)
    if direct.any():
        a, b = groups[:, sent.source[direct]], groups[:, sent.target[direct]]
        route = cluster.relayed_routes if sent.relayed and cluster.library.relay else cluster.routes
        routes = route(a.ravel(), b.ravel())
        message = routes.message
        shares = np.tile(sent.share[direct], len(groups))[message]
        of = np.repeat(row, direct.sum())[message]
        parts.append(link_rows(of, routes.links, shares, rows))
    for chosen, members, link_of in (
        (leaving, sent.source, cluster.to_crossbar),
        (entering, sent.target, cluster.from_crossbar),
    ):
        if chosen.any():
            links = link_of(groups[:, members[chosen]].ravel())
            shares = np.tile(sent.share[chosen], len(groups))
            parts.append(link_rows(np.repeat(row, chosen.sum()), links, shares, rows))
    return added(parts, rows)
