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

*A handful or a crowd.*  Where a few meet, the component that crowded links connect is found and
solved transfer by transfer (`handful.py`).  A component of more than `MANY_CROSSINGS` goes to the
crowd, where rows of arrays do the same (`crowd.py`).

*Instants.*  All starts and ends of one instant are gathered and settled together, after everything
else that happens then; rates are solved once.  A single timer stands at the next end of the shared
activities.  An event that was overtaken does nothing when it fires; it may move the clock past the
last completion, so take times from `done`, not from where the clock stops.

*Self-checks.*  `books.py` adds up bytes and loads on a road of its own; `check` compares.
"""

from collections.abc import Callable, Sequence
from math import inf, isfinite, ulp
from typing import Any, cast

from simpy import Environment
from simpy.events import NORMAL, Event, EventPriority, Timeout

from clustersim.engine.network.array_solver import Crowd
from clustersim.engine.network.conservation import Books
from clustersim.engine.network.scalar_solver import Handful
from clustersim.engine.network.transfer import (
    ALONE,
    DONE,
    FULL,
    SHARED,
    WAITING,
    Route,
    Transfer,
    by_number,
)
from clustersim.errors import SimulationError
from clustersim.traffic import Traffic

LAST = EventPriority(2)
"""After all normal events of the same instant."""

LIMIT = FULL + 32
"""Claims round up, so exact fits come out a few units above `FULL`; 5e-13 of it is let pass."""

MANY_CROSSINGS = 150
"""Components of more (transfer, link) pairs are faster in arrays, as measured by
`benchmarks/network.py`."""

FEW_MEMBERS = 8
"""A crowd that has shrunk to so many is a handful again."""

TIE = 1e-9
"""Relative gap below which rates, or a load and its capacity, count as equal."""

CLOCK_ULPS = 4.0
"""Instants closer than so many units in the last place of the clock are the same."""


class Network:
    """Directed links of fixed capacity [B/s] and the activities that share them.

    `settled` is called back whenever rates may have changed, with the new ones in place.

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

    def __init__(
        self,
        env: Environment,
        capacities: Sequence[float],
        settled: Callable[[], object] = lambda: None,
    ) -> None:
        self._env = env
        self._settled = settled
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
        # Who shares links, and what this instant has gathered.
        self._handful = Handful(self._capacities)
        self._crowd = Crowd(self._capacities)
        self._timer: Event | None = None
        self._timer_end = inf
        self._arrived: list[Transfer] = []
        self._left: list[Transfer] = []
        self._settling = False
        self.books = Books()

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
        self.books.asked += nbytes
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
        self.books.asked += traffic.nbytes
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
        ended = self._handful.take_ended(same_instant)
        self._left += ended
        if self._crowd.size:
            ended += self._crowd.take_ended(same_instant)
            ended.sort(key=_by_end)
        for transfer in ended:
            self._complete(transfer)
        self._timer = None
        self._settle_soon()

    def _complete(self, transfer: Transfer) -> None:
        """Give back the claims, keep the books, and tell whoever waits."""
        self.books.note_end(transfer, self._env._now)
        transfer.phase = DONE
        route = transfer.route
        route.nbytes += transfer.traffic.nbytes
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
        now = self._env.now
        arrived, self._arrived = self._arrived, []
        left, self._left = self._left, []
        touched = self._neighbours(left)
        for transfer in arrived:
            transfer.phase = SHARED
            transfer.since = now
            self._handful.join(transfer)
            touched[transfer] = None
        if 0 < self._crowd.size <= FEW_MEMBERS:
            for transfer in self._crowd.dissolve():
                self._handful.join(transfer)
                touched[transfer] = None
        if touched:
            self._share(*self._component(touched))
        if self._crowd.changed:
            self.books.note_solve(*self._crowd.settle(now))
        self._set_timer()
        self._settled()

    def _share(self, transfers: list[Transfer], crowded: list[int], meets_crowd: bool) -> None:
        """Solve a component here and now, or let it join the crowd that it meets or makes."""
        if meets_crowd or sum([len(t.route.links) for t in transfers]) > MANY_CROSSINGS:
            self._handful.hand_over(transfers)
            self._crowd.join(transfers)
        else:
            self.books.note_solve(*self._handful.solve(transfers, crowded, self._env.now))

    def _neighbours(self, left: list[Transfer]) -> dict[Transfer, None]:
        """Return the shared transfers on the links of those who left, as an ordered set."""
        return {
            transfer: None
            for link in dict.fromkeys(link for gone in left for link in gone.route.links)
            for route in self._crossing[link]
            for transfer in route.flying
            if transfer.phase == SHARED and transfer.row < 0
        }

    def _component(self, found: dict[Transfer, None]) -> tuple[list[Transfer], list[int], bool]:
        """Return all transfers that crowded links connect to those found, and these links.

        Who ran alone on such a link until now is promoted to the shared set.  The third value says
        whether members of the crowd are among those connected, who are not returned.
        """
        queue = list(found)
        crowded: dict[int, None] = {}
        meets_crowd = False
        for transfer in queue:
            for link in transfer.route.links:
                if link in crowded or self._claimed[link] <= LIMIT:
                    continue
                crowded[link] = None
                for route in self._crossing[link]:
                    for other in route.flying:
                        if other.phase == ALONE:
                            self._promote(other)
                        if other.row >= 0:
                            meets_crowd = True
                        elif other.phase == SHARED and other not in found:
                            found[other] = None
                            queue.append(other)
        queue.sort(key=by_number)
        return queue, list(crowded), meets_crowd

    def _promote(self, transfer: Transfer) -> None:
        """Take a transfer that ran alone into the shared set, or let its latency pass first."""
        latency_left = transfer.begin - self._env.now
        if latency_left > 0:
            self._wait(transfer, latency_left)
            return
        transfer.phase = SHARED
        self._handful.join(transfer)

    # --- the next end of the shared set ---------------------------------------------------------

    def _set_timer(self) -> None:
        """Have one timer stand at the next end; a timer that was overtaken is forgotten."""
        end = min(self._handful.next_end(), self._crowd.next_end())
        if end == inf:
            self._timer = None
            return
        if self._timer is not None and self._timer_end == end:
            return
        self._timer_end = end
        self._timer = timer = Timeout(self._env, max(0.0, end - self._env.now))
        timer.callbacks.append(self._finish_shared)

    # --- questions ------------------------------------------------------------------------------

    def rate(self, transfer: Transfer) -> float:
        """Return the rate of one flow of a transfer in flight, at present [B/s].

        In the instant at which it was started, a transfer may not have its rate yet.
        """
        return transfer.rate if transfer.row < 0 else self._crowd.rate(transfer)

    def held_by(self, transfer: Transfer) -> int | None:
        """Return the full link at which others hold a transfer below its own pace, if one does.

        On that link nobody is faster; of several such links, the first of the route.
        """
        rate = self.rate(transfer)
        if transfer.phase != SHARED or rate >= transfer.route.rate * (1 - TIE):
            return None
        for link in transfer.route.links:
            if self._claimed[link] > LIMIT:
                load, fastest = self._use_of(link)
                if load >= self._capacities[link] * (1 - TIE) and fastest <= rate * (1 + TIE):
                    return link
        return None

    def _use_of(self, link: int) -> tuple[float, float]:
        """Return what flows over a crowded link, and the rate of the fastest flow there [B/s]."""
        load = fastest = 0.0
        for route in self._crossing[link]:
            weight = route.weights[route.links.index(link)]
            rates = [self.rate(other) for other in route.flying if other.phase == SHARED]
            load += weight * sum(rates)
            fastest = max(fastest, max(rates, default=0.0))
        return load, fastest

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
    def solves(self) -> int:
        """Times that links had to be shared out [count]."""
        return self.books.solves

    @property
    def started(self) -> int:
        """Activities started so far [count]."""
        return self._started

    @property
    def in_flight(self) -> list[Transfer]:
        """The activities not yet complete, in the order they started."""
        routes = [*self._routes.values(), self._nowhere]
        return sorted((transfer for route in routes for transfer in route.flying), key=by_number)

    def check(self) -> None:
        """Raise a `SimulationError` that names what broke a law of the network.

        All activities are complete, each delivered what was asked of it, and no link carried more
        than its capacity (both to 1e-9, beside the resolution of the clock).
        """
        for problem in self.books.problems(self.in_flight, self._claimed, self._env.now):
            raise SimulationError(problem)


def _by_end(transfer: Transfer) -> tuple[float, int]:
    return transfer.end, transfer.number
