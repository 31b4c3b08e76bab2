"""Replications of a run with failures: every second of each is accounted for.

    |-- t --|C|-- t --|C|-- lost --x-- waiting --|-- restarting --|-- t --|C|

Each cause of failures is a renewal process in elapsed time, and so are planned stops.  Between two
events a replication needs no clock of its own: the numbers of saves, of useful and of lost seconds
follow from the time between them.  All replications advance together, one event of each at a time,
as arrays.
"""

from collections.abc import Sequence
from math import inf
from typing import Final

import numpy as np

from clustersim.arrays import Booleans, Floats, Integers
from clustersim.failures.causes import FailureCause
from clustersim.records import dataclass

ACCOUNTS: Final = ("useful", "lost", "saving", "restarting", "waiting", "planned")
"""Where the time of a run goes; the sums of each replication are its elapsed time."""

ROUNDING: Final = 1e-9
"""Share of an interval or step by which it may be missed through rounding."""

NEVER: Final = 1e15
"""Time after the end of every run [s]."""

MAX_EVENTS: Final = 20_000
"""Events of a replication after which its rest is extrapolated from the work until then."""


@dataclass(frozen=True)
class PlannedStop:
    """A stop that is planned, after a save.

    Attributes
    ----------
    every : elapsed time between two of them [s]
    length : of the stop, with its restart [s]
    """

    every: float
    length: float


@dataclass(frozen=True)
class NodeReplacement:
    """How a failed node is replaced.

    Attributes
    ----------
    spares : hot spare nodes, which replace a node at once [count]
    repair : time after which a failed node is a spare again [s]
    provision : time to get a node from outside the spares; infinite if there is none [s]
    idle : share of the job that waits for a node [unitless]
    """

    spares: int = 0
    repair: float = 0.0
    provision: float = inf
    idle: float = 1.0


@dataclass(frozen=True)
class LongRun:
    """A run of many steps, with saves, failures and planned stops.

    Attributes
    ----------
    work : useful work [s]
    interval : of useful work between two saves [s]
    block : time for which a save blocks the work [s]
    causes : of failures
    more : planned time for each second of useful work, such as evaluations [unitless]
    start : planned time before the first step [s]
    step : useful work after which a replica has its state [s]
    lag : time from the end of a save's block until it is durable, before a planned stop [s]
    """

    work: float
    interval: float
    block: float
    causes: tuple[FailureCause, ...] = ()
    more: float = 0.0
    start: float = 0.0
    step: float = 1.0
    lag: float = 0.0
    stop: PlannedStop | None = None
    replacement: NodeReplacement = NodeReplacement()


@dataclass(frozen=True)
class Replicated:
    """Replications of a run.

    Attributes
    ----------
    elapsed : of each replication [s]
    accounts : of each replication, by name in `ACCOUNTS` [s]
    failures : of each replication, by cause in the order of the run [count]
    stops : planned stops of each replication [count]
    history : of the first replication, the seconds by account between two events; a row for each
    extrapolated : replications that have more than `MAX_EVENTS` events [count]
    """

    elapsed: Floats
    accounts: dict[str, Floats]
    failures: Floats
    stops: Floats
    history: Floats
    extrapolated: int = 0

    @property
    def goodput(self) -> Floats:
        """Useful over elapsed time of each replication [unitless]."""
        return self.accounts["useful"] / self.elapsed


def replicate_run(run: LongRun, count: int, seed: int = 0) -> Replicated | None:
    """Return replications of a run, each with random numbers of its own.

    None where one of them has no useful work after `MAX_EVENTS` events.
    """
    replications = _Replications(run, count, seed)
    for _ in range(MAX_EVENTS):
        if not replications.active.any():
            break
        replications.advance()
    return replications.result()


