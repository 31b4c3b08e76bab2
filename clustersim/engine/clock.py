"""SimPy's environment with its loop written out: the same order, a fifth less time an event."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from simpy import Environment
from simpy.events import NORMAL, Event


class Clock(Environment):
    """An environment that runs until nothing is scheduled any more."""

    def call_at(self, instant: float, call: Callable[[], object]) -> None:
        """Call back at an instant, which a delay from now would round once more."""
        event = Event(self)
        event._ok, event._value = True, None

        def back(_: Event) -> None:
            call()

        event.callbacks.append(back)
        heappush(self._queue, (instant, NORMAL, next(self._eid), event))

    def run_out(self) -> None:
        """Process all events, as ``Environment.run()`` does by calling ``step`` for each.

        A step of the trillion-parameter model has 400,000 events; a method call and an exception
        handler around each of them cost 0.2 s of it.
        """
        queue: list[Any] = self._queue
        while queue:
            self._now, _, _, event = heappop(queue)
            callbacks, event.callbacks = event.callbacks, None
            for callback in callbacks:
                callback(event)
            if not event._ok and not hasattr(event, "_defused"):
                raise event._value
