"""A replica of an engine on the clock: its batches in flight, one event for each run of steps.

Steps that only decode differ in their contexts alone, until a request ends or arrives.  Without
pipeline stages they are a run, whose end is one event; an arrival cuts it after the step in
progress.

With pipeline stages a batch enters the first stage when the batch before has left it, and leaves
the last one no sooner than a step of the slowest stage after that batch:

    batch 0   |--- stage 0 ---|--- stage 1 ---|
    batch 1                   |--- stage 0 ---|--- stage 1 ---|
"""

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate, cycle
from typing import Any, Final

import numpy as np
from simpy import Environment
from simpy.events import Event

from clustersim.answers import in_brief
from clustersim.arrays import Floats, Integers
from clustersim.engine.requests.batcher import Batcher, Work
from clustersim.engine.requests.request import Request
from clustersim.engine.requests.scheduling import ReplicaModel
from clustersim.engine.requests.sequences import BlockPool, Following
from clustersim.inference.batch import Batch


@dataclass(frozen=True, eq=False, repr=False)
class Steps:
    """Steps of one replica, in the order of their ends.

    Attributes
    ----------
    start, end : of each step [s]
    sequences, prompt_tokens : decoding sequences and tokens of prompts
    blocks : KV blocks in use
    waiting : requests without KV blocks, of the batch in flight
    batches : what each step processed
    """

    start: Floats
    end: Floats
    sequences: Integers
    prompt_tokens: Integers
    blocks: Integers
    waiting: Integers
    batches: list[Batch]

    __repr__ = in_brief

    def __len__(self) -> int:
        return len(self.start)

    def within(self, begin: float, end: float) -> "Steps":
        """Return the steps of which some part lies within a time [s]."""
        inside = np.flatnonzero((self.end > begin) & (self.start < end))
        arrays = {
            field.name: getattr(self, field.name)[inside]
            for field in fields(self)
            if field.name != "batches"
        }
        return replace(self, **arrays, batches=[self.batches[i] for i in inside.tolist()])


class _Run:
    """Steps that only decode, one after another.

    Attributes
    ----------
    times : when each begins, and the last one ends [s]
    batches : what each processes
    blocks : KV blocks that each takes when it begins; those of the first are taken
    waiting : requests without KV blocks
    complete : steps that are complete
    """

    def __init__(self, times: list[float], batches: list[Batch], blocks: list[int], waiting: int):
        self.times, self.batches, self.blocks, self.waiting = times, batches, blocks, waiting
        self.complete = 0

    def in_progress(self, now: float) -> int:
        """Return the number of the step that is in progress at a time, or ends then."""
        return max(0, bisect_left(self.times, now) - 1)

    def cut(self, now: float) -> None:
        """End the run with the step in progress."""
        last = self.in_progress(now) + 1
        del self.times[last + 1 :], self.batches[last:]


class ReplicaProcess:
    """A replica that makes steps while it has requests.

    Attributes
    ----------
    model : its costs, memory and rules
    pool : blocks of its KV cache
    batchers : a batch in flight for each stage
    """

    def __init__(self, env: Environment, model: ReplicaModel) -> None:
        self.model = model
        self.pool = BlockPool(model.blocks, model.block_tokens)
        self.batchers = [Batcher(model, self.pool) for _ in range(model.stages)]
        self._rows: list[tuple[float, float, int, int]] = []  # times, blocks, waiting requests
        self._batches: list[Batch] = []
        self._env = env
        self._free = self._left = 0.0  # when the first stage is free, and the last batch left
        self._idle: dict[int, Event] = {}
        self._decoding: _Run | None = None
        for number in range(model.stages):
            env.process(self._run(number))

    @property
    def load(self) -> int:
        """Requests that it has."""
        return sum(batcher.load for batcher in self.batchers)

    @property
    def emitted(self) -> float:
        """Tokens that it has generated."""
        self._settle()
        return sum(batcher.emitted for batcher in self.batchers)

    def add(self, request: Request) -> Batcher:
        """Queue a request in the batch in flight with the fewest; return that batch."""
        number = min(range(len(self.batchers)), key=lambda i: self.batchers[i].load)
        batcher = self.batchers[number]
        batcher.waiting.append(request)
        self.wake()
        return batcher

    def wake(self) -> None:
        """Let idle batches look for work: a request came, or KV blocks were returned."""
        idle, self._idle = self._idle, {}
        for event in idle.values():
            event.succeed()

    def _run(self, number: int) -> Generator[Event, Any, None]:
        """Make the steps of one batch in flight, for ever."""
        env, batcher = self._env, self.batchers[number]
        while True:
            while self._free > env.now:
                yield env.timeout(self._free - env.now)
            admitted = batcher.admitted
            work = batcher.next_step(env.now)
            if work is None and batcher.admitted > admitted:
                continue  # cached prompts of one token are complete without a step
            if work is None:
                self._idle[number] = env.event()
                yield self._idle[number]
                continue
            start = env.now
            following = batcher.following(work) if self.model.stages == 1 else None
            if following:
                start, work = yield from self._decode(work, following)
            else:
                yield env.timeout(self._seconds(work))
            self._rows.append((start, env.now, self.pool.used, len(batcher.waiting)))
            self._batches.append(work.batch)
            batcher.complete(work, env.now)
            if self._idle:
                self.wake()

    def _decode(
        self, work: Work, following: Following
    ) -> Generator[Event, Any, tuple[float, Work]]:
        """Make steps that only decode; return the start of the last one, and what it is."""
        env, (batcher,) = self._env, self.batchers
        count, contexts = work.batch.sequences, [work.batch.context, *following.contexts]
        seconds = self.model.times(count, contexts)
        seconds[0] += work.copying
        times = [*accumulate(seconds, initial=env.now)]
        batches = [Batch(count, context) for context in contexts]
        run = _Run(times, batches, [0, *following.blocks], len(batcher.waiting))
        self._decoding, self._idle[0] = run, env.event()
        yield env.timeout(times[-1] - env.now) | self._idle[0]
        self._idle.pop(0, None)
        run.cut(env.now)
        if times[-1] > env.now:
            yield env.timeout(times[-1] - env.now)
        self._settle()
        self._decoding = None
        return times[-2], work._replace(batch=batches[-1])

    def _settle(self) -> None:
        """Count the steps of a run that are complete, but for the last."""
        run = self._decoding
        if run is None:
            return
        first = run.complete
        run.complete = min(run.in_progress(self._env.now), len(run.batches) - 1)
        for step in range(first, run.complete):
            start, end = run.times[step : step + 2]
            self._rows.append((start, end, self.pool.used, run.waiting))
            self.pool.take(run.blocks[step + 1])
        self._batches += run.batches[first : run.complete]
        self.batchers[0].decode(run.complete - first)

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
        rows, batches = np.array(self._rows, dtype=float).reshape(-1, 4), self._batches
        prompts = [sum(prompt.tokens for prompt in batch.prompts) for batch in batches]
        return Steps(
            start=rows[:, 0],
            end=rows[:, 1],
            sequences=np.array([batch.sequences for batch in batches], dtype=np.int64),
            prompt_tokens=np.array(prompts, dtype=np.int64),
            blocks=rows[:, 2].astype(np.int64),
            waiting=rows[:, 3].astype(np.int64),
            batches=batches,
        )

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
