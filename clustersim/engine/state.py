"""State that all rank classes of a replay share: clock, network, and collectives."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from simpy import Environment
from simpy.events import NORMAL, Event, Timeout

from clustersim.engine.network.contention_check import TransferSeries
from clustersim.engine.network.network import DEPARTING, Network
from clustersim.engine.time_grid import TimeGrid
from clustersim.program.program import Position, Program
from clustersim.timeline import CollectiveSpan

NO_TIME = float("nan")


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
        event = Event(self)
        event._ok, event._value = True, None

        def callback(_: Event) -> None:
            call()

        event.callbacks.append(callback)
        heappush(self._queue, (instant, NORMAL, next(self._eid), event))

    def depart_at(self, instant: float, event: Any) -> None:
        """Schedule an event, or what is used as one, after the normal ones of an instant."""
        heappush(self._queue, (instant, DEPARTING, next(self._eid), event))

    def postpone(self, seconds: float) -> None:
        """Move the present instant and all events to a later time."""
        self._now += seconds
        self._queue = [(instant + seconds, *event) for instant, *event in self._queue]  # type: ignore[misc]

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


class Rendezvous:
    """A collective that begins when the last of its rank classes is ready.

    Attributes
    ----------
    missing : rank classes that are not ready yet [count]
    begun : when it began [s]
    done : event of its end
    """

    def __init__(self, env: Clock, size: int) -> None:
        self.missing = size
        self.begun = NO_TIME
        self.done = Event(env)

    def arrive(self) -> bool:
        """Count one more rank class that is ready; return whether it was the last."""
        self.missing -= 1
        return self.missing == 0


class ReplayState:
    """State that all rank classes share.

    Attributes
    ----------
    grid : of all instants of blocks and transfers
    collectives : collectives of several rank classes, in the order of their ends
    collectives_on_links : the transfers of those that crossed links, for the contention check
    """

    def __init__(self, program: Program, grid: TimeGrid) -> None:
        self.program = program
        self.grid = grid
        self.env = Clock(self.grid)
        self.network = Network(self.env, program.capacities, grid=self.grid)
        self._rendezvous: dict[tuple[Any, ...], Rendezvous] = {}
        self.collectives: list[CollectiveSpan] = []
        self.collectives_on_links: list[TransferSeries] = []

    def number(self, position: Position) -> int:
        """Return the index of a rank class in the program's order."""
        stages, tensor_ranks = self.program.stages, self.program.tensor_ranks
        return (position.replica * stages + position.stage) * tensor_ranks + position.tensor_rank

    def rendezvous(self, *name: Any, size: int) -> Rendezvous:
        """Return the rendezvous of a name, in which `size` rank classes take part."""
        if name not in self._rendezvous:
            self._rendezvous[name] = Rendezvous(self.env, size)
        return self._rendezvous[name]

    @property
    def ranks_of_stage(self) -> int:
        """Rank classes of one stage."""
        return self.program.classes * self.program.tensor_ranks
