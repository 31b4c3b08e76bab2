"""The replay of graphs of operations: any number of them on one clock and one network.

    clock   -- the next end -->  operation  -- its followers that miss no other -->  begin
    network <-- traffic --------------'

Programs that share links contend in the network, whichever job they are of.  Operations of a unit,
such as a device, run one at a time: the first that could begin, and of several the first in order.
"""

from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Final

import numpy as np

from clustersim.engine.clock import Clock
from clustersim.engine.network.network import Network
from clustersim.engine.network.transfer import Transfer
from clustersim.errors import SimulationError
from clustersim.program.operations import Operations
from clustersim.timeline import Floats

MOST_KEPT: Final = 64
"""Last passes of a job whose operations are kept."""

OPERATIONS_KEPT: Final = 100_000
"""Operations of the last passes that are kept, but for those of two."""


class OperationReplay:
    """One pass through a graph of operations, on the clock and the network of a machine.

    Parameters
    ----------
    done : called when the last operation has ended

    Attributes
    ----------
    begin, end : of each operation; NaN before [s]

    >>> from clustersim.engine.clock import CONTINUOUS
    >>> from clustersim.traffic import Traffic
    >>> graph, clock = Operations(), Clock(CONTINUOUS)
    >>> computed = graph.add("compute", seconds=1.0)
    >>> sent = graph.add("send", [computed], traffic=Traffic("send", (0,), (1.0,), 6.0, 0.0))
    >>> network = Network(clock, [2.0])
    >>> jobs = [OperationReplay(graph, clock, network) for _ in range(2)]
    >>> for job in jobs:
    ...     job.start()
    >>> clock.run_all()
    >>> [float(job.end[sent]) for job in jobs]  # 12 B on a link of 2 B/s, after one second
    [7.0, 7.0]
    """

    def __init__(
        self,
        graph: Operations,
        clock: Clock,
        network: Network,
        done: Callable[[], object] = lambda: None,
    ) -> None:
        self.graph, self._clock, self._network, self._done = graph, clock, network, done
        self._missing = [len(before) for before in graph.after]
        self._left = len(graph)
        self._busy: set[Hashable] = set()
        self._queues: dict[Hashable, deque[int]] = {}
        self.begin: Floats = np.full(len(graph), np.nan)
        self.end: Floats = np.full(len(graph), np.nan)

    @property
    def finished(self) -> bool:
        """Whether all operations have ended."""
        return not self._left

    def start(self) -> None:
        """Begin the operations that follow none."""
        self._begin_all([number for number, count in enumerate(self._missing) if not count])
        if self.finished:
            self._done()

    def missing(self) -> str:
        """Return the names of the first operations that have not ended."""
        names = (self.graph.names[number] for number in np.flatnonzero(np.isnan(self.end))[:4])
        return "; ".join(names)

    def _begin_all(self, ready: list[int]) -> None:
        """Begin operations, and those that follow the ones without a time."""
        graph, now = self.graph, self._clock._now
        for number in ready:  # which grows
            if graph.units[number] is not None and graph.seconds[number] and self._queued(number):
                continue
            self.begin[number] = now
            traffic, seconds = graph.traffic[number], graph.seconds[number]
            if traffic is not None:
                self._network.start(traffic, partial(self._delivered, number))
            elif seconds:
                self._clock.call_at(now + seconds, partial(self._ended, number))
            else:
                self._left -= 1
                self.end[number] = now
                ready += self._freed(number)

    def _queued(self, number: int) -> bool:
        """Return whether an operation waits for its unit; otherwise the unit is busy with it."""
        unit = self.graph.units[number]
        if unit not in self._busy:
            self._busy.add(unit)
            return False
        self._queues.setdefault(unit, deque()).append(number)
        return True

    def _next_of_unit(self, number: int) -> list[int]:
        """Return the next operation that the unit of one that has ended can begin."""
        unit = self.graph.units[number]
        if unit is None:
            return []
        self._busy.discard(unit)
        queue = self._queues.get(unit)
        return [queue.popleft()] if queue else []

    def _freed(self, number: int) -> list[int]:
        """Return the operations that missed only this one."""
        missing, freed = self._missing, []
        for follower in self.graph.followers[number]:
            missing[follower] -= 1
            if not missing[follower]:
                freed.append(follower)
        return freed

    def _delivered(self, number: int, _: Transfer) -> None:
        self._ended(number)

    def _ended(self, number: int) -> None:
        self._left -= 1
        self.end[number] = self._clock._now
        self._begin_all([*self._next_of_unit(number), *self._freed(number)])
        if self.finished:
            self._done()


class Repeated:
    """A job that repeats its graph of operations, one pass after another.

    Parameters
    ----------
    start : instant of its first pass [s]
    more : whether another pass follows, at the end of each

    Attributes
    ----------
    ends : instant at which each pass ended [s]
    last : the last passes that have ended
    """

    def __init__(
        self,
        graph: Operations,
        clock: Clock,
        network: Network,
        start: float,
        more: Callable[["Repeated"], bool],
    ) -> None:
        self.graph, self._clock, self._network = graph, clock, network
        self.start, self._more = start, more
        self.ends: list[float] = []
        kept = min(MOST_KEPT, max(2, OPERATIONS_KEPT // max(1, len(graph))))
        self.last: deque[OperationReplay] = deque(maxlen=kept)
        self._running: OperationReplay | None = None
        clock.call_at(start, self._next)

    @property
    def times(self) -> Floats:
        """Time of each pass [s]."""
        return np.diff(np.array([self.start, *self.ends]))

    def _next(self) -> None:
        self._running = OperationReplay(self.graph, self._clock, self._network, self._passed)
        self._running.start()

    def _passed(self) -> None:
        self.ends.append(self._clock._now)
        assert self._running is not None
        self.last.append(self._running)
        if self._more(self):
            self._next()

    def check(self) -> None:
        """Raise what a job waits for whose last pass did not end."""
        if self._running is not None and not self._running.finished:
            raise SimulationError(f"operations did not finish: {self._running.missing()}")
