"""A replica of an engine on the clock: its batches in flight, one event for each run of steps.

Steps that only decode differ in their contexts alone, until a request ends or arrives, and so do
those that one prompt fills chunk by chunk.  Without pipeline stages they are a run, whose end is
one event; an arrival cuts it after the step in progress.

With pipeline stages a batch enters the first stage when the batch before has left it, and leaves
the last one no sooner than a step of the slowest stage after that batch:

    batch 0   |--- stage 0 ---|--- stage 1 ---|
    batch 1                   |--- stage 0 ---|--- stage 1 ---|
"""

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import cycle
from math import inf
from operator import attrgetter
from typing import Any, Final

from simpy import Environment, Interrupt
from simpy.events import Event

from clustersim.engine.requests.batcher import Batcher, Work
from clustersim.engine.requests.request import Request
from clustersim.engine.requests.scheduling import ReplicaModel, later
from clustersim.engine.requests.sequences import BlockPool
from clustersim.engine.requests.steps import StepRecord, Steps


class _Run:
    """A step, or steps that differ in their contexts alone, one after another.

    Attributes
    ----------
    work : the first one
    start : when it begins [s]
    ends : when each ends [s]
    taken : KV blocks that steps after the first need, each with those before
    waiting : requests without KV blocks when it begins
    """

    __slots__ = ("ends", "start", "taken", "waiting", "work")

    def __init__(
        self, work: Work, start: float, ends: list[float], taken: list[int], waiting: int
    ) -> None:
        self.work, self.start, self.ends = work, start, ends
        self.taken, self.waiting = taken, waiting

    def in_progress(self, now: float) -> int:
        """Return the number of the step that is in progress at a time, or ends then."""
        return bisect_left(self.ends, now)

    def cut(self, now: float) -> bool:
        """End the run with the step in progress; return whether that was not its last one."""
        last = self.in_progress(now) + 1
        shorter = last < len(self.ends)
        del self.ends[last:]
        return shorter


