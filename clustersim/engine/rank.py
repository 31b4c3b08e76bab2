"""A rank class: what it does in each step, what it leaves on record, and what follows its steps.

How it gets through its steps is told elsewhere, in two ways: `alone` when transfers meet nobody,
`stepping` event by event.  What follows the last step is the same for both: gradients are reduced
with the replicas, the tied embedding with the other end of the pipeline, the gradient norm with
everybody; then the optimiser runs.
"""

from collections.abc import Generator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from simpy.events import Event, Timeout

from clustersim.engine.clock import Clock
from clustersim.engine.network import Network
from clustersim.engine.passages import Passage
from clustersim.engine.transfer import Transfer
from clustersim.program.fold import alone_rate
from clustersim.program.ops import BACKWARD, FORWARD, Actor, Position, Program, Step, hand_over
from clustersim.timeline import (
    EMBEDDING,
    GRADIENTS,
    NORM,
    OPTIMISER,
    PARAMETERS,
    Span,
    Track,
)
from clustersim.traffic import Traffic

Process = Generator[Event, Any, float]
"""What a rank goes through; returns the instant when it really began [s]."""
NOTHING = float("nan")


class Meeting:
    """What begins when the last of several rank classes is ready.

    Attributes
    ----------
    begun : when it began [s]
    done : event of its end
    """

    def __init__(self, env: Clock, size: int) -> None:
        self.missing = size
        self.begun = NOTHING
        self.done = Event(env)

    def arrive(self) -> bool:
        """Count one more that is ready; return whether that was the last."""
        self.missing -= 1
        return self.missing == 0


class Crew:
    """What all rank classes share: the clock, the network, and the meetings they hold together.

    Attributes
    ----------
    codes : kinds of steps, forward and backward of each chunk
    shared : collectives that crossed links, with their times
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.env = Clock()
        self.network = Network(self.env, program.capacities)
        self.codes = 2 * program.chunks
        self._meetings: dict[tuple[Any, ...], Meeting] = {}
        self.shared: list[Passage] = []

    def number(self, position: Position) -> int:
        """Return the place of a rank class in the program's order."""
        stages, parts = self.program.stages, self.program.parts
        return (position.replica * stages + position.stage) * parts + position.part

    def meeting(self, *name: Any, size: int) -> Meeting:
        """Return the meeting of that name, which `size` rank classes hold."""
        if name not in self._meetings:
            self._meetings[name] = Meeting(self.env, size)
        return self._meetings[name]

    @property
    def on_a_stage(self) -> int:
        """Rank classes that share a stage."""
        return self.program.classes * self.program.parts


class Row(NamedTuple):
    """What a rank class does in one kind of step.

    Attributes
    ----------
    source : whether it needs nothing from another stage
    seconds : of a fused block; NaN where its collectives are ops of their own
    segments : of the block otherwise
    length : of the block with all links to itself [s]
    traffic : handed on afterwards; None where nothing is
    rate, alone : of one flow, and time of the whole, when it meets nobody [B/s], [s]
    stage, shift : who gets it, and what to add to this step's key to name the step it is for
    """

    source: bool
    seconds: float
    segments: tuple[float | Traffic, ...]
    length: float
    traffic: Traffic | None
    rate: float
    alone: float
    stage: int
    shift: int


