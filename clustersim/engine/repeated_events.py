"""Periods of an event replay that repeat exactly are derived, as `steady_state` does for others.

A period begins when the first rank class takes the same step of it.  At the end of that instant,
between two events, the state of all rank classes, of the network and of the clock is compared with
those of earlier periods: with instants counted from now, steps and addresses from the period.

    state      s(k - c)   ...   s(k) = s(k - c)   ...   s(k + j c)
    instant    x                x + d                   x + d + j d

Equal states have the same future, d later, as long as the codes of all rank classes repeat.  So
what was recorded since the earlier state is recorded again, d later each time, and all that is in
progress is moved; on the grid of instants this is exact.
"""

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from clustersim.engine.event_replay import EventRank, EventReplay
from clustersim.engine.network.network import Totals
from clustersim.engine.network.transfer import Transfer
from clustersim.engine.steady_state import common_repetitions
from clustersim.program.schedules.steps import Repetition
from clustersim.timeline import CollectiveSpan


def skip_repeated_events(replay: EventReplay) -> None:
    """Let a replay derive the periods that repeat; it must have a grid of instants."""
    program = replay.program
    if program.tensor_ranks == 1 and all(rank.actor.repeats for rank in replay.ranks):
        RepeatedEvents(replay, [*common_repetitions(program.order)])


class _State(NamedTuple):
    """What is kept of a state that was seen: its period, instant, and amounts of records."""

    period: int
    now: float
    totals: Totals
    collectives: int
    crossed: int


class RepeatedEvents:
    """The repetitions of an event replay, one after another.

    Parameters
    ----------
    repetitions : of the same codes, one of each stage, in order
    """

    def __init__(self, replay: EventReplay, repetitions: Sequence[Sequence[Repetition]]) -> None:
        self._replay, self._left = replay, deque(repetitions)
        self._first = replay.ranks[0]
        self._first.reached = self._reached
        self._steps = self._shift = self._period = 0
        self._bounds: list[tuple[int, int]] = []
        self._seen: dict[Hashable, _State] = {}
        self._next_repetition()

    def _next_repetition(self) -> None:
        self._first.mark = -1
        self._seen.clear()
        if not self._left:
            return
        parts, self._period = self._left.popleft(), 0
        self._steps, self._shift = parts[0].steps, parts[0].shift
        self._bounds = []
        for rank in self._replay.ranks:
            start, stop, *_ = parts[rank.actor.position.stage]
            stop = min([stop, *(at for at in rank.completing if at >= start)])
            self._bounds.append((start, stop))
        self._set_mark()

    def _set_mark(self) -> None:
        """Mark the first step of the next period in the first rank class."""
        start, stop = self._bounds[0]
        mark = start + self._period * self._steps
        if mark < stop:
            self._first.mark = mark
        else:
            self._next_repetition()

    def _reached(self) -> None:
        self._replay.env.call_last(self._compare)

    def _compare(self) -> None:
        """Compare the present state with earlier ones; skip the periods that follow."""
        replay, state = self._replay, self._state()
        if state is not None:
            before = self._seen.get(state)
            if before is not None and self._skip(before):
                self._seen.clear()
            elif before is None:
                counts = len(replay.collectives), len(replay.crossed)
                now = replay.env._now
                self._seen[state] = _State(self._period, now, replay.network.totals(), *counts)
        self._period += 1
        self._set_mark()

    # --- states ----------------------------------------------------------------------------------

    def _state(self) -> Hashable:
        """Return all that the future depends on; None where it is unknown."""
        replay, now = self._replay, self._replay.env._now
        transfers = replay.network.state(now, _done)
        if transfers is None:
            return None
        events = []
        for instant, priority, _, event in sorted(replay.env._queue, key=lambda e: e[:3]):
            name = self._name(event)
            if name is not None:
                events.append((instant - now, priority, name))
        steps, addresses = self._period * self._steps, self._period * self._shift
        ranks = tuple(rank.state_after(steps, addresses, now) for rank in replay.ranks)
        return transfers, tuple(events), ranks

    def _name(self, event: Any) -> Hashable:
        if isinstance(event, EventRank):
            return event.number, event.in_block
        return self._replay.network.name_of_event(event, _done)

    # --- skipping --------------------------------------------------------------------------------

    def _skip(self, before: _State) -> bool:
        """Derive the periods like those since an earlier state; return whether there were any."""
        replay = self._replay
        cycle = self._period - before.period
        steps, seconds = cycle * self._steps, replay.env._now - before.now
        bounds = zip(replay.ranks, self._bounds, strict=True)
        times = min(
            (stop - 1 - rank.at) // steps if rank.at - steps >= start else 0
            for rank, (start, stop) in bounds
        )
        exact = replay.env._now + (times + 1) * seconds < replay.grid.end
        if times < 1 or not exact:
            return False
        for rank in replay.ranks:
            rank.repeat(times, steps, cycle * self._shift, seconds)
        later = [seconds * time for time in range(1, times + 1)]
        replay.collectives += [
            CollectiveSpan(name, nbytes, begin + more, end + more)
            for more in later
            for name, nbytes, begin, end in replay.collectives[before.collectives :]
        ]
        replay.crossed += [
            (traffic, begin + more, end + more)
            for more in later
            for traffic, begin, end in replay.crossed[before.crossed :]
        ]
        replay.network.postpone(times * seconds)
        replay.env.postpone(times * seconds)
        replay.network.count_repeated(before.totals, times)
        self._period += times * cycle
        return True


def _done(transfer: Transfer) -> Hashable:
    """Return a name of a transfer that is the same in each period: what is called at its end."""
    return transfer.done
