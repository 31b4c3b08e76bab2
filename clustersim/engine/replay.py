"""The replay: every rank class lives through its steps, and the network carries what they hand on.

    1. A rank takes its next step and waits until the step's input has arrived.
    2. It computes: the block's kernels, with their collectives, one after another.
    3. It hands the result to the next stage; where sends block, it waits until that is through.
    4. After its last step it reduces gradients with its replicas, the tied embedding with the
       other end of the pipeline, and the gradient norm with everybody; then the optimiser runs.

A rank is one process.  Nothing here knows bandwidths or FLOPs: blocks bring their seconds, traffic
brings its bytes, and `network` says when they are through.
"""

from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import numpy as np
from simpy import Environment
from simpy.events import Event, Timeout

from clustersim.engine.network import Network, Transfer
from clustersim.errors import SimulationError
from clustersim.program.ops import BACKWARD, FORWARD, Actor, Program, Step, hand_over
from clustersim.timeline import (
    EMBEDDING,
    GRADIENTS,
    NORM,
    OPTIMISER,
    PARAMETERS,
    Span,
    Timeline,
    Track,
)
from clustersim.traffic import Traffic

Process = Generator[Event, Any, float]
"""What a rank goes through; returns the instant when it really began [s]."""
Key = tuple[int, Step]
"""A step of an actor, which an input is for."""

NOTHING = float("nan")


def replay(program: Program) -> tuple[Timeline, Network]:
    """Return what happened when, and the network with its books.

    Raises
    ------
    SimulationError
        when ranks are left unfinished (naming what each waits for), or bytes or links are wrong.
    """
    env = Environment()
    network = Network(env, program.capacities)
    ranks = _Ranks(env, network, program)
    for rank in ranks.all:
        env.process(rank.live())
    env.run()
    stuck = [rank for rank in ranks.all if not rank.finished]
    if stuck:
        waits = "; ".join(f"{rank.actor.position} waits for {rank.waits}" for rank in stuck[:4])
        raise SimulationError(f"{len(stuck)} rank classes did not finish: {waits}")
    network.check()
    return Timeline(tuple(rank.track() for rank in ranks.all)), network


class _Ranks:
    """All rank classes, and the meetings that several of them hold together."""

    def __init__(self, env: Environment, network: Network, program: Program) -> None:
        self.env, self.network, self.program = env, network, program
        self._meetings: dict[tuple[Any, ...], _Meeting] = {}
        self._by_place = {actor.position: i for i, actor in enumerate(program.actors)}
        self.all = [_Rank(self, number, actor) for number, actor in enumerate(program.actors)]

    def peer(self, actor: Actor, stage: int) -> "_Rank":
        """Return the rank class of the same replicas and part on another stage."""
        return self.all[self._by_place[actor.position._replace(stage=stage)]]

    def meeting(self, *name: Any, size: int) -> "_Meeting":
        """Return the meeting of that name, which `size` rank classes hold."""
        if name not in self._meetings:
            self._meetings[name] = _Meeting(self.env, size)
        return self._meetings[name]

    @property
    def on_a_stage(self) -> int:
        """Rank classes that share a stage."""
        return self.program.classes * self.program.parts


class _Meeting:
    """What begins when the last of several rank classes is ready.

    Attributes
    ----------
    begun, done : events with the instant of the beginning, and of the end
    """

    def __init__(self, env: Environment, size: int) -> None:
        self.missing = size
        self.begun, self.done = Event(env), Event(env)

    def arrive(self) -> bool:
        """Count one more that is ready; return whether that was the last."""
        self.missing -= 1
        return self.missing == 0


