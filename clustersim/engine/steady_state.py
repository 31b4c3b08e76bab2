"""Steady state: periods of a pipeline that repeat exactly are derived, not run.

In the part of a schedule where the same codes repeat, each instant of a period is that of the
period before plus a time that stays the same, once the start of the step has worn off:

    period      k - 1      k          k + 1 ... k + j
    an instant  x          x + d      x + d + j d

Ranks are run period by period until the last periods follow such lines, which on the grid of
instants are exact.  The next ones follow them as long as each maximum keeps its winner: a block
begins when its rank is free or when its input arrives, a transfer departs when its result is
computed or when its channel is free.  Two lines cross at most once, so that the number of periods
with these winners is known; they are filled in, and the replay continues behind them.  Ranks may
have different d: a stage that waits for none is ahead of a slower one by more in each period.

Where transfers go through the network, all d must be equal, and all ranks and the network must be
in the same state after a period as before it.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from clustersim.engine.direct_replay import Departure, DirectRank, DirectReplay
from clustersim.engine.network.network import Totals
from clustersim.engine.network.transfer import Transfer
from clustersim.engine.period_lines import PeriodLines
from clustersim.program.schedules.steps import Numbers, Order, Repetition
from clustersim.timeline import Floats

LEAST_PERIODS = 8
"""Repetitions of fewer periods are run: the first ones are not steady, and four are compared."""

MOST_IN_CYCLE = 2
"""Periods, for each stage, after which at most the ranks are compared: where the slowest circuit
of waits spans several microbatches, periods repeat in cycles of as many."""

LEAST_STEPS = 512
"""Steps of all ranks that are worth the comparison of their last periods; fewer are run."""

MOST_WAIT = 31
"""Periods after which the comparison is repeated at the latest, where the last ones failed."""


def skip_repeated_periods(replay: DirectReplay) -> None:
    """Run a replay through the repetitions of its steps, deriving the periods that repeat.

    Where no transfers go through the network, replica classes have nothing in common before the
    end of their steps, and are run one after another.
    """
    stages = replay.program.stages
    groups = [replay.ranks[at : at + stages] for at in range(0, len(replay.ranks), stages)]
    for ranks in [replay.ranks] if replay.shared else groups:
        if all(rank.actor.repeats for rank in ranks):
            for parts in common_repetitions(replay.program.order):
                _Repetition(replay, ranks, parts).run()


def repeats(order: Order) -> bool:
    """Return whether an order has repetitions of which periods may be derived."""
    return any(True for _ in common_repetitions(order))


def common_repetitions(order: Order) -> Iterator[list[Repetition]]:
    """Yield the repetitions of the same codes on all stages, one of each stage, in order."""
    by_stage = [
        {_period_of(codes, part): part for part in sorted(parts, key=_length)}
        for codes, parts in zip(order.of, order.repetitions, strict=True)
    ]
    for period in sorted(by_stage[0], key=lambda period: by_stage[0][period].start):
        common = [of_stage[period] for of_stage in by_stage if period in of_stage]
        if len(common) == len(by_stage) and _length(min(common, key=_length)) >= LEAST_PERIODS:
            yield common


def _length(part: Repetition) -> float:
    """Return the length of a repetition in periods."""
    return (part.stop - part.start) / part.steps


def _period_of(codes: Numbers, part: Repetition) -> tuple[frozenset[int], int, int]:
    """Return the codes, steps and shift of a period, which are equal on all stages."""
    return frozenset(codes[part.start : part.start + part.steps].tolist()), part.steps, part.shift


class _Boundary(NamedTuple):
    """The ranks and the network between two periods.

    Attributes
    ----------
    at : next step of each rank
    now : when each rank is free [s]
    state : of all that goes through the network; None where it cannot be compared
    totals : what the network has counted; None without transfers through it
    """

    at: Numbers
    now: Floats
    state: Hashable = None
    totals: Totals | None = None


class _Repetition:
    """One repetition of a group of ranks.

    Attributes
    ----------
    steps, shift : of one period, as in `Repetition`
    start, stop : of the repetition, by rank; it ends before steps that complete gradients
    period : periods that the ranks have been through
    """

    def __init__(
        self, replay: DirectReplay, ranks: Sequence[DirectRank], parts: Sequence[Repetition]
    ) -> None:
        self.replay, self.ranks = replay, ranks
        self.steps, self.shift = parts[0].steps, parts[0].shift
        self.table = replay.codes.of_ranks([rank.number for rank in ranks])
        self.period = 0
        starts, stops = [], []
        for row, rank in enumerate(ranks):
            part = parts[rank.actor.position.stage]
            # Concurrent steps are not separated.
            starts.append(part.start + int(self.table.follows[row, rank.codes[part.start]]))
            stops.append(min([part.stop, *(at for at in rank.completing if at >= part.start)]))
        self.start, self.stop = np.array(starts), np.array(stops)

    def run(self) -> None:
        """Run the ranks through the periods, and skip those that follow lines."""
        boundaries: list[_Boundary] = []
        next_attempt = wait = 0
        compared = 2 * MOST_IN_CYCLE * self.replay.program.stages
        while ((stops := self.start + self.period * self.steps) <= self.stop).all():
            for rank, stop in zip(self.ranks, stops.tolist(), strict=True):
                rank.stop = stop
            self.replay.settle(self.ranks, clock=bool(self.replay.shared))
            boundaries = [*boundaries[-compared:], self._boundary()]
            if self.period >= next_attempt and (cycle := self._cycle(boundaries)):
                if self._skip(boundaries[-1 - cycle], boundaries[-1], cycle):
                    boundaries, wait = [], 0
                else:
                    wait = min(2 * wait + 1, MOST_WAIT)
                next_attempt = self.period + wait
            self.period += 1

    # --- comparing periods -----------------------------------------------------------------------

    def _boundary(self) -> _Boundary:
        at = np.array([rank.at for rank in self.ranks])
        now = np.array([rank.now for rank in self.ranks])
        if not self.replay.shared:
            return _Boundary(at, now)
        return _Boundary(at, now, self._state(float(now[0])), self.replay.network.totals())

    def _cycle(self, boundaries: Sequence[_Boundary]) -> int:
        """Return after how many periods all ranks are free as much later each time; 0 for none."""
        later = -np.diff([boundary.now[0] for boundary in boundaries[::-1]])
        for cycle in range(1, len(later) // 2 + 1):
            if later[0] != later[cycle] or (later[:cycle] != later[cycle : 2 * cycle]).any():
                continue
            early, before, last = (boundaries[-1 - times * cycle] for times in (2, 1, 0))
            advanced = (last.at - before.at == cycle * self.steps).all()
            if advanced and np.array_equal(last.now - before.now, before.now - early.now):
                return cycle
        return 0

    def _state(self, since: float) -> Hashable:
        """Return the state of all that goes through the network; None where it is unknown.

        Instants are counted from `since`, steps and addresses from the present period.
        """
        network = self.replay.network
        transfers = network.state(since, self._name_of_transfer)
        if transfers is None:
            return None
        events = []
        for instant, priority, _, event in sorted(self.replay.env._queue, key=lambda e: e[:3]):
            if isinstance(event, Departure):
                name: Hashable = self._name(event, since)
            else:
                name = network.name_of_event(event, self._name_of_transfer)
            if name is not None:
                events.append((instant - since, priority, name))
        ranks = tuple(self._state_of(rank, since) for rank in self.ranks)
        return transfers, tuple(events), ranks

    def _name(self, departure: Departure, since: float) -> Hashable:
        """Return a name of a transfer that is the same in each period."""
        target = departure.target - self.shift * self.period
        return departure.rank.number, departure.code, target, departure.computed - since

    def _name_of_transfer(self, transfer: Transfer) -> Hashable:
        owner = getattr(transfer.done, "__self__", None)
        if isinstance(owner, Departure):
            return self._name(owner, transfer.departure)
        return "other", transfer.number

    def _state_of(self, rank: DirectRank, since: float) -> Hashable:
        now = 0.0 if rank.sending else rank.now - since
        busy = tuple(max(0.0, free - rank.now) for free in rank.channel)
        queues = tuple(tuple(self._name(d, since) for d in queue) for queue in rank.outgoing)
        awaited = -1 if rank.awaited < 0 else rank.awaited - self.shift * self.period
        return rank.sending, now, busy, awaited, queues

    # --- skipping periods ------------------------------------------------------------------------

    def _skip(self, before: _Boundary, last: _Boundary, cycle: int) -> bool:
        """Derive the next cycles of periods from the last ones; return whether there were any."""
        steps, shift = cycle * self.steps, cycle * self.shift
        most = int(((self.stop - last.at) // steps).min())
        if (
            most * steps * len(self.ranks) < LEAST_STEPS
            or (last.at - 3 * steps - 1 < self.start).any()
        ):
            return False
        lines = PeriodLines(self.replay, self.ranks, self.table, last.at, steps, shift)
        later = last.now - before.now
        slope = float(later[0]) if self.replay.shared else None
        periods = self._periods(lines, before, last, most)
        if periods * steps * len(self.ranks) < LEAST_STEPS:
            return False
        lines.extend(periods, slope)
        busy = periods * lines.channel_slopes()
        for rank, seconds, channels in zip(self.ranks, later.tolist(), busy.tolist(), strict=True):
            rank.skip(periods * steps, periods * seconds, channels)
        if slope is not None and before.totals is not None:
            self._postpone(periods * shift, periods * slope)
            self.replay.network.count_repeated(before.totals, periods)
        self.period += periods * cycle
        return True

    def _periods(self, lines: PeriodLines, before: _Boundary, last: _Boundary, most: int) -> int:
        """Return how many periods follow the last one, up to a number."""
        if not self.replay.shared:
            return lines.periods(most) if lines.straight() else 0
        later = last.now - before.now
        if before.state is None or before.state != last.state or (later != later[0]).any():
            return 0
        return lines.known_inputs(most, float(later[0]))

    def _postpone(self, addresses: int, seconds: float) -> None:
        """Move all that goes through the network, and the clock, to a later period."""
        replay = self.replay
        owners: list[object] = [event for _, _, _, event in replay.env._queue]
        in_flight = replay.network.routes.in_flight
        owners += [getattr(transfer.done, "__self__", None) for transfer in in_flight]
        owners += [d for rank in self.ranks for queue in rank.outgoing for d in queue]
        for departure in dict.fromkeys(owners):
            if isinstance(departure, Departure):
                departure.postpone(addresses, seconds)
        replay.network.postpone(seconds)
        replay.env.postpone(seconds)
