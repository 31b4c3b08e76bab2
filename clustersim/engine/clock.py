"""The clock of a replay, and the grid of its instants: sums and differences on it are exact.

Durations are rounded once to multiples of 2^k seconds, chosen so that the whole step is less than
2^53 of them.  Then a period of a pipeline that begins a time later is the same period to the last
bit, which `steady_state` uses.  A duration changes by less than 2^-52 of the step.
"""

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from math import frexp, ldexp
from typing import Any, Final, NamedTuple

from simpy import Environment
from simpy.events import NORMAL, EventPriority, Timeout

from clustersim.program.program import Actor, Program
from clustersim.program.schedules.steps import Code

MANTISSA = 53
"""Bits of a double-precision number."""

DEPARTING = EventPriority(2)
"""After the ends of the same instant: a transfer that begins when another ends does not contend."""

LAST = EventPriority(3)
"""After all other events of the same instant."""

BETWEEN = EventPriority(4)
"""Between two instants."""

CONTENTION = 2.0
"""Factor by which waiting and contention may prolong the step before its instants are rounded."""


class TimeGrid(NamedTuple):
    """Instants that are multiples of `step` [s]; 0 for all instants.

    `magnitude` is added to a duration and subtracted again, which rounds it to the grid: the sum
    has no bits for less than a step.

    >>> grid = TimeGrid.up_to(1000.0)
    >>> x, y = grid.round(0.1), grid.round(0.2)
    >>> (x + y) + 100.0 - 100.0 == x + y
    True
    """

    step: float
    magnitude: float

    @classmethod
    def up_to(cls, seconds: float) -> "TimeGrid":
        """Return the finest grid on which instants up to this one are exact."""
        if not seconds:
            return CONTINUOUS
        step = ldexp(1.0, frexp(seconds)[1] - MANTISSA)
        return cls(step, 1.5 * ldexp(step, MANTISSA - 1))

    @property
    def end(self) -> float:
        """The instant up to which sums and differences are exact [s]."""
        return ldexp(self.step, MANTISSA)

    def round(self, seconds: float) -> float:
        """Return the multiple of the step that is nearest to a duration [s]."""
        return seconds + self.magnitude - self.magnitude


CONTINUOUS = TimeGrid(0.0, 0.0)
"""Every instant that is a double-precision number."""


def time_grid(program: Program) -> TimeGrid:
    """Return the grid of a program: fine for the steps of its busiest rank, and one of each rank.

    A step that takes longer is replayed as well, with instants that are rounded.
    """
    ranks = zip(program.actors, program.rates, strict=True)
    works = [_work(*rank, program) for rank in ranks]
    busiest = max(of_all for of_all, _ in works)
    return TimeGrid.up_to(CONTENTION * (busiest + sum(once for _, once in works[: program.stages])))


def _work(actor: Actor, rates: Mapping[Code, float], program: Program) -> tuple[float, float]:
    """Return the time of the blocks and transfers of a rank, of all steps and of each code once."""
    seconds = once = 0.0 if actor.extra is None else float(actor.extra.clip(0.0).sum())
    for code, times in program.order.times(actor.position.stage).items():
        traffic = actor.send[code]
        sent = 0.0
        if traffic is not None:
            sent = traffic.latency + traffic.nbytes / rates[code]
        block = actor.blocks[code]
        taken = block.seconds.total + max(0.0, block.late) + sent
        seconds, once = seconds + taken * times, once + taken
    return seconds, once


class _Call:
    """A call of a function, used as an event: a third of the time of one."""

    __slots__ = ("call", "callbacks")
    _ok = True

    def __init__(self, call: Callable[[], object]) -> None:
        self.call, self.callbacks = call, _CALLED


_CALLED: Final = (lambda event: event.call(),)


class Clock(Environment):
    """SimPy's environment with its loop written out: the same order, a fifth less time an event.

    Durations are rounded to `grid`.
    """

    def __init__(self, grid: TimeGrid) -> None:
        super().__init__()
        self.grid = grid

    def after(self, seconds: float) -> Timeout:
        """Return the event of the end of a duration that begins now."""
        return Timeout(self, self.grid.round(seconds))

    def call_at(self, instant: float, call: Callable[[], object]) -> None:
        """Call a function at an instant; a delay from now would be rounded twice."""
        assert instant >= self._now, "an event before the present instant"
        self._call(instant, NORMAL, call)

    def call_last(self, call: Callable[[], object]) -> None:
        """Call a function after all other events of this instant."""
        self._call(self._now, BETWEEN, call)

    def _call(self, instant: float, priority: EventPriority, call: Callable[[], object]) -> None:
        event: Any = _Call(call)
        heappush(self._queue, (instant, priority, next(self._eid), event))

    def schedule_at(self, instant: float, event: Any) -> None:
        """Schedule an event, or what is used as one, at an instant."""
        heappush(self._queue, (instant, NORMAL, next(self._eid), event))

    def skip_to(self, instant: float) -> bool:
        """Move to a later instant if no event comes before or at it; return whether it has."""
        if self._queue and self._queue[0][0] <= instant:
            return False
        self._now = instant
        return True

    def stop(self) -> None:
        """Drop all events that are scheduled, so that `run_all` returns."""
        self._queue.clear()

    def depart_at(self, instant: float, event: Any) -> None:
        """Schedule an event, or what is used as one, after the normal ones of an instant."""
        heappush(self._queue, (instant, DEPARTING, next(self._eid), event))

    def postpone(self, seconds: float) -> None:
        """Move the present instant and all events to a later time."""
        self._now += seconds
        self._queue[:] = [(instant + seconds, *event) for instant, *event in self._queue]  # type: ignore[misc]

    def run_all(self) -> None:
        """Process events until none is scheduled, as ``Environment.run()`` does step by step.

        A step of the trillion-parameter model has 400,000 events; a method call and an exception
        handler for each of them cost 0.2 s.
        """
        queue: list[Any] = self._queue
        while queue:
            self._now, _, _, event = heappop(queue)
            callbacks, event.callbacks = event.callbacks, None
            for callback in callbacks:
                callback(event)
            if not event._ok and not hasattr(event, "_defused"):
                raise event._value