class Rank:
    """One rank class on its way through the step.

    Attributes
    ----------
    at : the step it is at, by its place in the order
    wanted : key of the step whose input it waits for; -1 for none
    finished, waits : whether it got through, and what it waits for if not
    """

    def __init__(self, crew: Crew, actor: Actor) -> None:
        self.crew, self.actor = crew, actor
        self.env, self.network = crew.env, crew.network
        self.blocking, self.codes = crew.program.blocking, crew.codes
        self.finished = False
        self.waits = "its first step"
        self.at = 0
        self.wanted = -1
        self.keys = actor.keys
        self.rows = [row_of(actor, crew.program, code) for code in range(crew.codes)]
        self.number = crew.number(actor.position)
        self.free: list[float] = []
        self.sent: list[float] = []
        self.start: list[float] = []
        self.end: list[float] = []
        self.tail: list[Span] = []

    # --- after the last step ---------------------------------------------------------------------

    def after(self) -> Generator[Event, Any, None]:
        """Reduce gradients, embedding and norm; update; gather what was updated."""
        crew, tail = self.crew, self.actor.tail
        stage, (replica, _, _) = self.actor.position.stage, self.actor.position
        if tail.overlapped and tail.gradients:
            yield from self._spanned(GRADIENTS, self._last_piece())
        else:
            for number, piece in enumerate(tail.gradients):
                meeting = self.together((GRADIENTS, stage, number), piece, crew.on_a_stage)
                yield from self._spanned(GRADIENTS, meeting)
        if tail.embedding is not None:
            size = 2 * crew.on_a_stage
            yield from self._spanned(EMBEDDING, self.together((EMBEDDING,), tail.embedding, size))
        if crew.program.norm_sync:
            size = crew.program.stages * crew.program.parts
            traffic = Traffic(NORM, (), (), 0.0, crew.program.norm_sync)
            yield from self._spanned(NORM, self.together((NORM, replica), traffic, size))
        yield from self._spanned(OPTIMISER, self._alone(tail.optimiser))
        for number, gather in enumerate(tail.parameters):
            meeting = self.together((PARAMETERS, stage, number), gather, crew.on_a_stage)
            yield from self._spanned(PARAMETERS, meeting)
        self.finished = True

    def together(self, name: tuple[Any, ...], traffic: Traffic, size: int) -> Process:
        """Take part in a collective that begins when all its rank classes are ready."""
        meeting = self.crew.meeting(*name, size=size)
        if meeting.arrive():
            meeting.begun = float(self.env.now)
            self.network.start(traffic, partial(self._end_together, meeting))
        self.waits = traffic.name
        yield meeting.done
        return meeting.begun

    def _end_together(self, meeting: Meeting, transfer: Transfer) -> None:
        """Let all who took part go on."""
        if transfer.traffic.links:
            times = np.array([transfer.begin]), np.array([self.env.now])
            rate = alone_rate(transfer.traffic, self.crew.program.capacities)
            number = -1 - len(self.crew.shared)
            self.crew.shared.append(Passage(number, transfer.traffic, rate, *times))
        meeting.done.succeed()

    def _alone(self, seconds: float) -> Process:
        begun = self.env.now
        yield Timeout(self.env, seconds)
        return begun

    def _spanned(self, name: str, work: Process) -> Generator[Event, Any, None]:
        """Carry out what follows the last step, and note when it was ready, began and ended."""
        ready = self.env.now
        begun = yield from work
        self.tail.append(Span(name, ready, max(ready, begun), self.env.now))

    def reduce_beside(self, seconds: float) -> Generator[Event, Any, None]:
        """Reduce the gradients piece by piece while the last backward of `seconds` makes them."""
        stage, pieces = self.actor.position.stage, self.actor.tail.gradients
        begun = self.env.now
        for number, piece in enumerate(pieces):
            ready = begun + seconds * (number + 1) / len(pieces)
            if ready > self.env.now:
                yield Timeout(self.env, ready - self.env.now)
            yield from self.together((GRADIENTS, stage, number), piece, self.crew.on_a_stage)

    def _last_piece(self) -> Process:
        """Wait until the last piece is reduced; all of the wait is for communication."""
        ready = float(self.env.now)
        number = len(self.actor.tail.gradients) - 1
        name = (GRADIENTS, self.actor.position.stage, number)
        self.waits = self.actor.tail.gradients[-1].name
        meeting = self.crew.meeting(*name, size=self.crew.on_a_stage)
        yield meeting.done
        return ready

    # --- the record ------------------------------------------------------------------------------

    def stuck_at(self) -> str:
        """Return what an unfinished rank waits for."""
        if self.wanted >= 0:
            return f"the input of {self.actor.steps[self.at]}"
        return self.waits

    def track(self) -> Track:
        """Return the record of this rank class."""
        keys = np.array(self.keys)
        code, position = keys % self.codes, self.actor.position
        return Track(
            replica=position.replica,
            stage=position.stage,
            part=position.part,
            multiplicity=self.actor.multiplicity,
            backward=code % 2 == 1,
            microbatch=(keys // self.codes).astype(np.int32),
            chunk=(code // 2).astype(np.int32),
            free=np.array(self.free),
            sent=np.array(self.sent),
            start=np.array(self.start),
            end=np.array(self.end),
            tail=tuple(self.tail),
        )


def row_of(actor: Actor, program: Program, code: int) -> Row:
    """Return what an actor does in the steps of one kind and chunk."""
    chunk, backward = divmod(code, 2)
    step = Step(BACKWARD if backward else FORWARD, 0, chunk)
    stage, stages, chunks = actor.position.stage, program.stages, program.chunks
    first, last = stage == 0 and chunk == 0, stage == stages - 1 and chunk == chunks - 1
    block = actor.blocks[step.kind, chunk]
    target = hand_over(step, stage, stages, chunks) or (stage, step)
    traffic = actor.send[step.kind, chunk]
    rate = float("inf") if traffic is None else alone_rate(traffic, program.capacities)
    return Row(
        source=last if backward else first,
        seconds=_alone(block.segments),
        segments=block.segments,
        length=block.seconds.total,
        traffic=traffic,
        rate=rate,
        alone=0.0 if traffic is None else traffic.latency + traffic.nbytes / rate,
        stage=target[0],
        shift=2 * (target[1].chunk - chunk),
    )


def _alone(segments: tuple[float | Traffic, ...]) -> float:
    """Return the time of a block that is all in one piece; NaN for others [s]."""
    first, *rest = segments
    return NOTHING if rest or isinstance(first, Traffic) else first
