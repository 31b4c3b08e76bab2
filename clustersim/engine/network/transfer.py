"""Transfers: activities in flight, the routes that they have in common, and their components."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import ClassVar, NamedTuple

from clustersim.engine.clock import TimeGrid
from clustersim.traffic import Traffic

FULL = 2**46
"""A link's capacity in the integer units of demand: sums of integers do not drift."""

LIMIT = FULL + 32
"""Demands round up, so that exact fits exceed `FULL` by a few units; 5e-13 of it is allowed."""

NEARLY = 1 - 1e-9
"""Share of a capacity from which a load may be all of it, whatever the rounding."""

UNCONTENDED, WAITING, SHARED, DONE = range(4)


class TransferRoute:
    """What the activities have in common that cross the same links with the same weights and cap.

    Attributes
    ----------
    rate : of one flow with its links to itself, the smallest of cap and capacity / weight [B/s]
    weight_at : flows that cross each link
    demands : pairs of a link and the share of its capacity that an activity takes there at full
        rate [1 / FULL]
    nbytes : payload of one flow, summed over the completed transfers [B]
    """

    __slots__ = ("demands", "links", "nbytes", "rate", "weight_at", "weights")

    def __init__(
        self,
        crossings: Sequence[tuple[int, float]],
        cap: float,
        capacities: Sequence[float],
    ) -> None:
        self.weight_at = dict(crossings)
        self.links, self.weights = tuple(self.weight_at), tuple(self.weight_at.values())
        assert len(self.links) == len(crossings), "each link once, with its weight"
        assert cap > 0
        assert all(weight > 0 for weight in self.weights)
        self.rate = min([cap, *(capacities[link] / weight for link, weight in crossings)])
        self.demands = tuple(
            (link, ceil(weight * self.rate / capacities[link] * FULL)) for link, weight in crossings
        )
        self.nbytes = 0.0


@dataclass(slots=True, eq=False, repr=False)
class Transfer:
    """One activity in flight, made by `Network.start`.

    While uncontended it is itself the event of its completion that SimPy holds: of an event, the
    environment uses `callbacks` and `_ok` only.  One object less saves a fifth of a start.

    Attributes
    ----------
    number : of its start, which orders what is equal otherwise
    departure : when it was started [s]
    begin : when its bytes begin to flow, after its latency [s]
    phase : UNCONTENDED, WAITING (for its latency), SHARED or DONE
    rate : of one flow, since `since` [B/s]
    since : instant up to which `delivered` is counted [s]
    delivered : of the payload of one flow [B]
    end : when it will be complete at this rate, while shared [s]
    row : its row in the array solver, which then holds rate, since, delivered and end; else -1
    bottleneck : link that limited it when `local_rates` looked for it last; -1 before
    """

    traffic: Traffic
    route: TransferRoute
    done: "Callable[[Transfer], None]"
    number: int
    departure: float
    begin: float
    callbacks: "list[Callable[[Transfer], None]]"
    rate: float
    since: float
    delivered: float = 0.0
    phase: int = UNCONTENDED
    end: float = inf
    row: int = -1
    bottleneck: int = -1
    _ok: ClassVar[bool] = True

    def __repr__(self) -> str:
        phase = ("uncontended", "waiting", "shared", "done")[self.phase]
        return f"<Transfer {self.number} {self.traffic.name!r} {phase}>"

    @property
    def unsolved(self) -> bool:
        """Whether it shares links, and has no rate yet."""
        return self.phase == SHARED and self.end == inf and self.row < 0

    def state(self, since: float, name: "Callable[[Transfer], Hashable]") -> tuple[Hashable, ...]:
        """Return all that its future depends on, with instants counted from `since`."""
        times = self.departure - since, self.begin - since, self.since - since, self.end - since
        return name(self), self.phase, self.rate, self.delivered, times

    def postpone(self, seconds: float) -> None:
        """Move it to a later time."""
        self.departure += seconds
        self.begin += seconds
        self.since += seconds
        self.end += seconds

    def change_rate(self, rate: float, now: float, grid: TimeGrid) -> None:
        """Count the bytes delivered until `now`, and continue at another rate."""
        self.delivered += self.rate * (now - self.since)
        self.since = now
        self.rate = rate
        self.end = now + grid.round(max(0.0, self.traffic.nbytes - self.delivered) / rate)


def by_number(transfer: Transfer) -> int:
    """Return the key that orders transfers by their starts."""
    return transfer.number


