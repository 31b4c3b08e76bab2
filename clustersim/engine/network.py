"""The network: one owner of all links, who knows at every instant what each activity gets.

An activity waits its latency, then its equal flows share links with all others by max-min fairness
(`fairness.py`) until its bytes are through.  Nearly all meet nobody, and that is made cheap without
giving up a digit:

    alone -------------------------------> done     one event, no solve
      |   a newcomer crowds a link of it     ^
      v                                      |
    waiting ------> shared ------------------'      solved when somebody comes or goes
    (latency)       (bytes)

*Claims.*  Each activity in flight claims on each of its links the most it could ever take there:
weight times the rate it would have with the machine to itself.  Where the claims on a link stay
within its capacity the link cannot slow anybody down.  An activity whose links are all like that
runs at its alone-rate, exactly, and its end is known when it starts.  A link whose claims exceed
its capacity is *crowded*; only crowded links enter a solve, and only the activities that they
connect.

*Instants.*  All starts and ends of one instant are gathered and settled together, after everything
else that happens then; rates are solved once.  A single timer stands at the next end of the shared
activities.  An event that was overtaken does nothing when it fires; it may move the clock past the
last completion, so take times from `done`, not from where the clock stops.

*Self-checks.*  Bytes delivered are integrated from rates and times, never copied from what was
asked; the load of every solved link is added up again.  `check` compares.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import islice
from math import inf, isfinite, ulp
from typing import Any, cast

from simpy import Environment
from simpy.events import NORMAL, Event, EventPriority, Timeout

from clustersim.engine.fairness import max_min_rates
from clustersim.engine.transfer import ALONE, DONE, FULL, SHARED, WAITING, Route, Transfer
from clustersim.errors import SimulationError
from clustersim.traffic import Traffic

LAST = EventPriority(2)
"""After all normal events of the same instant."""

LIMIT = FULL + 32
"""Claims round up, so exact fits come out a few units above `FULL`; 5e-13 of it is let pass."""

TOLERANCE = 1e-9
"""Relative gap of bytes or capacity above which `check` calls it an error."""

CLOCK_ULPS = 4.0
"""Instants closer than so many units in the last place of the clock are the same."""


class Network:
    """Directed links of fixed capacity [B/s] and the activities that share them.

    >>> env = Environment()
    >>> network = Network(env, [10.0])
    >>> for name in "ab":
    ...     traffic = Traffic(name, links=(0,), weights=(1.0,), nbytes=20.0, latency=1.0)
    ...     transfer = network.start(traffic, lambda t: print(t.traffic.name, env.now))
    >>> env.run()
    a 5.0
    b 5.0
    >>> network.check()
    """

    def __init__(self, env: Environment, capacities: Sequence[float]) -> None:
        self._env = env
        self._schedule: Any = env.schedule  # also takes a transfer, which is an event while alone
        # One list for all: SimPy only reads it.
        self._when_alone: list[Callable[[Transfer], None]] = [self._finish_alone]
        self._capacities = [float(capacity) for capacity in capacities]
        assert all(isfinite(c) and c > 0 for c in self._capacities), "capacities above 0, finite"
        self._routes: dict[tuple[tuple[int, ...], tuple[float, ...], float], Route] = {}
        self._crossing: dict[int, list[Route]] = {}
        self._nowhere = Route((), (), inf, ())  # for what crosses nothing, or carries nothing
        self._claimed = [0] * len(self._capacities)
        self._started = 0
        # The shared set, its next ends as (end, number), and what this instant has gathered.
        self._shared: dict[int, Transfer] = {}
        self._ends: list[tuple[float, int]] = []
        self._timer: Event | None = None
        self._timer_end = inf
        self._arrived: list[Transfer] = []
        self._left: list[Transfer] = []
        self._settling = False
        # Totals for the self-checks.
        self.bytes_asked = 0.0
        self.bytes_delivered = 0.0
        self.solves = 0
        self.worst_load = 0.0
        self._worst_link = -1
        self._allowance = 0.0
        self._short: list[Transfer] = []

    # --- starting -------------------------------------------------------------------------------

    def start(self, traffic: Traffic, done: Callable[[Transfer], None]) -> Transfer:
        """Start an activity now; `done` is called with its transfer at the completion instant.

        What carries no bytes, or crosses no link and has no cap, completes after its latency.
        """
        _, links, weights, nbytes, latency, cap = traffic
        route = self._routes.get((links, weights, cap)) or self._add_route(traffic)
        if not nbytes or route.rate == inf:
            return self._pass_by(traffic, done)
        self._started = number = self._started + 1
        self.bytes_asked += nbytes
        begin = self._env._now + latency  # not `now`: a property costs as much as the whole line
        transfer = Transfer(traffic, route, done, number, begin, self._when_alone)
        route.flying[transfer] = None
        claimed = self._claimed
        crowded = False
        for link, share in route.claims:
            claimed[link] = total = claimed[link] + share
            if total > LIMIT:
                crowded = True
        if crowded:
            self._wait(transfer, latency)
        else:
            self._schedule(transfer, NORMAL, latency + nbytes / route.rate)
        return transfer

    def _add_route(self, traffic: Traffic) -> Route:
        """Remember a combination of links, weights and cap that was not seen before."""
        key = (traffic.links, traffic.weights, traffic.cap)
        self._routes[key] = route = Route(*key, self._capacities)
        for link in route.links:
            self._crossing.setdefault(link, []).append(route)
        return route

    def _pass_by(self, traffic: Traffic, done: Callable[[Transfer], None]) -> Transfer:
        """Complete after the latency: there is no rate to integrate, so the bytes are given."""
        assert traffic.nbytes >= 0
        self._started += 1
        self.bytes_asked += traffic.nbytes
        begin = self._env.now + traffic.latency
        route = self._nowhere
        transfer = Transfer(traffic, route, done, self._started, begin, self._when_alone)
        transfer.rate = 0.0
        transfer.delivered = traffic.nbytes
        route.flying[transfer] = None
        self._schedule(transfer, NORMAL, traffic.latency)
        return transfer

    def _wait(self, transfer: Transfer, latency: float) -> None:
        """Let the latency pass before the transfer takes part in sharing."""
        transfer.phase = WAITING
        transfer.rate = 0.0
        if latency:
            event = Timeout(self._env, latency, transfer)
            event.callbacks.append(self._end_latency)
        else:
            self._arrive(transfer)

    def _end_latency(self, event: Event) -> None:
        self._arrive(cast(Transfer, event.value))

    def _arrive(self, transfer: Transfer) -> None:
        self._arrived.append(transfer)
        self._settle_soon()

    # --- completing -----------------------------------------------------------------------------

    def _finish_alone(self, transfer: Transfer) -> None:
        if transfer.phase == ALONE:
            self._complete(transfer)

    def _finish_shared(self, event: Event) -> None:
        """Complete all shared transfers whose end has come, and let the others have their links."""
        if event is not self._timer:
            return
        now = self._env.now
        same_instant = now + CLOCK_ULPS * ulp(now)
        while self._ends and self._ends[0][0] <= same_instant:
            transfer = self._pop_end()
            if transfer is not None:
                del self._shared[transfer.number]
                self._left.append(transfer)
                self._complete(transfer)
        self._timer = None
        self._settle_soon()

    def _complete(self, transfer: Transfer) -> None:
        """Give back the claims, keep the books, and tell whoever waits."""
        now = self._env._now
        route = transfer.route
        nbytes = transfer.traffic.nbytes
        rate = transfer.rate
        delivered = transfer.delivered + rate * (now - transfer.since)
        allowance = TOLERANCE * nbytes + rate * now * 4e-15  # the clock has a finite step
        if not -allowance <= delivered - nbytes <= allowance:
            self._short.append(transfer)
        transfer.delivered = delivered
        transfer.phase = DONE
        self.bytes_delivered += delivered
        self._allowance += allowance
        route.nbytes += nbytes
        del route.flying[transfer]
        claimed = self._claimed
        for link, share in route.claims:
            claimed[link] -= share
        transfer.done(transfer)

    # --- sharing --------------------------------------------------------------------------------

    def _settle_soon(self) -> None:
        """Solve once for this instant, after everything else that happens in it."""
        if self._settling:
            return
        self._settling = True
        event = Event(self._env)
        event._ok = True
        event._value = None
        event.callbacks.append(self._settle)
        self._env.schedule(event, LAST)

    def _settle(self, _: Event) -> None:
        """Give everybody touched by this instant's starts and ends the rate they now have."""
        self._settling = False
        arrived, self._arrived = self._arrived, []
        left, self._left = self._left, []
        touched = self._neighbours(left)
        for transfer in arrived:
            transfer.phase = SHARED
            transfer.since = self._env.now
            self._shared[transfer.number] = transfer
            touched[transfer] = None
        if touched:
            self._solve(*self._component(touched))
        self._set_timer()

    def _neighbours(self, left: list[Transfer]) -> dict[Transfer, None]:
        """Return the shared transfers on the links of those who left, as an ordered set."""
        return {
            transfer: None
            for link in dict.fromkeys(link for gone in left for link in gone.route.links)
            for route in self._crossing[link]
            for transfer in route.flying
            if transfer.phase == SHARED
        }

    def _component(self, found: dict[Transfer, None]) -> tuple[list[Transfer], list[int]]:
        """Return all transfers that crowded links connect to those found, and these links.

        Who ran alone on such a link until now is promoted to the shared set.
        """
        queue = list(found)
        crowded: dict[int, None] = {}
        for transfer in queue:
            for link in transfer.route.links:
                if link in crowded or self._claimed[link] <= LIMIT:
                    continue
                crowded[link] = None
                for route in self._crossing[link]:
                    for other in route.flying:
                        if other.phase == ALONE:
                            self._promote(other)
                        if other.phase == SHARED and other not in found:
                            found[other] = None
                            queue.append(other)
        queue.sort(key=_number)
        return queue, list(crowded)

    def _promote(self, transfer: Transfer) -> None:
        """Take a transfer that ran alone into the shared set, or let its latency pass first."""
        latency_left = transfer.begin - self._env.now
        if latency_left > 0:
            self._wait(transfer, latency_left)
            return
        transfer.phase = SHARED
        self._shared[transfer.number] = transfer

    def _solve(self, transfers: list[Transfer], crowded: list[int]) -> None:
        """Solve the rates of one connected component, and apply those that changed.

        Transfers of one route are one class: their weights add up and their rates are equal.
        """
        classes: dict[Route, list[Transfer]] = {}
        for transfer in transfers:
            classes.setdefault(transfer.route, []).append(transfer)
        place = {link: i for i, link in enumerate(crowded)}
        capacities = [self._capacities[link] for link in crowded]
        links, weights = _crossings(classes, place)
        rates = max_min_rates(capacities, links, weights, [route.rate for route in classes])
        self.solves += 1
        self._note_loads(crowded, capacities, links, weights, rates)
        for rate, members in zip(rates, classes.values(), strict=True):
            for transfer in members:
                if rate != transfer.rate or transfer.end == inf:
                    self._set_rate(transfer, rate)

    def _set_rate(self, transfer: Transfer, rate: float) -> None:
        """Let the transfer flow at `rate` from now, and note when it will be through."""
        now = self._env.now
        transfer.advance(now)
        transfer.rate = rate
        transfer.end = now + max(0.0, transfer.traffic.nbytes - transfer.delivered) / rate
        heappush(self._ends, (transfer.end, transfer.number))

    def _note_loads(
        self,
        crowded: list[int],
        capacities: list[float],
        links: list[list[int]],
        weights: list[list[float]],
        rates: list[float],
    ) -> None:
        """Add up what the solved rates put on each link, and keep the worst ratio ever seen."""
        loads = [0.0] * len(crowded)
        for rate, its_links, its_weights in zip(rates, links, weights, strict=True):
            for i, weight in zip(its_links, its_weights, strict=True):
                loads[i] += weight * rate
        for link, capacity, load in zip(crowded, capacities, loads, strict=True):
            if load > self.worst_load * capacity:
                self.worst_load = load / capacity
                self._worst_link = link

    # --- the next end of the shared set ---------------------------------------------------------

    def _pop_end(self) -> Transfer | None:
        """Take the earliest end off the heap; None if its transfer has a new end or is gone."""
        end, number = heappop(self._ends)
        transfer = self._shared.get(number)
        return transfer if transfer is not None and transfer.end == end else None

    def _set_timer(self) -> None:
        """Have one timer stand at the next end; a timer that was overtaken is forgotten."""
        ends, shared = self._ends, self._shared
        while ends and (ends[0][1] not in shared or shared[ends[0][1]].end != ends[0][0]):
            heappop(ends)
        if not ends:
            self._timer = None
            return
        if self._timer is not None and self._timer_end == ends[0][0]:
            return
        self._timer_end = ends[0][0]
        self._timer = timer = Timeout(self._env, max(0.0, self._timer_end - self._env.now))
        timer.callbacks.append(self._finish_shared)

    # --- the books ------------------------------------------------------------------------------

    @property
    def carried(self) -> list[float]:
        """Bytes that each link carried for the activities completed so far [B]."""
        carried = [0.0] * len(self._capacities)
        for route in self._routes.values():
            for link, weight in zip(route.links, route.weights, strict=True):
                carried[link] += weight * route.nbytes
        return carried

    @property
    def started(self) -> int:
        """Activities started so far [count]."""
        return self._started

    @property
    def in_flight(self) -> list[Transfer]:
        """The activities not yet complete, in the order they started."""
        routes = [*self._routes.values(), self._nowhere]
        return sorted((transfer for route in routes for transfer in route.flying), key=_number)

    def check(self) -> None:
        """Raise a `SimulationError` that names what broke a law of the network.

        All activities are complete, each delivered what was asked of it, and no link carried more
        than its capacity (both to 1e-9, beside the resolution of the clock).
        """
        for problem in (
            self._unfinished(),
            self._bytes_missing(),
            self._overloaded(),
            self._claims_left(),
        ):
            if problem:
                raise SimulationError(problem)

    def _unfinished(self) -> str:
        flying = self.in_flight
        if not flying:
            return ""
        names = ", ".join(f"{t.traffic.name!r}" for t in islice(flying, 5))
        more = f" and {len(flying) - 5} more" if len(flying) > 5 else ""
        return f"network: still in flight at {self._env.now:.9g} s: {names}{more}"

    def _bytes_missing(self) -> str:
        if self._short:
            first = self._short[0]
            return (
                f"network: {first.traffic.name!r} delivered {first.delivered:.12g} B "
                f"of {first.traffic.nbytes:.12g} B ({len(self._short)} such)"
            )
        if abs(self.bytes_asked - self.bytes_delivered) > self._allowance:
            return (
                f"network: all activities together delivered {self.bytes_delivered:.12g} B "
                f"of {self.bytes_asked:.12g} B"
            )
        return ""

    def _overloaded(self) -> str:
        if self.worst_load <= 1 + TOLERANCE:
            return ""
        return f"network: link {self._worst_link} ran at {self.worst_load:.9g} of its capacity"

    def _claims_left(self) -> str:
        for link, claimed in enumerate(self._claimed):
            if claimed:
                return f"network: link {link} is idle but {claimed / FULL:.3g} of it is claimed"
        return ""


def _crossings(
    classes: dict[Route, list[Transfer]], place: dict[int, int]
) -> tuple[list[list[int]], list[list[float]]]:
    """Return for each class the places of its crowded links, and how many flows cross them."""
    links: list[list[int]] = []
    weights: list[list[float]] = []
    for route, members in classes.items():
        count = len(members)
        its_links: list[int] = []
        its_weights: list[float] = []
        for link, weight in zip(route.links, route.weights, strict=True):
            if link in place:
                its_links.append(place[link])
                its_weights.append(weight * count)
        links.append(its_links)
        weights.append(its_weights)
    return links, weights


def _number(transfer: Transfer) -> int:
    return transfer.number
