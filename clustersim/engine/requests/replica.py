"""A replica of an engine on the clock: its batches in flight, one event for each step.

With pipeline stages a batch enters the first stage when the batch before has left it, and leaves
the last one no sooner than a step of the slowest stage after that batch:

    batch 0   |--- stage 0 ---|--- stage 1 ---|
    batch 1                   |--- stage 0 ---|--- stage 1 ---|
"""

from collections.abc import Generator
from typing import Any

from simpy import Environment
from simpy.events import Event

from clustersim.engine.requests.batcher import Batcher, Work
from clustersim.engine.requests.kv_blocks import BlockPool
from clustersim.engine.requests.request import Request
from clustersim.engine.requests.scheduling import ReplicaModel
from clustersim.engine.requests.step_log import StepLog


class Replica:
    """A replica that makes steps while it has requests.

    Attributes
    ----------
    model : its costs, memory and rules
    pool : blocks of its KV cache
    batchers : a batch in flight for each stage
    log : its steps
    """

    def __init__(self, env: Environment, model: ReplicaModel) -> None:
        self.model = model
        self.pool = BlockPool(model.blocks, model.block_tokens)
        self.batchers = [Batcher(model, self.pool) for _ in range(model.stages)]
        self.log = StepLog()
        self._env = env
        self._free = self._left = 0.0  # when the first stage is free, and the last batch left
        self._idle: dict[int, Event] = {}
        for number in range(model.stages):
            env.process(self._run(number))

    @property
    def load(self) -> int:
        """Requests that it has."""
        return sum(batcher.load for batcher in self.batchers)

    @property
    def emitted(self) -> float:
        """Tokens that it has generated."""
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
            work = batcher.next_step(env.now)
            if work is None:
                self._idle[number] = env.event()
                yield self._idle[number]
                continue
            start = env.now
            yield env.timeout(self._seconds(work))
            self.log.add(start, env.now, work.batch, self.pool.used, len(batcher.waiting))
            batcher.complete(work, env.now)
            if self._idle:
                self.wake()

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

    def check_empty(self) -> None:
        """Check that requests, sequences and KV blocks are gone when all requests are complete."""
        for batcher in self.batchers:
            batcher.check_empty()
        assert self.pool.used == 0, f"{self.pool.used} KV blocks remain in use"