class _Rank:
    """One rank class on its way through the step."""

    def __init__(self, ranks: _Ranks, number: int, actor: Actor) -> None:
        self.ranks, self.number, self.actor = ranks, number, actor
        self.env, self.network = ranks.env, ranks.network
        self.finished = False
        self.waits = "its first step"
        self.inbox: dict[Step, float] = {}
        self.wanted: Step | None = None
        self.bell: Event | None = None
        self.free: list[float] = []
        self.sent: list[float] = []
        self.start: list[float] = []
        self.end: list[float] = []
        self.tail: list[Span] = []
        self._queues: dict[str, deque[tuple[Traffic, Callable[[Transfer], None]]]] = {}

    # --- the story -------------------------------------------------------------------------------

    def live(self) -> Generator[Event, Any, None]:
        """Run all steps, then what follows them."""
        env, inbox, actor, program = self.env, self.inbox, self.actor, self.ranks.program
        stage, stages, chunks = actor.position.stage, program.stages, program.chunks
        last = len(actor.steps) - 1
        free, sent, started, ended = self.free, self.sent, self.start, self.end
        sources = _sources(stage, stages, chunks)
        simple = {
            key: block.segments[0] for key, block in actor.blocks.items() if len(block.segments) == 1
        }
        for at, step in enumerate(actor.steps):
            kind, _, chunk = step
            free.append(env._now)
            if (kind, chunk) in sources:
                sent.append(NOTHING)
            else:
                left = inbox.pop(step, None)
                if left is None:
                    self.wanted, self.bell = step, Event(env)
                    yield self.bell
                    left = inbox.pop(step)
                sent.append(left)
            started.append(env._now)
            if at == last and actor.tail.overlapped:
                env.process(self._reduce_beside(actor.blocks[kind, chunk].segments))
            seconds = simple.get((kind, chunk))
            if seconds is not None:
                yield Timeout(env, seconds)
            else:
                yield from self._segments(at, actor.blocks[kind, chunk].segments)
            ended.append(env._now)
            traffic = actor.send[kind, chunk]
            if traffic is not None:
                through = self._hand_on(step, traffic)
                if through is not None:
                    yield through
        self.free.append(env._now)
        yield from self._after()
        self.finished = True

    def _segments(
        self, at: int, segments: tuple[float | Traffic, ...]
    ) -> Generator[Event, Any, None]:
        """Run a block whose collectives share their links with others."""
        for number, segment in enumerate(segments):
            if isinstance(segment, Traffic):
                self.waits = segment.name
                name = ("tensor", self.actor.position[:2], at, number)
                yield from self._together(name, segment, self.ranks.program.parts)
            else:
                yield Timeout(self.env, segment)

    def _after(self) -> Generator[Event, Any, None]:
        """Reduce gradients, embedding and norm; update; gather what was updated."""
        ranks, tail = self.ranks, self.actor.tail
        stage, (replica, _, _) = self.actor.position.stage, self.actor.position
        if tail.overlapped and tail.gradients:
            yield from self._spanned(GRADIENTS, self._last_piece())
        else:
            for piece in tail.gradients:
                meeting = self._together((GRADIENTS, stage), piece, ranks.on_a_stage)
                yield from self._spanned(GRADIENTS, meeting)
        if tail.embedding is not None:
            size = 2 * ranks.on_a_stage
            yield from self._spanned(EMBEDDING, self._together((EMBEDDING,), tail.embedding, size))
        if ranks.program.norm_sync:
            size = ranks.program.stages * ranks.program.parts
            traffic = Traffic(NORM, (), (), 0.0, ranks.program.norm_sync)
            yield from self._spanned(NORM, self._together((NORM, replica), traffic, size))
        yield from self._spanned(OPTIMISER, self._alone(tail.optimiser))
        if tail.parameters is not None:
            meeting = self._together((PARAMETERS, stage), tail.parameters, ranks.on_a_stage)
            yield from self._spanned(PARAMETERS, meeting)

    # --- handing on ------------------------------------------------------------------------------

    def _hand_on(self, step: Step, traffic: Traffic) -> Event | None:
        """Send the result of a step; return what to wait for where sends block."""
        program = self.ranks.program
        target = hand_over(step, self.actor.position.stage, program.stages, program.chunks)
        assert target is not None, "traffic goes to a stage"
        peer, asked = self.ranks.peer(self.actor, target[0]), target[1]
        through = Event(self.env) if program.blocking else None
        if program.parts == 1:
            arrive = partial(self._delivered, peer, asked, through)
        else:
            arrive = self._with_the_others(step, target[0], asked, through)
            if arrive is None:
                return through
        if through is not None:
            self.network.start(traffic, arrive)
        else:
            self._queue(step.kind, traffic, arrive)
        return through

    def _delivered(
        self, peer: "_Rank", step: Step, through: Event | None, transfer: Transfer
    ) -> None:
        """Put an input into its rank's inbox, ring if it is waiting, let a blocked sender go."""
        peer.inbox[step] = transfer.begin - transfer.traffic.latency
        if peer.wanted == step:
            peer.wanted = None
            assert peer.bell is not None
            peer.bell.succeed()
        if through is not None:
            through.succeed()

    def _with_the_others(
        self, step: Step, stage: int, asked: Step, through: Event | None
    ) -> Callable[[Transfer], None] | None:
        """Send once for the whole tensor group, when its last part is ready."""
        meeting = self.ranks.meeting(
            "send", self.actor.position[:2], step, size=self.ranks.program.parts
        )
        if through is not None:
            meeting.done.callbacks.append(lambda _: through.succeed())
        if not meeting.arrive():
            return None
        peers = [
            self.ranks.all[self.ranks._by_place[self.actor.position._replace(stage=stage, part=i)]]
            for i in range(self.ranks.program.parts)
        ]

        def arrive(transfer: Transfer) -> None:
            for peer in peers:
                self._delivered(peer, asked, None, transfer)
            meeting.done.succeed()

        return arrive

    def _queue(self, kind: str, traffic: Traffic, arrive: Callable[[Transfer], None]) -> None:
        """Send without waiting, one transfer after another in each direction."""
        queue = self._queues.setdefault(kind, deque())
        queue.append((traffic, arrive))
        if len(queue) == 1:
            self.network.start(traffic, partial(self._next, queue))

    def _next(
        self, queue: deque[tuple[Traffic, Callable[[Transfer], None]]], transfer: Transfer
    ) -> None:
        _, arrive = queue.popleft()
        arrive(transfer)
        if queue:
            self.network.start(queue[0][0], partial(self._next, queue))

    # --- meeting others --------------------------------------------------------------------------

    def _together(self, name: tuple[Any, ...], traffic: Traffic, size: int) -> Process:
        """Take part in a collective that begins when all its rank classes are ready."""
        meeting = self.ranks.meeting(*name, size=size)
        if meeting.arrive():
            meeting.begun.succeed(self.env.now)
            self.network.start(traffic, lambda _: meeting.done.succeed())
        self.waits = traffic.name
        yield meeting.done
        return float(meeting.begun.value)

    def _alone(self, seconds: float) -> Process:
        begun = self.env.now
        yield Timeout(self.env, seconds)
        return begun

    def _spanned(self, name: str, work: Process) -> Generator[Event, Any, None]:
        """Carry out what follows the last step, and note when it was ready, began and ended."""
        ready = self.env.now
        begun = yield from work
        self.tail.append(Span(name, ready, max(ready, begun), self.env.now))

    def _reduce_beside(
        self, segments: tuple[float | Traffic, ...]
    ) -> Generator[Event, Any, None]:
        """Reduce the gradients piece by piece while the last backward makes them."""
        stage, pieces = self.actor.position.stage, self.actor.tail.gradients
        seconds = sum(segment for segment in segments if not isinstance(segment, Traffic))
        for number, piece in enumerate(pieces):
            yield Timeout(self.env, seconds / len(pieces))
            yield from self._together((GRADIENTS, stage, number), piece, self.ranks.on_a_stage)

    def _last_piece(self) -> Process:
        """Wait until the last piece is reduced."""
        number = len(self.actor.tail.gradients) - 1
        name = (GRADIENTS, self.actor.position.stage, number)
        self.waits = self.actor.tail.gradients[-1].name
        meeting = self.ranks.meeting(*name, size=self.ranks.on_a_stage)
        yield meeting.done
        return float(meeting.begun.value)

    # --- the record ------------------------------------------------------------------------------

    def track(self) -> Track:
        """Return the record of this rank class."""
        steps, position = self.actor.steps, self.actor.position
        return Track(
            replica=position.replica,
            stage=position.stage,
            part=position.part,
            multiplicity=self.actor.multiplicity,
            backward=np.array([step.kind == BACKWARD for step in steps]),
            microbatch=np.array([step.microbatch for step in steps], np.int32),
            chunk=np.array([step.chunk for step in steps], np.int32),
            free=np.array(self.free),
            sent=np.array(self.sent),
            start=np.array(self.start),
            end=np.array(self.end),
            tail=tuple(self.tail),
        )


def _sources(stage: int, stages: int, chunks: int) -> set[tuple[str, int]]:
    """Return the (kind, chunk) of a stage's steps that need nothing from another stage."""
    found = set()
    if stage == 0:
        found.add((FORWARD, 0))
    if stage == stages - 1:
        found.add((BACKWARD, chunks - 1))
    return found
