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
from clustersim.engine.network.contention_check import Passage
from clustersim.engine.network.network import Network
from clustersim.engine.network.transfer import Transfer
from clustersim.program.fold import alone_rate
from clustersim.program.ops import Actor, Position, Program
from clustersim.program.steps import WEIGHT, Code, completing
from clustersim.timeline import (
    EMBEDDING,
    FORWARD,
    GRADIENTS,
    NORM,
    OPTIMISER,
    PARAMETERS,
    Joint,
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
    shared : collectives that crossed links, with their times
    together : all collectives that rank classes began together
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.env = Clock()
        self.network = Network(self.env, program.capacities)
        self._meetings: dict[tuple[Any, ...], Meeting] = {}
        self.shared: list[Passage] = []
        self.together: list[Joint] = []

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
    """What a rank class does in steps of one code.

    Attributes
    ----------
    source : whether it needs nothing that another chunk makes
    seconds : of a fused block; NaN where its collectives are ops of their own
    segments : of the block otherwise
    length : of the block with all links to itself [s]
    stage, shift : who gets the result, and what to add to this step's address for that of the step
        it is for; stage -1 where nobody does
    traffic : it is handed on with; None where it stays on the stage
    rate, alone : of one flow, and time of the whole, when it meets nobody [B/s], [s]
    direction : 0 to the next stage, 1 to the one before
    leads, follows : whether it is the first or the second of two steps beside each other; the
        first waits for the inputs of both, the second hands on the results of both
    """

    source: bool
    seconds: float
    segments: tuple[float | Traffic, ...]
    length: float
    stage: int
    shift: int
    traffic: Traffic | None
    rate: float
    alone: float
    direction: int
    leads: bool
    follows: bool


class Rank:
    """One rank class on its way through the step.

    Attributes
    ----------
    at : the step it is at, by its place in the order
    codes, inputs : of its steps, as in `Order`
    wanted : address of the input it waits for; -1 for none
    completing : by the place of a step that completes the gradients of a chunk, how many did before
    reducing : the reduction of gradients that was begun last, if any
    finished, waits : whether it got through, and what it waits for if not
    """

    def __init__(self, crew: Crew, actor: Actor) -> None:
        self.crew, self.actor = crew, actor
        self.env, self.network = crew.env, crew.network
        self.blocking = crew.program.blocking
        self.finished = False
        self.waits = "its first step"
        self.at = 0
        self.wanted = -1
        order, stage = crew.program.order, actor.position.stage
        self.codes: list[int] = order.of[stage].tolist()
        self.inputs: list[int] = order.inputs[stage].tolist()
        self.rows = [row_of(actor, crew.program, code) for code in order.codes]
        beside = actor.tail.overlapped and actor.tail.gradients
        self.completing = completing(order, stage) if beside else {}
        self.reducing: Event | None = None
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
            for number, piece in enumerate(piece for pieces in tail.gradients for piece in pieces):
                meeting = self.together((GRADIENTS, stage, 0, number), piece, crew.on_a_stage)
                yield from self._spanned(GRADIENTS, meeting)
        if tail.twin is not None:
            pair = min(stage, crew.program.stages - 1 - stage)
            meeting = self.together(("twin", pair), tail.twin, 2 * crew.on_a_stage)
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
        moved = transfer.traffic
        self.crew.together.append(Joint(moved.name, moved.nbytes, transfer.begin, self.env.now))
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

    def reduce_beside(self, group: int, seconds: float) -> None:
        """Begin to reduce the gradients of a chunk, which its last step of `seconds` completes."""
        work = self._reduce(group, seconds, self.reducing)
        self.reducing = self.env.process(work)

    def _reduce(
        self, group: int, seconds: float, before: Event | None
    ) -> Generator[Event, Any, None]:
        """Reduce gradients piece by piece as they are made, after those of the chunk before."""
        stage, pieces = self.actor.position.stage, self.actor.tail.gradients[group]
        begun = self.env.now
        if before is not None:
            yield before
        for number, piece in enumerate(pieces):
            ready = begun + seconds * (number + 1) / len(pieces)
            if ready > self.env.now:
                yield Timeout(self.env, ready - self.env.now)
            name = GRADIENTS, stage, group, number
            yield from self.together(name, piece, self.crew.on_a_stage)

    def _last_piece(self) -> Process:
        """Wait until the last piece is reduced; all of the wait is for communication."""
        ready, pieces = float(self.env.now), self.actor.tail.gradients
        name = GRADIENTS, self.actor.position.stage, len(pieces) - 1, len(pieces[-1]) - 1
        self.waits = pieces[-1][-1].name
        meeting = self.crew.meeting(*name, size=self.crew.on_a_stage)
        yield meeting.done
        return ready

    # --- the record ------------------------------------------------------------------------------

    def stuck_at(self) -> str:
        """Return what an unfinished rank waits for."""
        if self.wanted >= 0:
            return f"the input of {self.actor.steps[self.at].alone}"
        return self.waits

    def track(self) -> Track:
        """Return the record of this rank class."""
        position, program = self.actor.position, self.crew.program
        kind, chunk = program.order.columns(position.stage)
        microbatch = program.order.inputs[position.stage] // (2 * program.chunks)
        return Track(
            replica=position.replica,
            stage=position.stage,
            part=position.part,
            multiplicity=self.actor.multiplicity,
            kind=kind.astype(np.int8),
            microbatch=microbatch.astype(np.int32),
            chunk=chunk.astype(np.int32),
            free=np.array(self.free),
            sent=np.array(self.sent),
            start=np.array(self.start),
            end=np.array(self.end),
            tail=tuple(self.tail),
        )


def row_of(actor: Actor, program: Program, code: Code) -> Row:
    """Return what an actor does in steps of a code."""
    stage, wiring = actor.position.stage, program.wiring
    forward, weight = code.kind == FORWARD, code.kind == WEIGHT
    if code not in actor.blocks:
        return NO_ROW
    block, traffic = actor.blocks[code], actor.send[code]
    target = None if weight else wiring.onward(stage, code.chunk, forward=forward)
    rate = float("inf") if traffic is None else alone_rate(traffic, program.capacities)
    return Row(
        source=weight or not wiring.fed(stage, code.chunk, forward=forward),
        seconds=_alone(block.segments),
        segments=block.segments,
        length=block.seconds.total,
        stage=-1 if target is None else target.stage,
        shift=0 if target is None else 2 * (target.chunk - code.chunk),
        traffic=traffic,
        rate=rate,
        alone=0.0 if traffic is None else traffic.latency + traffic.nbytes / rate,
        direction=0 if wiring.upward(code.chunk, forward=forward) else 1,
        leads=code.leads,
        follows=code.beside is not None and not code.leads,
    )


NO_ROW = Row(True, 0.0, (0.0,), 0.0, -1, 0, None, float("inf"), 0.0, 0, False, False)
"""Of a code that only other stages have."""


def _alone(segments: tuple[float | Traffic, ...]) -> float:
    """Return the time of a block that is all in one piece; NaN for others [s]."""
    first, *rest = segments
    return NOTHING if rest or isinstance(first, Traffic) else first
