"""A communicator: groups of ranks, and the algorithm of their library for each operation and size.

    groups --by algorithm--> loads on links --cost--> choice of the tuner --> traffic

As NCCL does at start-up, it computes the rings and trees of its ranks once; each call uses the
algorithm and protocol that the tuner ranks fastest, unless the scenario prescribes one.
"""

import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from clustersim.arrays import Floats, Integers, first_of, numbered
from clustersim.cost.closed_form import Cost, bus_factor, ranked_first
from clustersim.cost.kernels.collectives import transfer_times
from clustersim.errors import PlanError
from clustersim.program.collectives.algorithm import CROSSBAR, Algorithm, Groups, Switched
from clustersim.program.collectives.algorithms import ALGORITHMS
from clustersim.program.collectives.messages import (
    Arrangement,
    Messages,
    arrangements,
    places_on_machine,
)
from clustersim.program.links.together import together
from clustersim.records import dataclass
from clustersim.topology.cluster import Cluster
from clustersim.traffic import (
    LimitedBy,
    LinkRows,
    Traffic,
    TrafficRows,
    added,
    limiting,
    link_rows,
    stacked,
)


class Prescribed(NamedTuple):
    """An algorithm that the scenario prescribes, and the location, with which messages begin."""

    algorithm: str
    where: str


TABLE = "measured"
"""In place of a protocol, that the cost is of a measured table."""

MOST_MESSAGES = 2**18
"""Messages whose routes are made at the same time, which bounds their memory."""


MOST_COSTS = 4096
"""Costs of a communicator that are kept."""


@dataclass(frozen=True, eq=False)
class Load:
    """Load of a collective on each link, a row for each of several sets of groups.

    Attributes
    ----------
    phases : load of each round, or of all flows at once [B/B]
    units : of each row, bytes of one of the equal flows that represent it in the engine [B/B]
    """

    phases: tuple[LinkRows, ...]
    units: Floats

    @cached_property
    def total(self) -> LinkRows:
        """Bytes on each link, of all phases."""
        return added(self.phases, len(self.units))

    @property
    def shares(self) -> dict[int, float]:
        """Bytes on each link of the first row, of all phases."""
        return self.total.of_row(0)

    @property
    def unit(self) -> float:
        """Bytes of one of the equal flows of the first row [B/B]."""
        return float(self.units[0])

    def seconds_per_byte(self, capacities: Floats) -> Floats:
        """Return for each row the time of a byte of the buffer on uncontended links [s/B]."""
        seconds = np.zeros(len(self.units))
        for phase in self.phases:
            seconds += phase.largest(phase.values / capacities[phase.links])
        return seconds

    def bottleneck(self, capacities: Floats) -> int | None:
        """Return the link of the first row with the longest time for its share; None without."""
        row = self.total.take([0])
        if not len(row.links):
            return None
        return int(row.links[np.argmax(row.values / capacities[row.links])])


RING: Final = ("reduce-scatter", "all-gather")
"""The two rounds of an all-reduce over a ring."""


