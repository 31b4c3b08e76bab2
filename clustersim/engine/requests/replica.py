"""A replica of an engine on the clock: its batches in flight, one event for each run of steps.

Steps that only decode differ in their contexts alone, until a request ends or arrives, and so do
those that one prompt fills chunk by chunk.  Without pipeline stages they are a run, whose end is
one event; an arrival cuts it after the step in progress.

With pipeline stages a batch enters the first stage when the batch before has left it, and leaves
the last one no sooner than a step of the slowest stage after that batch:

    batch 0   |--- stage 0 ---|--- stage 1 ---|
    batch 1                   |--- stage 0 ---|--- stage 1 ---|
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from math import inf
from operator import attrgetter
from typing import Final

from clustersim.engine.clock import Clock
from clustersim.engine.requests.batcher import Batcher
from clustersim.engine.requests.front_end import FrontEnd
from clustersim.engine.requests.request import Request
from clustersim.engine.requests.run import Run
from clustersim.engine.requests.scheduling import ReplicaModel
from clustersim.engine.requests.sequences import BlockPool
from clustersim.engine.requests.steps import StepRecord, Steps
from clustersim.inference.batch import end_of, step_until


class ReplicaProcess:
    """A replica that makes steps while it has requests.

    Attributes
    ----------
    model : its costs, memory and rules
    pool : blocks of its KV cache
    batchers : a batch in flight for each stage
    """

    def __init__(
        self, clock: Clock, model: ReplicaModel, front: FrontEnd, most_steps: float = inf
    ) -> None:
        self.model, self._front = model, front
        self.pool = BlockPool(model.blocks, model.block_tokens, model.state_blocks)
        self.batchers = [Batcher(model, self.pool) for _ in range(model.stages)]
        self._record = StepRecord(model.gain, most_steps)
        self._clock, self._alone = clock, model.stages == 1
        self._stretches = model.alike or model.stretches
        self._ahead = model.scheduling.ahead and self._alone
        self._free = self._left = 0.0  # when the first stage is free, and the last batch left
        self._idle = self.batchers[:]
        self._in_progress: Run | None = None
        for batcher in self.batchers:
            batcher.ended = (partial(self._end, batcher),)

    @property
    def load(self) -> int:
        """Requests that it has."""
        return sum(batcher.load for batcher in self.batchers)

    @property
    def emitted(self) -> float:
        """Tokens that it has generated."""
        emitted, run = sum(batcher.emitted for batcher in self.batchers), self._in_progress
        if run is not None:
            complete = min(run.complete(self._clock.now), run.steps - 1)
            emitted += complete * self.model.gain * run.decoding
        return emitted

    def add(self, request: Request) -> Batcher:
        """Queue a request in the batch in flight with the fewest; return that batch."""
        batcher = self.batchers[0] if self._alone else min(self.batchers, key=attrgetter("load"))
        batcher.waiting.append(request)
        self.wake()
        return batcher

    def wake(self) -> None:
        """Let batches look for work: a request came, or KV blocks were returned."""
        for batcher in self.batchers:
            batcher.undisturbed = 0
        if self._idle:
            idle, self._idle = self._idle, []
            for batcher in idle:
                self._clock.call_at(self._clock.now, partial(self._resume, batcher))
        run = self._in_progress
        if run is not None and run.growth:
            self._cut(run)

    def _cut(self, run: Run) -> None:
        """End a run with the step in progress."""
        steps = run.complete(self._clock.now) + 1
        if steps < run.steps:
            run.cut(steps)
            run.callbacks = ()
            self._clock.call_at(run.end, partial(self._end, self.batchers[0], run))

    def _resume(self, batcher: Batcher) -> None:
        """Look for work after a time without."""
        batcher.begun = now = self._clock.now
        self._work(batcher, now)

    def _work(self, batcher: Batcher, now: float) -> None:
        """Make steps until there is none to make, or another event comes first."""
        while (run := self._next(batcher, now)) is not None:
            if not self._clock.skip_to(run.end):
                run.callbacks = batcher.ended
                self._clock.schedule_at(run.end, run)
                return
            self._complete(batcher, run)
            now = run.end

    def _end(self, batcher: Batcher, run: Run) -> None:
        """End a run; begin the next one."""
        self._complete(batcher, run)
        self._work(batcher, run.end)

    def _next(self, batcher: Batcher, now: float) -> Run | None:
        """Begin the next step of a batch in flight when the first stage is free."""
        if self._free > now:
            self._clock.call_at(self._free, partial(self._work, batcher, self._free))
            return None
        while True:
            admitted = batcher.admitted
            run = batcher.next_step(now, batcher.begun if self._ahead else now)
            if run is not None:
                self._begin(batcher, run, now)
                return run
            # Without admissions; with them cached prompts of one token are complete.  What came
            # during the last step is scheduled now, since none runs.
            if batcher.admitted == admitted and batcher.begun == now:
                self._idle.append(batcher)
                return None
            batcher.begun = now

    def _begin(self, batcher: Batcher, run: Run, now: float) -> None:
        """Begin a step, with those that follow it."""
        growth: list[int] = []
        if self._alone and now >= self._front.free:  # a request on its way would cut a run
            growth = batcher.following(run)
        if self._alone and (growth or not run.chunks):
            context = batcher.sequences.context if run.decoding else 0.0
            start, steps = now + run.copying, 1 + len(growth)
            stretches = self._stretches(start, run.batch, context, steps)
        else:
            stretches = step_until(now + self._seconds(run, now))
        run.begin(now, stretches, growth)
        if self._alone:
            self._in_progress = run

    def _complete(self, batcher: Batcher, run: Run) -> None:
        """Record a run that ends now, and count its tokens."""
        self._in_progress = None
        self._add(run, len(batcher.waiting), batcher.sequences.context)
        batcher.begun = run.start
        if self._ahead and run.growth:
            batcher.begun = end_of(run.first(run.steps - 1)[-1])
        batcher.complete(run)
        if self._idle:
            self.wake()

    def _add(self, run: Run, waiting: int, context: float) -> None:
        """Record the steps of a run; requests may have come during the last one.

        Parameters
        ----------
        waiting : requests without KV blocks at the end
        context : cached tokens of all sequences in the first step
        """
        sequences, _, prompts = run.batch
        record, used = self._record, self.pool.used
        if not sequences:
            context = 0.0
        start, stretches, growth = run.start, run.stretches, run.growth
        if growth:
            self.pool.take(sum(growth))
            if waiting != run.waiting:
                steps, before = len(growth), run.first(len(growth))
                record.add(
                    start, before, used, growth[:-1], run.waiting, sequences, context, prompts
                )
                start, stretches, growth = end_of(before[-1]), step_until(run.end), []
                used, context = self.pool.used, context + steps * self.model.gain * run.decoding
                prompts = tuple([prompt.later(steps) for prompt in prompts])
        record.add(start, stretches, used, growth, waiting, sequences, context, prompts)

    def _seconds(self, run: Run, now: float) -> float:
        """Return the time until a step that starts now is complete [s]."""
        model = self.model
        seconds = model.seconds(run.batch) + run.copying
        if not self._alone:
            slowest = model.slowest(run.batch) + run.copying
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
