"""The network: owner of all links, which gives every activity its rate at every instant.

An activity waits its latency, then its equal flows share links with all others by max-min fairness
(`fairness`) until its bytes are delivered.  Nearly all activities are uncontended, and these need
no solve:

    uncontended -------------------------> done     one event, no solve
      |   a new activity contends with it    ^
      v                                      |
    waiting ------> shared ------------------'      solved when an activity starts or ends
    (latency)       (bytes)

*Demands.*  Each activity in flight has a demand on each of its links, the most it could take there:
weight times its uncontended rate.  Where the demands on a link stay within its capacity the link
limits no activity.  An activity whose links are all like that runs at its uncontended rate,
exactly, and its end follows from its start.  A link whose demands exceed its capacity is
*contended*; only contended links enter a solve, and only the activities that they connect.

*Three ways to solve.*  A small component of activities connected by contended links is solved
transfer by transfer (`scalar_solver`).  In a larger one the rates that a change concerns are
solved, and the others are checked (`local_rates`).  Where changes concern many in the mean, the
component is solved in arrays (`array_solver`).

*Instants.*  All starts and ends of one instant are collected and settled together, after all other
events of the instant; rates are solved once.  A single timer is set to the next end of the shared
activities.  An event that is obsolete does nothing when it fires; it may move the clock past the
last completion, so take times from `done`, not from the final clock.

*Self-checks.*  `Conservation` sums bytes and loads independently; `check` compares.
"""

from collections.abc import Callable, Hashable, Sequence
from math import inf, isfinite, ulp
from typing import Any, NamedTuple, cast

from simpy import Environment
from simpy.events import NORMAL, Event, Timeout

from clustersim.engine.clock import CONTINUOUS, LAST, TimeGrid
from clustersim.engine.network.array_solver import ArraySolver
from clustersim.engine.network.checks import Conservation
from clustersim.engine.network.local_rates import LocalRates
from clustersim.engine.network.scalar_solver import ScalarSolver
from clustersim.engine.network.transfer import (
    DONE,
    LIMIT,
    SHARED,
    UNCONTENDED,
    WAITING,
    RouteTable,
    Transfer,
    by_number,
)
from clustersim.errors import SimulationError
from clustersim.traffic import Traffic

FEW_CROSSINGS = 24
"""Components of up to this number of (transfer, contended link) pairs are solved whole."""

MANY_CROSSINGS = 200
"""Components of more may be solved in arrays, as measured by `benchmarks/network.py`."""

MANY_CONCERNED = 40
"""Crossings that a change concerns in the mean, above which they are."""

LATEST = 0.02
"""Weight of the latest change in that mean: one gather over all replicas does not decide."""

FEW_MEMBERS = 8
"""The array solver returns its transfers to the scalar solver when this number remains."""

CLOCK_ULPS = 4.0
"""Without a grid, instants closer than this number of units in the last place of the clock are the
same."""


class Totals(NamedTuple):
    """What a network has counted: activities, totals of `Conservation`, and bytes by route."""

    started: int
    counted: tuple[float, ...]
    nbytes: tuple[float, ...]