class _Replications:
    """All replications of a run up to an event of each."""

    def __init__(self, run: LongRun, count: int, seed: int) -> None:
        self.run = run
        self._rng = np.random.default_rng([seed, count])
        self._rows = np.arange(count)
        self.active: Booleans = np.ones(count, dtype=np.bool_)
        self._now = np.full(count, run.start)
        self._done = np.zeros(count)  # useful work that is saved
        self._carried = np.zeros(count)  # useful work since the last save that a replica holds
        self._wait, self._restart = np.zeros(count), np.zeros(count)  # before work resumes
        self._accounts = {name: np.zeros(count) for name in ACCOUNTS}
        self._accounts["planned"] += run.start
        self._failures = np.zeros((count, len(run.causes)))
        self._stops = np.zeros(count)
        self._pool = np.zeros((count, run.replacement.spares))  # when each spare is ready
        self._history: list[list[float]] = []
        self._by_cause(run.causes)
        self._next = self._now[:, None] + self._gaps((count, len(run.causes) + 1))

    def _by_cause(self, causes: Sequence[FailureCause]) -> None:
        """Set the properties of causes as arrays, planned stops the last of them."""
        stop = self.run.stop
        self._scale = np.array([*(cause.scale for cause in causes), stop.every if stop else inf])
        self._shape = np.array([*(1 / cause.shape for cause in causes), 0.0])
        self._restarts = np.array([*(cause.restart for cause in causes), 0.0])
        self._lags = np.array([*(cause.lag for cause in causes), 0.0])
        self._replaces = np.array([*(cause.replaces for cause in causes), False])
        self._by_step = np.array([*(cause.by_step for cause in causes), False])

    def _gaps(self, shape: tuple[int, int]) -> Floats:
        """Return the times until the first event of each cause."""
        drawn = self._rng.standard_exponential(shape)
        return np.asarray(self._scale * drawn**self._shape)

    def advance(self) -> None:
        """Advance each replication to its next event, or to its end."""
        which = self._next.argmin(axis=1)
        coming = np.clip(self._next[self._rows, which], self._now, NEVER)
        event = np.where(self.active, coming, self._now)
        gap = event - self._now
        waited = np.minimum(gap, self._wait)
        restarted = np.minimum(gap - waited, self._restart)
        runs = gap >= self._wait + self._restart
        spans = np.where(runs, gap - waited - restarted, 0.0)
        changes = dict.fromkeys(ACCOUNTS, np.zeros_like(gap))
        changes |= {"waiting": waited, "restarting": restarted}
        ends = self.active & runs & (spans >= self._needed())
        self._end(ends, changes, waited + restarted)
        self._interrupt(self.active & ~ends, which, event, runs, spans, changes)
        self.active &= ~ends
        self._next[ends] = NEVER

    def _needed(self) -> Floats:
        """Return the time until the work is done and saved, from the last event on."""
        remaining, stretch = self.run.work - self._done, 1 + self.run.more
        needed = remaining * stretch + self._saves() * self.run.block - self._carried * stretch
        return np.asarray(needed)

    def _saves(self) -> Floats:
        """Return the number of saves until the end, where the last one is."""
        return np.ceil((self.run.work - self._done) / self.run.interval - ROUNDING)

    def _end(self, ends: Booleans, changes: dict[str, Floats], down: Floats) -> None:
        """Complete some replications."""
        remaining = self.run.work - self._done
        completed = {
            "useful": remaining,
            "planned": remaining * self.run.more,
            "saving": self._saves() * self.run.block,
        }
        for name in ("waiting", "restarting"):
            completed[name] = changes[name]
        self._now = np.where(ends, self._now + down + self._needed(), self._now)
        self._account(ends, completed)

    def _account(self, chosen: Booleans, seconds: dict[str, Floats]) -> None:
        """Add seconds to the accounts of some replications."""
        for name, added in seconds.items():
            self._accounts[name] += np.where(chosen, added, 0.0)
        if chosen[0]:
            self._history.append(
                [float(seconds[name][0]) if name in seconds else 0.0 for name in ACCOUNTS]
            )

    def _interrupt(
        self,
        chosen: Booleans,
        which: Integers,
        event: Floats,
        runs: Booleans,
        spans: Floats,
        changes: dict[str, Floats],
    ) -> None:
        """Interrupt some replications by a failure or a planned stop."""
        run, stretch = self.run, 1 + self.run.more
        cycle = run.interval * stretch + run.block
        since = spans + self._carried * stretch  # in cycles that began with the last save
        cycles = np.floor(since / cycle)
        into = since - cycles * cycle
        last = (run.work - self._done - cycles * run.interval) * stretch
        worked = np.minimum(np.minimum(into, run.interval * stretch), last)
        saved = into - worked  # of a save that is not complete
        stops = which == len(run.causes)
        steps = np.floor(worked / stretch / run.step + ROUNDING) * run.step
        steps = np.where(runs, np.minimum(steps, worked / stretch), self._carried)
        replicated = np.where(self._by_step[which], steps, 0.0)
        durable = cycles - ((cycles > 0) & (into < self._lags[which]) & ~self._by_step[which])
        useful = durable * run.interval + np.where(stops, worked / stretch, 0.0)
        rest = np.where(stops & runs, run.block + run.lag - saved, 0.0)
        length = np.where(stops, 0.0 if run.stop is None else run.stop.length, 0.0)
        self._account(
            chosen,
            changes
            | {
                "useful": useful,
                "lost": (cycles - durable) * run.interval * stretch
                + np.where(stops, 0.0, worked - replicated * stretch),
                "saving": cycles * run.block + saved + rest,
                "planned": useful * run.more + length,
            },
        )
        self._done = np.where(chosen, self._done + useful, self._done)
        self._carried = np.where(chosen, replicated, self._carried)
        self._now = np.where(chosen, event + rest + length, self._now)
        left = np.where(stops & ~runs, self._restart - changes["restarting"], 0.0)
        self._restart = np.where(chosen, self._restarts[which] + left, self._restart)
        self._wait = np.where(chosen, self._waits(chosen, which, event, changes), self._wait)
        self._renew(chosen, which)

    def _waits(
        self, chosen: Booleans, which: Integers, event: Floats, changes: dict[str, Floats]
    ) -> Floats:
        """Return the time for which replications wait for a node, and take a spare for it."""
        policy = self.run.replacement
        before = self._wait - changes["waiting"]
        outside = min(policy.provision, policy.repair) * policy.idle
        replaced = chosen & self._replaces[which]
        if not policy.spares:
            return np.maximum(before, np.where(replaced, outside, 0.0))
        spare = self._pool.argmin(axis=1)
        ready = np.maximum(self._pool[self._rows, spare] - event, 0.0) * policy.idle
        taken = replaced & (ready <= policy.provision)
        self._pool[self._rows[taken], spare[taken]] = event[taken] + policy.repair
        wait = np.minimum(ready, policy.provision)
        return np.maximum(before, np.where(replaced, wait, 0.0))

    def _renew(self, chosen: Booleans, which: Integers) -> None:
        """Draw the next event of the cause that struck, and count it."""
        drawn = self._rng.standard_exponential(len(which))
        gaps = self._scale[which] * drawn ** self._shape[which]
        rows = self._rows[chosen]
        self._next[rows, which[rows]] = self._now[rows] + gaps[rows]
        stops = which[rows] == len(self.run.causes)
        self._stops[rows[stops]] += 1
        failed = rows[~stops]
        self._failures[failed, which[failed]] += 1

    def result(self) -> Replicated | None:
        """Return the replications, of which those that are still active are extrapolated."""
        useful = self._accounts["useful"]
        if not useful.all():
            return None
        longer = np.where(self.active, self.run.work / useful, 1.0)
        return Replicated(
            elapsed=self._now * longer,
            accounts={name: seconds * longer for name, seconds in self._accounts.items()},
            failures=self._failures * longer[:, None],
            stops=self._stops * longer,
            history=np.array(self._history),
            extrapolated=int(self.active.sum()),
        )