class ReplicaProcess:
    """A replica that makes steps while it has requests.

    Attributes
    ----------
    model : its costs, memory and rules
    pool : blocks of its KV cache
    batchers : a batch in flight for each stage
    """

    def __init__(self, env: Environment, model: ReplicaModel, most_steps: float = inf) -> None:
        self.model = model
        self.pool = BlockPool(model.blocks, model.block_tokens)
        self.batchers = [Batcher(model, self.pool) for _ in range(model.stages)]
        self._record = StepRecord(model.gain, most_steps)
        self._env = env
        self._free = self._left = 0.0  # when the first stage is free, and the last batch left
        self._idle: dict[int, Event] = {}
        self._in_progress: _Run | None = None
        self._processes = [env.process(self._run(number)) for number in range(model.stages)]

    @property
    def load(self) -> int:
        """Requests that it has."""
        return sum(batcher.load for batcher in self.batchers)

    @property
    def emitted(self) -> float:
        """Tokens that it has generated."""
        emitted, run = sum(batcher.emitted for batcher in self.batchers), self._in_progress
        if run is not None:
            complete = min(run.in_progress(self._env.now), len(run.ends) - 1)
            emitted += complete * self.model.gain * run.work.decoding
        return emitted

    def add(self, request: Request) -> Batcher:
        """Queue a request in the batch in flight with the fewest; return that batch."""
        batcher = min(self.batchers, key=attrgetter("load"))
        batcher.waiting.append(request)
        self.wake()
        return batcher

    def wake(self) -> None:
        """Let batches look for work: a request came, or KV blocks were returned."""
        for batcher in self.batchers:
            batcher.undisturbed = 0
        idle, self._idle = self._idle, {}
        for event in idle.values():
            event.succeed()
        run = self._in_progress
        if run is not None and len(run.ends) > 1 and run.cut(self._env.now):
            self._processes[0].interrupt()

    def _run(self, number: int) -> Generator[Event, Any, None]:
        """Make the steps of one batch in flight, for ever."""
        env, batcher = self._env, self.batchers[number]
        ahead = self.model.scheduling.ahead and self.model.stages == 1
        begun = 0.0  # of the step before
        while True:
            while self._free > env.now:
                yield env.timeout(self._free - env.now)
            admitted = batcher.admitted
            work = batcher.next_step(env.now, begun if ahead else env.now)
            if work is None:
                # Without admissions; with them cached prompts of one token are complete.  What came
                # during the last step is scheduled now, since none runs.
                if batcher.admitted == admitted and begun == env.now:
                    self._idle[number] = env.event()
                    yield self._idle[number]
                begun = env.now
                continue
            run = self._begin(work, batcher)
            try:
                yield env.timeout(run.ends[-1] - env.now)
            except Interrupt:  # it was cut
                yield env.timeout(run.ends[-1] - env.now)
            begun = run.ends[-2] if len(run.ends) > 1 else run.start
            self._settle(run, batcher)
            batcher.complete(work, env.now)
            if self._idle:
                self.wake()

    def _begin(self, work: Work, batcher: Batcher) -> _Run:
        """Return a step that begins now, with those that follow it."""
        now, batch, taken = self._env.now, work.batch, []
        if self.model.stages == 1:
            taken = batcher.following(work)
        if taken:
            context = batcher.sequences.context if work.decoding else 0.0
            ends = self.model.ends(now + work.copying, batch, context, 1 + len(taken))
        else:
            ends = [now + self._seconds(work)]
        run = _Run(work, now, ends, taken, len(batcher.waiting))
        if self.model.stages == 1:
            self._in_progress = run
        return run

    def _settle(self, run: _Run, batcher: Batcher) -> None:
        """Record the steps of a run, and count all but the last, during which requests may come."""
        self._in_progress = None
        work, start, ends, more = run.work, run.start, run.ends, len(run.ends) - 1
        batch = work.batch
        context = batcher.sequences.context if batch.sequences else 0.0
        used, waiting = self.pool.used, len(batcher.waiting)
        blocks = [used, *[used + taken for taken in run.taken[:more]]]
        if more:
            self.pool.take(run.taken[more - 1])
            batcher.skip(work, more)
            if waiting != run.waiting:
                sequences, _, prompts = batch
                self._record.add(
                    start, ends[:-1], blocks[:-1], run.waiting, sequences, context, prompts
                )
                start, context = ends[-2], batcher.sequences.context if batch.sequences else 0.0
                batch = later(batch, context, 0.0, more)
                ends, blocks = ends[-1:], blocks[-1:]
        self._record.add(start, ends, blocks, waiting, batch.sequences, context, batch.prompts)

    def _seconds(self, work: Work) -> float:
        """Return the time until a step that starts now is complete [s]."""
        now, model = self._env.now, self.model
        seconds = model.seconds(work.batch) + work.copying
        if model.stages > 1:
            slowest = model.slowest(work.batch) + work.copying
            self._free = now + slowest
            seconds = max(seconds, self._left + slowest - now)
            self._left = now + seconds
        assert seconds > 0, "a step takes time"
        return seconds

    def steps(self) -> Steps:
        """Return the steps so far."""
        return self._record.steps()

    def check_empty(self) -> None:
        """Check that requests, sequences and KV blocks are gone when all requests are complete."""
        for batcher in self.batchers:
            batcher.check_empty()
        assert self.pool.used == 0, f"{self.pool.used} KV blocks remain in use"


# --- routing --------------------------------------------------------------------------------------

Route = Callable[[], ReplicaProcess]
"""Returns the replica for the next request."""


def round_robin(replicas: Sequence[ReplicaProcess]) -> Route:
    """Return a function that returns one replica after another."""
    order: Iterator[ReplicaProcess] = cycle(replicas)
    return lambda: next(order)


def least_loaded(replicas: Sequence[ReplicaProcess]) -> Route:
    """Return a function that returns the replica with the fewest requests, the first of equals."""
    return lambda: min(replicas, key=lambda replica: replica.load)


ROUTING: Final[Mapping[str, Callable[[Sequence[ReplicaProcess]], Route]]] = {
    "round-robin": round_robin,
    "least-loaded": least_loaded,
}
"""Ways to route requests, by the name in a scenario."""