class Network:
    """Directed links of fixed capacity [B/s] and the activities that share them.

    `settled` is called whenever rates may have changed, with the new ones in place; durations are
    rounded to `grid`.  Only `limiting` links can limit transfers, all where these are left out.
    It is itself the event at the end of an instant: one at a time is pending.
    `contended` has all links whose demands ever exceeded their capacity.

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

    _ok = True

    def __init__(
        self,
        env: Environment,
        capacities: Sequence[float],
        settled: Callable[[], object] = lambda: None,
        grid: TimeGrid = CONTINUOUS,
        limiting: frozenset[int] | None = None,
    ) -> None:
        self._env = env
        self._settled = settled
        self._grid = grid
        # Also takes a transfer, which is its own event while uncontended.
        self._schedule: Any = env.schedule
        # One list for all: SimPy only reads it.
        self._callbacks: list[Callable[[Transfer], None]] = [self._finish_uncontended]
        self.capacities = [float(capacity) for capacity in capacities]
        assert all(isfinite(c) and c > 0 for c in self.capacities), "positive capacities"
        self.routes = RouteTable(self.capacities, limiting)
        self.contended: set[int] = set()
        self._started = 0
        # Transfers that share links; the starts of this instant, and full links of its ends.
        self._scalar = ScalarSolver(self.capacities, grid)
        self._array = ArraySolver(self.capacities, grid)
        self._timer: Event | None = None
        self._timer_end = inf
        self._starting: list[Transfer] = []
        self._relieved: dict[int, None] = {}
        self._settling = False
        self.callbacks: list[Callable[[Network], None]] | None = None
        self._when_settling: list[Callable[[Network], None]] = [self._settle]
        self._concerned = 0.0  # crossings that a change in a large component concerns, in the mean
        self.conservation = Conservation(grid.step)

    # --- starting -------------------------------------------------------------------------------

    def start(self, traffic: Traffic, done: Callable[[Transfer], None]) -> Transfer:
        """Start an activity now; `done` is called with its transfer when it completes.

        Activities without bytes, or without links and cap, complete after their latency.
        """
        _, links, weights, nbytes, latency, cap = traffic
        route = self.routes.by_key.get((links, weights, cap)) or self.routes.add(traffic)
        if not nbytes or route.rate == inf:
            return self._deliver_after_latency(traffic, done)
        self._started = number = self._started + 1
        self.conservation.sent += nbytes
        magnitude = self._grid.magnitude  # rounds to the grid, see `TimeGrid`
        now = self._env._now  # a property costs as much as this line
        begin = now + (latency + magnitude - magnitude)
        transfer = Transfer(
            traffic, route, done, number, now, begin, self._callbacks, route.rate, begin
        )
        self.routes.in_flight[transfer] = None
        demands, on_link = self.routes.demands, self.routes.on_link
        contended = False
        for link, share in route.demands:
            on_link[link][transfer] = None
            demands[link] = total = demands[link] + share
            if total > LIMIT:
                contended = True
                self.contended.add(link)
        if contended:
            self._wait(transfer, latency + magnitude - magnitude)
        else:
            seconds = latency + nbytes / route.rate + magnitude - magnitude
            self._schedule(transfer, NORMAL, seconds)
        return transfer

    def _deliver_after_latency(
        self, traffic: Traffic, done: Callable[[Transfer], None]
    ) -> Transfer:
        """Start an activity without a finite rate: its bytes are delivered after the latency."""
        assert traffic.nbytes >= 0
        self._started += 1
        self.conservation.sent += traffic.nbytes
        latency = self._grid.round(traffic.latency)
        now = self._env.now
        route = self.routes.without_links
        begin, delivered = now + latency, traffic.nbytes
        transfer = Transfer(
            traffic, route, done, self._started, now, begin, self._callbacks, 0.0, begin, delivered
        )
        self.routes.in_flight[transfer] = None
        self._schedule(transfer, NORMAL, latency)
        return transfer

    def _wait(self, transfer: Transfer, latency: float) -> None:
        """Wait for the latency before the transfer shares links."""
        transfer.phase = WAITING
        transfer.rate = 0.0
        if latency:
            event = Timeout(self._env, latency, transfer)
            event.callbacks.append(self._end_latency)
        else:
            self._begin_sharing(transfer)

    def _end_latency(self, event: Event) -> None:
        self._begin_sharing(cast(Transfer, event.value))

    def _begin_sharing(self, transfer: Transfer) -> None:
        self._starting.append(transfer)
        self._settle_soon()

    # --- completing -----------------------------------------------------------------------------

    def _finish_uncontended(self, transfer: Transfer) -> None:
        if transfer.phase == UNCONTENDED:
            self._complete(transfer)

    def _finish_shared(self, event: Event) -> None:
        """Complete all shared transfers that end now, and settle the rates of the others."""
        if event is not self._timer:
            return
        now = self._env.now
        same_instant = now + (0.0 if self._grid.step else CLOCK_ULPS * ulp(now))
        ended = self._scalar.take_ended(same_instant)
        self._relieved |= self.routes.full_links(ended)
        if self._array.size:
            ended += self._array.take_ended(same_instant)
            ended.sort(key=lambda transfer: (transfer.end, transfer.number))
        for transfer in ended:
            self._complete(transfer)
        self._timer = None
        self._settle_soon()

    def _complete(self, transfer: Transfer) -> None:
        """Release the demands of a transfer, count its bytes, and call `done`."""
        self.conservation.count_end(transfer, self._env._now)
        transfer.phase = DONE
        route = transfer.route
        route.nbytes += transfer.traffic.nbytes
        del self.routes.in_flight[transfer]
        demands, on_link = self.routes.demands, self.routes.on_link
        for link, share in route.demands:
            del on_link[link][transfer]
            demands[link] -= share
        transfer.done(transfer)

    # --- sharing --------------------------------------------------------------------------------

    def _settle_soon(self) -> None:
        """Settle rates once for this instant, after all its other events."""
        if self._settling:
            return
        self._settling = True
        self.callbacks = self._when_settling
        self._schedule(self, LAST)

    def _settle(self, _: "Network") -> None:
        """Update the rates of all transfers that this instant's starts and ends affect."""
        self._settling = False
        now = self._env.now
        starting, self._starting = self._starting, []
        relieved, self._relieved = self._relieved, {}
        for transfer in starting:
            transfer.phase = SHARED
            transfer.since = now
            self._scalar.add(transfer)
        if 0 < self._array.size <= FEW_MEMBERS:
            for transfer in self._array.release_all():
                self._scalar.add(transfer)
                starting.append(transfer)
        affected = dict.fromkeys([*self.routes.sharing(relieved), *starting])
        if affected:
            self._solve(affected, dict.fromkeys(starting), relieved)
        if self._array.changed:
            self.conservation.count_solve(*self._array.solve(now))
        self._set_timer()
        self._settled()

    def _solve(
        self,
        affected: dict[Transfer, None],
        changed: dict[Transfer, None],
        relieved: dict[int, None],
    ) -> None:
        """Solve the rates of the transfers that are connected to those affected by a change.

        Parameters
        ----------
        changed : transfers that have no rate
        relieved : full links that transfers have left
        """

        def share(transfer: Transfer) -> None:
            self._start_sharing(transfer)
            if transfer.unsolved:
                changed[transfer] = None

        component = self.routes.component(affected, share, FEW_CROSSINGS)
        if component is None and self._concerned <= MANY_CONCERNED:
            local = LocalRates(self.routes, self.capacities, changed, relieved, share)
            if not local.in_arrays:
                self._set_rates(local)
                return
        component = component or self.routes.component(affected, share)
        assert component is not None, "a component without a limit"
        if component.in_arrays or component.crossings > MANY_CROSSINGS:
            self._concerned = 0.0
            self._scalar.remove(component.transfers)
            self._array.add(component.transfers)
        else:
            solved = self._scalar.solve(component.transfers, component.contended, self._env.now)
            self.conservation.count_solve(*solved)

    def _set_rates(self, local: LocalRates) -> None:
        """Set the rates of the transfers that a change concerns."""
        self._concerned += LATEST * (local.crossings - self._concerned)
        self.conservation.count_solve(*local.worst)
        for transfer in sorted(local.rates, key=by_number):
            self._scalar.set_rate(transfer, local.rates[transfer], self._env.now)

    def _start_sharing(self, transfer: Transfer) -> None:
        """Make an uncontended transfer shared, after the rest of its latency."""
        remaining = transfer.begin - self._env.now
        if remaining > 0:
            self._wait(transfer, remaining)
            return
        transfer.phase = SHARED
        self._scalar.add(transfer)

    # --- the next end of shared transfers -------------------------------------------------------

    def _set_timer(self) -> None:
        """Set the timer to the next end; a timer that was set before becomes obsolete."""
        end = min(self._scalar.next_end(), self._array.next_end())
        if end == inf:
            self._timer = None
            return
        if self._timer is not None and self._timer_end == end:
            return
        self._timer_end = end
        self._timer = timer = Timeout(self._env, max(0.0, end - self._env.now))
        timer.callbacks.append(self._finish_shared)

    # --- queries --------------------------------------------------------------------------------

    def rate(self, transfer: Transfer) -> float:
        """Return the present rate of one flow of a transfer in flight [B/s].

        A transfer may not have its rate yet at the instant of its start.
        """
        return transfer.rate if transfer.row < 0 else self._array.rate(transfer)

    # --- the same state later ---------------------------------------------------------------------

    def state(
        self, since: float, name: Callable[[Transfer], Hashable]
    ) -> tuple[Hashable, ...] | None:
        """Return the state of all transfers in flight, with instants counted from `since`.

        Networks of equal state behave alike from then on.  None where this is not determined:
        between the events of one instant, and while the array solver holds transfers.
        """
        if self._settling or self._array.size:
            return None
        timer = self._timer_end - since if self._timer is not None else None
        return (
            timer,
            len(self.routes.by_key),
            *(t.state(since, name) for t in self.routes.in_flight),
        )

    def name_of_event(
        self, event: Any, name: Callable[[Transfer], Hashable]
    ) -> tuple[str, Hashable] | None:
        """Return what an event is, by its transfer; None for an obsolete event of this network."""
        if isinstance(event, Transfer):
            return ("end", name(event)) if event.phase == UNCONTENDED else None
        if event.callbacks == [self._end_latency]:
            return "latency", name(event.value)
        if event.callbacks == [self._finish_shared]:
            return ("next end", None) if event is self._timer else None
        return "other", id(event)

    def postpone(self, seconds: float) -> None:
        """Move all transfers in flight to a later time; the clock moves their events."""
        for transfer in self.routes.in_flight:
            transfer.postpone(seconds)
        self._scalar.postpone(seconds)
        self._timer_end += seconds

    # --- totals ---------------------------------------------------------------------------------

    @property
    def solves(self) -> int:
        """Times that the rates of contended links were solved [count]."""
        return self.conservation.solves

    @property
    def started(self) -> int:
        """Activities started so far [count]."""
        return self._started

    def totals(self) -> Totals:
        """Return what was counted so far."""
        routes = tuple(route.nbytes for route in self.routes.by_key.values())
        return Totals(self._started, self.conservation.counted(), routes)

    def count_repeated(self, before: Totals, periods: int) -> None:
        """Count what was counted since `before` as often as its period is repeated."""
        self._started += periods * (self._started - before.started)
        self.conservation.count_repeated(before.counted, periods)
        for route, nbytes in zip(self.routes.by_key.values(), before.nbytes, strict=True):
            route.nbytes += periods * (route.nbytes - nbytes)

    def check(self) -> None:
        """Raise a `SimulationError` with the first law of the network that is violated.

        All activities are complete, each delivered its bytes, and no link carried more than its
        capacity (both to 1e-9 and the resolution of the clock).
        """
        violations = self.conservation.violations(
            self.routes.in_flight, self.routes.demands, self._env.now
        )
        for violation in violations:
            raise SimulationError(violation)