class Component(NamedTuple):
    """Transfers that contended links connect.

    Attributes
    ----------
    transfers : in the order of their starts, those of the array solver excepted
    contended : the links that connect them
    crossings : transfers on each of these links, summed over the links [count]
    in_arrays : whether transfers of the array solver are connected as well
    """

    transfers: list[Transfer]
    contended: list[int]
    crossings: int
    in_arrays: bool


class RouteTable:
    """The routes of a network, the transfers in flight, and their demands on its links.

    Parameters
    ----------
    limiting : the links that can limit transfers; None for all

    Attributes
    ----------
    by_key : by links, weights and cap
    in_flight : the transfers that are not complete, in the order of their starts
    on_link : those on each link, in the same order
    demands : sum of their demands, by link [1 / FULL]
    without_links : the route of activities without links or without bytes
    """

    def __init__(self, capacities: Sequence[float], limiting: frozenset[int] | None = None) -> None:
        self.by_key: dict[tuple[tuple[int, ...], tuple[float, ...], float], TransferRoute] = {}
        self.in_flight: dict[Transfer, None] = {}
        self.on_link: defaultdict[int, dict[Transfer, None]] = defaultdict(dict)
        self.demands = [0] * len(capacities)
        self.without_links = TransferRoute((), inf, ())
        self._capacities, self._limiting = capacities, limiting

    def add(self, traffic: Traffic) -> TransferRoute:
        """Add the route of a new combination of links, weights and cap."""
        key = (traffic.links, traffic.weights, traffic.cap)
        limiting = self._limiting
        crossings = traffic.crossings()
        kept = [each for each in crossings if limiting is None or each[0] in limiting]
        self.by_key[key] = route = TransferRoute(kept, traffic.cap, self._capacities)
        return route

    def contended(self, link: int) -> bool:
        """Return whether the demands on a link exceed its capacity."""
        return self.demands[link] > LIMIT

    def full_links(self, transfers: Iterable[Transfer]) -> dict[int, None]:
        """Return the contended links of some transfers that may limit others, as they are full."""
        demands = self.demands
        return {
            link: None
            for transfer in transfers
            for link in transfer.route.links
            if demands[link] > LIMIT and self._may_be_full(link)
        }

    def _may_be_full(self, link: int) -> bool:
        """Return whether a link is full, or it is not known here."""
        load = 0.0
        for transfer in self.on_link[link]:
            if transfer.row >= 0:
                return True
            load += transfer.route.weight_at[link] * transfer.rate
        return load >= self._capacities[link] * NEARLY

    def sharing(self, links: Iterable[int]) -> Iterator[Transfer]:
        """Yield the shared transfers on some links, those of the array solver excepted."""
        for link in links:
            for transfer in self.on_link[link]:
                if transfer.phase == SHARED and transfer.row < 0:
                    yield transfer

    @property
    def carried(self) -> list[float]:
        """Bytes that each link that can limit them carried for completed transfers [B]."""
        carried = [0.0] * len(self._capacities)
        for route in self.by_key.values():
            for link, weight in zip(route.links, route.weights, strict=True):
                carried[link] += weight * route.nbytes
        return carried

    def component(
        self, members: Iterable[Transfer], share: Callable[[Transfer], None], most: float = inf
    ) -> Component | None:
        """Return all transfers that contended links connect to some members.

        None for a component of too many crossings, or whose routes have too many links.

        Parameters
        ----------
        share : called with each uncontended transfer on such a link; makes it shared, or has it
            wait for its latency
        most : crossings up to which they are returned; twice as many links of routes
        """
        queue = dict.fromkeys(members)
        transfers = list(queue)
        contended: dict[int, None] = {}
        demands, on_link = self.demands, self.on_link
        crossings, looked_at, in_arrays = 0, 0, False
        for transfer in transfers:
            looked_at += len(transfer.route.links)
            if looked_at > 2 * most:
                return None
            for link in transfer.route.links:
                if demands[link] <= LIMIT or link in contended:
                    continue
                contended[link] = None
                others = on_link[link]
                crossings += len(others)
                for other in others:
                    if other.phase == UNCONTENDED:
                        share(other)
                    if other.row >= 0:
                        in_arrays = True
                    elif other.phase == SHARED and other not in queue:
                        queue[other] = None
                        transfers.append(other)
                if crossings > most:
                    return None
        transfers.sort(key=by_number)
        return Component(transfers, list(contended), crossings, in_arrays)