class Communicator:
    """Groups of devices that run the same collectives at the same time.

    Also the groups of many cells or stages, a row each, whose groups are in equivalent places: they
    have the same algorithms and messages, but each its own routes.

    Parameters
    ----------
    groups : devices of each group in rank order; or of each group of each row
    fixed : prescribed algorithms, by operation
    off : algorithms that the caller turns off in the library

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
        off: Collection[str] = (),
    ) -> None:
        self.cluster = cluster
        devices = np.asarray(groups, dtype=np.int64)
        self._devices = devices if devices.ndim == 3 else devices[None]
        numbers, kinds = arrangements(cluster, self._devices[0])
        self._kinds = [(kind, np.flatnonzero(numbers == i)) for i, kind in enumerate(kinds)]
        span = max((kind.span for kind in kinds), key=lambda span: (span.nodes, span.ranks))
        shared = _share_nodes(cluster, self._devices[0])
        self.span = span._replace(shared=shared, box=self._first.span.box)
        self._fixed = fixed or {}
        self._off = frozenset(off)
        self._loads: dict[tuple[str, str], Load] = {}
        self._of_messages: dict[bytes, LinkRows] = {}
        self._seconds: dict[tuple[str, str], Floats] = {}
        self._units: dict[tuple[str, str], Floats] = {}
        self._costs: dict[tuple[str, float, int], Cost] = {}

    @property
    def _in_node(self) -> bool:
        """Whether the groups have several devices of a node."""
        return self.span.nodes == 1 < self.span.ranks

    @cached_property
    def _ring_pace(self) -> Floats:
        """For each row, the time in which rings carry a byte of an all-gather [s/B]."""
        return self.seconds_per_byte("ring", "all-gather")

    @property
    def rows(self) -> int:
        """Rows of groups."""
        return len(self._devices)

    @property
    def _first(self) -> Arrangement:
        """The arrangement of the first group."""
        return next(kind for kind, groups in self._kinds if 0 in groups)

    @cached_property
    def _groups(self) -> Groups:
        """The groups, as far as algorithms have requirements."""
        even = len({count for kind, _ in self._kinds for count in kind.counts}) == 1
        boxes = all(kind.span.box is not None for kind, _ in self._kinds)
        return Groups(self.cluster, self.span, even, boxes)

    # --- cost ------------------------------------------------------------------------------------

    def cost(self, operation: str, nbytes: float, row: int = 0) -> Cost:
        """Return the cost of an uncontended operation, by the algorithm that the library chooses.

        Parameters
        ----------
        nbytes : the whole buffer; for an all-to-all, what each rank sends [B]
        """
        key = operation, nbytes, row
        if key not in self._costs:
            chosen = self._first_of(self.choices(operation), *key)
            if len(self._costs) >= MOST_COSTS:
                self._costs.clear()
            self._costs[key] = self._in_table(chosen, *key)
        return self._costs[key]

    def _first_of(self, names: Sequence[str], operation: str, nbytes: float, row: int) -> Cost:
        """Return the cost by the algorithm that the library ranks first among some."""
        return ranked_first([self.cost_of(name, operation, nbytes, row) for name in names])

    def seconds(self, operation: str, nbytes: Floats) -> Floats:
        """Return the times of operations on uncontended links [s]."""
        return np.array([self.cost(operation, size).seconds for size in nbytes.tolist()])

    def _in_table(self, chosen: Cost, operation: str, nbytes: float, row: int) -> Cost:
        """Return a cost by the measured table of the devices, if they have one for these groups.

        The algorithm that the tuner ranks first decides the links, which limit the rate.
        """
        library = self.cluster.library
        rate = library.rates.get(operation)
        if rate is None or operation in self._fixed or not self._in_node:
            return chosen
        ring = bus_factor("all-gather", self.span.ranks) / float(self._ring_pace[row])
        device, ranks = self.cluster.accelerator, self.span.ranks
        times = transfer_times(device, operation, ranks, nbytes / rate, ring)
        if times is None:
            return chosen
        start, moving = times
        if self._is_off(operation, nbytes, row):
            halves = (transfer_times(device, each, ranks, nbytes / rate, ring) for each in RING)
            moving = max(moving, sum(half[1] for half in halves if half))
        pace = float(self.seconds_per_byte(chosen.algorithm, operation)[row])
        wire = nbytes * float(self.units(chosen.algorithm, operation)[row])
        moving = max(moving, nbytes * pace)
        pace_of_flow = wire / moving if moving else math.inf
        latency = start + library.skew
        return Cost(chosen.algorithm, TABLE, latency, wire, pace_of_flow, latency + moving)

    def _is_off(self, operation: str, nbytes: float, row: int) -> bool:
        """Return whether a table of all-reduces is of an algorithm that is turned off.

        Then the ring takes its place: a reduce-scatter, and an all-gather of the result.
        """
        if operation != "all-reduce" or not self._off:
            return False
        names = self._possible(operation)
        return self._first_of(names, operation, nbytes, row).algorithm in self._off

    def cost_of(self, algorithm: str, operation: str, nbytes: float, row: int = 0) -> Cost:
        """Return the cost of an uncontended operation by one algorithm, with its best protocol."""
        nbytes = 0.0 if operation == "barrier" else nbytes
        pace = float(self.seconds_per_byte(algorithm, operation)[row])
        unit = float(self.units(algorithm, operation)[row])
        library = self.cluster.library
        return ALGORITHMS[algorithm].cost(operation, nbytes, self.span, pace, unit, library)

    def limited_by(self, operation: str, nbytes: float, row: int = 0) -> LimitedBy:
        """Return what limits an uncontended operation.

        Rates of measured tables, and of a pair of devices, are in proportion to the links.
        """
        cost = self.cost(operation, nbytes, row)
        pace = float(self.seconds_per_byte(cost.algorithm, operation)[row])
        free = float(self.units(cost.algorithm, operation)[row]) / pace if pace else math.inf
        pair = self.span.nodes == 1 and self.span.ranks == 2
        free = min(free, cost.rate) if cost.protocol == TABLE else free
        free /= self.cluster.library.pairing if pair else 1.0
        return limiting(cost.latency, cost.nbytes, cost.rate, free)

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
        possible = [name for name in self._possible(operation) if name not in self._off]
        if not possible:
            reasons = "; ".join(
                f"{name} {self.obstacle(name, operation) or 'is turned off by the framework'}"
                for name in library.choices.get(operation, ())
            )
            raise PlanError(
                f"collectives.{operation}: library '{library.name}' has no algorithm for this group"
                f" ({reasons or 'its file names none for this operation'})"
            )
        return possible

    def _possible(self, operation: str) -> list[str]:
        """Return the algorithms of the library that these groups allow, also those turned off."""
        names = self.cluster.library.choices.get(operation, ())
        return [name for name in names if not self.obstacle(name, operation)]

    def signatures(self, operations: Sequence[str]) -> tuple[Integers, list[Hashable]]:
        """Return what the costs of operations depend on: a number for each row, and by number.

        It is equal for groups in equivalent places on the machine.
        """
        pairs = [(name, operation) for operation in operations for name in self.choices(operation)]
        steps = (ALGORITHMS[name].steps(operation, self.span) for name, operation in pairs)
        common = self.span._replace(box=None), *zip(pairs, steps, strict=True)
        seconds = [self.seconds_per_byte(*pair) for pair in pairs]
        if self.cluster.library.rates and self._in_node:
            seconds.append(self._ring_pace)
        by_row = np.stack(seconds, axis=1)
        numbers = numbered(by_row.view(np.int64))
        return numbers, [(common, tuple(each)) for each in by_row[first_of(numbers)].tolist()]

    def seconds_per_byte(self, algorithm: str, operation: str) -> Floats:
        """Return for each row the time of a byte of the buffer on uncontended links [s/B]."""
        key = algorithm, operation
        if key not in self._seconds:
            examples, of_row = self._examples
            load = examples.load(*key)  # its routes may be links that are new
            seconds = load.seconds_per_byte(self.cluster.loaded.capacities)
            self._seconds[key] = seconds[of_row]
        return self._seconds[key]

    def units(self, algorithm: str, operation: str) -> Floats:
        """Return for each row the bytes of one of the equal flows of an operation [B/B]."""
        key = algorithm, operation
        if key not in self._units:
            examples, of_row = self._examples
            self._units[key] = examples.load(*key).units[of_row]
        return self._units[key]

    @cached_property
    def _examples(self) -> "tuple[Communicator, Integers]":
        """The rows in different places on the machine, and for each row the number of its own.

        All of them where a row has more devices than there are rows.
        """
        if self.rows <= self._devices[0].size:
            return self, np.arange(self.rows)
        places = numbered(places_on_machine(self.cluster, self._devices.reshape(self.rows, -1)))
        first = first_of(places)
        if len(first) == self.rows:
            return self, places
        return Communicator(self.cluster, self._devices[first], self._fixed, self._off), places

    def obstacle(self, algorithm: str, operation: str) -> str:
        """Return why an algorithm is not possible for an operation; an empty text if it is."""
        return ALGORITHMS[algorithm].obstacle(operation, self._groups)

    # --- load ------------------------------------------------------------------------------------

    def load(self, algorithm: str, operation: str) -> Load:
        """Return the load of an operation on each link, for each byte of the buffer."""
        key = algorithm, operation
        if key not in self._loads:
            self._loads[key] = self._load(ALGORITHMS[algorithm], operation)
        return self._loads[key]

    def forget_loads(self) -> None:
        """Free the loads on links, without which costs are known; they can be computed again."""
        self._loads.clear()
        self._of_messages.clear()

    def _load(self, algorithm: Algorithm, operation: str) -> Load:
        if algorithm.doubled and operation == "all-reduce":
            once = self.load(algorithm.name, "all-gather")
            twice = once.total.with_values(2 * once.total.values)
            return Load((twice,), 2 * once.units)
        phases = tuple(self._phases(algorithm, operation))
        if algorithm.rounds:
            return Load(phases, self._unit_of_rounds(phases))
        unit = bus_factor(operation, self.span.ranks) / self._flows(algorithm)
        return Load(phases, np.full(self.rows, unit))

    def _unit_of_rounds(self, phases: Sequence[LinkRows]) -> Floats:
        """Return the largest load of a link of a node in a round: that of one flow of a rank.

        A link between switches that many ranks of a group cross carries as many flows.
        """
        of_nodes = (p.only(p.links < self.cluster.loaded.of_nodes) for p in phases)
        flows = np.max([np.zeros(self.rows), *(p.largest(p.values) for p in of_nodes)], axis=0)
        return np.where(flows > 0, flows, 1.0)

    def _phases(self, algorithm: Algorithm, operation: str) -> Iterator[LinkRows]:
        """Yield the load of each round, or of all messages of a pipelined algorithm."""
        messages = [kind.messages(algorithm, operation) for kind, _ in self._kinds]
        for at_once in zip(*messages, strict=True):
            parts = [
                self._carried(groups, sent)
                for (_, groups), sent in zip(self._kinds, at_once, strict=True)
            ]
            if algorithm.switched:
                parts.append(self._in_fabric(algorithm.switched))
            yield added(parts, self.rows)

    def _carried(self, groups: Integers, sent: Messages) -> LinkRows:
        """Return the load of messages of some of the groups.

        Operations whose messages are equal, as the halves of an all-reduce, have one.
        """
        key = groups.tobytes() + sent.key
        if key not in self._of_messages:
            self._of_messages[key] = self._routed(groups, sent)
        return self._of_messages[key]

    def _routed(self, groups: Integers, sent: Messages) -> LinkRows:
        """Return the load of messages of some of the groups, of a few rows after another."""
        at_once = max(1, MOST_MESSAGES // max(1, len(groups) * self._messages(sent)))
        firsts = range(0, self.rows, at_once)
        parts = (self._of_rows(self._devices[at : at + at_once, groups], sent) for at in firsts)
        return stacked([together(part, self.cluster) for part in parts])

    def _of_rows(self, groups: Integers, sent: Messages) -> LinkRows:
        """Return the load of messages of groups by row, of a few groups after another."""
        rows, of_row, members = groups.shape
        flat, row = groups.reshape(-1, members), np.repeat(np.arange(rows), of_row)
        step = max(1, MOST_MESSAGES // self._messages(sent))
        parts = (slice(first, first + step) for first in range(0, len(flat), step))
        loads = (load_of_messages(self.cluster, flat[p], sent, row[p], rows) for p in parts)
        return added(loads, rows)

    def _messages(self, sent: Messages) -> int:
        """Return the messages of a group, their parts counted."""
        return max(1, len(sent.share) * self.cluster.most_parts)

    def _in_fabric(self, switched: Switched) -> LinkRows:
        entries = [
            (row, link, share)
            for row, groups in enumerate(self._devices.tolist())
            for group in groups
            for link, share in switched(self.cluster, group)
        ]
        row, link, share = (np.array(column) for column in zip(*entries, strict=True))
        return together(link_rows(row, link, share, self.rows), self.cluster)

    def _flows(self, algorithm: Algorithm) -> int:
        """Return the number of equal flows that leave a rank or a node."""
        if self.span.nodes > 1:
            return self.span.fullest
        return algorithm.flows(self.cluster, self._first.group)


def _share_nodes(cluster: Cluster, groups: Integers) -> bool:
    """Return whether two of some groups have members on the same node."""
    nodes = np.sort(groups // cluster.node.devices, axis=1)
    own = np.ones_like(nodes, dtype=np.bool_)
    own[:, 1:] = nodes[:, 1:] != nodes[:, :-1]
    used = np.sort(nodes[own])
    return bool((used[1:] == used[:-1]).any())


def load_of_messages(
    cluster: Cluster, groups: Integers, sent: Messages, row: Integers, rows: int
) -> LinkRows:
    """Return the load of messages of groups, a row of groups each.

    Parameters
    ----------
    groups : devices of each group
    row : of each group
    """
    entering, leaving = sent.source == CROSSBAR, sent.target == CROSSBAR
    direct = ~(entering | leaving)
    none = np.zeros(0, dtype=np.int64)
    entries = [(none, none, np.zeros(0))]  # a reduction in switches alone has no messages
    for chosen, members, link_of in (
        (leaving, sent.source, cluster.to_crossbar),
        (entering, sent.target, cluster.from_crossbar),
    ):
        if chosen.any():
            links = link_of(groups[:, members[chosen]].ravel())
            shares = np.tile(sent.share[chosen], len(groups))
            entries.append((np.repeat(row, chosen.sum()), links, shares))
    if direct.any():
        a, b = (groups[:, ends[direct]].ravel() for ends in (sent.source, sent.target))
        of, shares = np.repeat(row, direct.sum()), np.tile(sent.share[direct], len(groups))
        route = cluster.relayed_routes if sent.relayed and cluster.library.relay else cluster.routes
        across = a // cluster.node.devices != b // cluster.node.devices
        for one in (across, ~across):  # apart, so that no routes are interleaved
            routes = route(a[one], b[one])
            message = routes.message
            entries.append((of[one][message], routes.links, shares[one][message] * routes.shares))
    of, links, shares = (np.concatenate(column) for column in zip(*entries, strict=True))
    return link_rows(of, links, shares, rows)
