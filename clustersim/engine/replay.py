"""The replay: every rank class lives through its steps, and the network carries what they hand on.

    1. A rank takes its next step and waits until the step's input has arrived.
    2. It computes: the block's kernels, with their collectives, one after another.
    3. It hands the result to the next stage; where sends block, it waits until that is through.
    4. After its last step it reduces gradients with its replicas, the tied embedding with the
       other end of the pipeline, and the gradient norm with everybody; then the optimiser runs.

Nothing here knows bandwidths or FLOPs: blocks bring their seconds, traffic brings its bytes, and
`network` says when they are through.

Most transfers meet nobody.  So a step is first replayed as if that held for all of them: then the
end of a transfer is known when it starts, ranks only wait for inputs, and no clock is needed to
order them.  Afterwards all transfers are compared, link by link.  If no link was ever asked for
more than it has, that was the true replay; else it is thrown away and the step is replayed event
by event, with every transfer in the network.
"""

import gc
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from simpy.events import NORMAL, Event, Timeout

from clustersim.engine.clock import Clock
from clustersim.engine.network import Network, Transfer
from clustersim.engine.passages import Passage, check_delivered, crowded
from clustersim.errors import SimulationError
from clustersim.program.check import check_steps, steps_of
from clustersim.program.fold import alone_rate
from clustersim.program.ops import BACKWARD, FORWARD, Actor, Position, Program, Step, hand_over
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
NOTHING = float("nan")


@dataclass(frozen=True)
class Replayed:
    """What a replay leaves behind.

    Attributes
    ----------
    activities : transfers and collectives that ran [count]
    solves : times that links had to be shared out [count]
    """

    timeline: Timeline
    activities: int
    solves: int


def replay(program: Program) -> Replayed:
    """Return what happened when.

    Raises
    ------
    SimulationError
        when ranks are left unfinished (naming what each waits for), or bytes or links are wrong.
    ProgramError
        when they are left because their steps wait for each other in a circle (drawn).
    """
    if program.fused.whole and program.parts == 1:
        ranks = _replayed(program, alone=True)
        if not ranks.met():
            return ranks.result()
    return _replayed(program, alone=False).result()


def _replayed(program: Program, *, alone: bool) -> "_Ranks":
    """Return all rank classes after the step, with every transfer on its own or in the network."""
    env = Clock()
    network = Network(env, program.capacities)
    ranks = _Ranks(env, network, program, alone=alone)
    with _uncollected():
        if alone:
            ranks.flow()
        else:
            for rank in ranks.all:
                rank.take()
        env.run_out()
    stuck = [rank for rank in ranks.all if not rank.finished]
    if stuck:
        check_steps(steps_of(program), program.microbatches, program.chunks)
        waits = "; ".join(f"{r.actor.position} waits for {r.stuck_at()}" for r in stuck[:4])
        raise SimulationError(f"{len(stuck)} rank classes did not finish: {waits}")
    network.check()
    return ranks


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector from walking a growing record that holds no garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Ranks:
    """All rank classes, and the meetings that several of them hold together."""

    def __init__(self, env: Clock, network: Network, program: Program, *, alone: bool) -> None:
        self.env, self.network, self.program, self.alone = env, network, program, alone
        self.schedule: Any = env.schedule  # also takes a rank, which is an event while it computes
        self.codes = 2 * program.chunks
        self._meetings: dict[tuple[Any, ...], _Meeting] = {}
        self._groups: dict[tuple[int, ...], list[_Rank]] = {}
        self.shared: list[Passage] = []
        self.all = [_Rank(self, actor) for actor in program.actors]

    def flow(self) -> None:
        """Let all ranks run through their steps with transfers that meet nobody."""
        ready = deque(self.all)
        while ready:
            ready.popleft().flow(ready)

    def result(self) -> Replayed:
        """Return the record of all rank classes."""
        passages = [p for rank in self.all for p in rank.passages] if self.alone else []
        check_delivered(passages)
        return Replayed(
            Timeline(tuple(rank.track() for rank in self.all)),
            self.network.started + sum(len(passage.begin) for passage in passages),
            self.network.solves,
        )

    def met(self) -> bool:
        """Whether transfers that were taken to be alone would have slowed each other down."""
        passages = [passage for rank in self.all for passage in rank.passages]
        return crowded([*passages, *self.shared], self.program.capacities)

    def number(self, position: Position) -> int:
        """Return the place of a rank class in the program's order."""
        stages, parts = self.program.stages, self.program.parts
        return (position.replica * stages + position.stage) * parts + position.part

    def peer(self, actor: Actor, stage: int) -> "_Rank":
        """Return the rank class of the same replicas and part on another stage."""
        return self.all[self.number(actor.position._replace(stage=stage))]

    def gather(self, name: tuple[int, ...], rank: "_Rank") -> "list[_Rank] | None":
        """Note that a part of a tensor group is ready to send; return all when it is the last."""
        group = self._groups.setdefault(name, [])
        group.append(rank)
        return self._groups.pop(name) if len(group) == self.program.parts else None

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


class _Row(NamedTuple):
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


class _Rank:
    """One rank class on its way through the step.

    It is itself the event that SimPy holds while it computes: one at a time is in flight, and an
    event for each of 200,000 blocks would cost as much as all else that a block does.
    """

    _ok = True

    def __init__(self, ranks: "_Ranks", actor: Actor) -> None:
        self.ranks, self.actor = ranks, actor
        self.env, self.network = ranks.env, ranks.network
        self.finished = False
        self.waits = "its first step"
        self.at = 0 if ranks.alone else -1
        self.wanted = -1
        self.clock = 0.0
        self.inbox: dict[int, float] = {}
        self.arrivals: dict[int, tuple[float, float]] = {}
        self.channel = [0.0, 0.0]
        self.behind: list[list[float]] = [[] for _ in range(ranks.codes)]
        self.keys = actor.keys
        self.rows = [_row(actor, ranks.program, code) for code in range(ranks.codes)]
        self.free: list[float] = []
        self.sent: list[float] = []
        self.start: list[float] = []
        self.end: list[float] = []
        self.tail: list[Span] = []
        self.callbacks: list[Callable[[Any], None]] | None = None
        self._when_computed: list[Callable[[Any], None]] = [self._computed]
        self._blocking = ranks.program.blocking
        self._codes, self._parts = ranks.codes, ranks.program.parts
        self._first_peer = ranks.number(actor.position._replace(stage=0))
        self._sending = (-1, -1)
        self._busy: dict[int, deque[tuple[Traffic, _Rank, int]]] = {}

    # --- the story, when transfers meet nobody ---------------------------------------------------

    def flow(self, ready: "deque[_Rank]") -> None:
        """Run on until an input is missing; whoever waited for a result of this rank is ready.

        Results do not depend on whose turn it is: a rank reads only what was sent to it.
        """
        keys, rows, codes, inbox = self.keys, self.rows, self._codes, self.arrivals
        free, sent, start, end = self.free, self.sent, self.start, self.end
        at, now = self.at, self.clock
        while at < len(keys):
            key = keys[at]
            source, seconds, _, _, traffic, _, alone, stage, shift = rows[key % codes]
            left = NOTHING
            begin = now
            if not source:
                arrival = inbox.pop(key, None)
                if arrival is None:
                    self.at, self.clock, self.wanted = at, now, key
                    return
                left, arrived = arrival
                if arrived > now:
                    begin = arrived
            free.append(now)
            sent.append(left)
            start.append(begin)
            now = computed = begin + seconds
            end.append(computed)
            at += 1
            if traffic is not None:
                leaves = computed if self._blocking else max(computed, self.channel[key % 2])
                through = leaves + alone
                if self._blocking:
                    now = through
                else:
                    self.channel[key % 2] = through
                    self.behind[key % codes].append(leaves)
                peer = self.ranks.all[self._first_peer + stage * self._parts]
                peer.arrivals[key + shift] = leaves, through
                if peer.wanted == key + shift:
                    peer.wanted = -1
                    ready.append(peer)
        self.at = at
        free.append(now)
        self._go_on_at(start[-1], now)

    def _go_on_at(self, last: float, done: float) -> None:
        """Leave what follows the last step, and runs beside it, to the clock."""
        env = self.env
        if self.actor.tail.overlapped:
            length = self.rows[self.keys[-1] % self._codes].length
            env.call_at(last, lambda: env.process(self._reduce_beside(length)))
        env.call_at(done, lambda: env.process(self._after()))

    # --- the story, event by event ---------------------------------------------------------------

    def take(self) -> None:
        """Take the next step; compute when its input is there, else leave word what is wanted."""
        self.at = at = self.at + 1
        self.free.append(self.env._now)
        if at == len(self.keys):
            self.env.process(self._after())
            return
        key = self.keys[at]
        if self.rows[key % self._codes].source:
            self._compute(NOTHING)
            return
        left = self.inbox.pop(key, None)
        if left is None:
            self.wanted = key
        else:
            self._compute(left)

    def receive(self, key: int, left: float) -> None:
        """Take delivery of a step's input, which had set out at `left`."""
        if self.wanted == key:
            self.wanted = -1
            self._compute(left)
        else:
            self.inbox[key] = left

    def _compute(self, left: float) -> None:
        row = self.rows[self.keys[self.at] % self._codes]
        self.sent.append(left)
        self.start.append(self.env._now)
        if self.at == len(self.keys) - 1 and self.actor.tail.overlapped:
            self.env.process(self._reduce_beside(row.length))
        if isnan(row.seconds):
            self.env.process(self._segments(self.at, row.segments))
        else:
            self.callbacks = self._when_computed
            self.ranks.schedule(self, NORMAL, row.seconds)

    def _computed(self, _: object) -> None:
        """Hand the result on; go on at once, or when it is through where sends block."""
        self.end.append(self.env._now)
        key = self.keys[self.at]
        row = self.rows[key % self._codes]
        if row.traffic is None:
            self.take()
            return
        target = key + row.shift
        if self._parts > 1:
            self._send_as_group(key, row, target)
        elif self._blocking:
            self._sending = row.stage, target
            self.network.start(row.traffic, self._through)
        else:
            self._send_behind(key % 2, row.traffic, self.ranks.peer(self.actor, row.stage), target)
            self.take()

    def _through(self, transfer: Transfer) -> None:
        """A send that held this rank up has arrived: the peer has it, and the next step begins."""
        stage, target = self._sending
        peer = self.ranks.all[self._first_peer + stage * self._parts]
        peer.receive(target, transfer.begin - transfer.traffic.latency)
        self.take()

    def _send_behind(self, direction: int, traffic: Traffic, peer: "_Rank", target: int) -> None:
        """Send without waiting, one transfer after another in each direction."""
        queue = self._busy.setdefault(direction, deque())
        queue.append((traffic, peer, target))
        if len(queue) == 1:
            self.network.start(traffic, partial(self._arrived_behind, queue))

    def _arrived_behind(
        self, queue: "deque[tuple[Traffic, _Rank, int]]", transfer: Transfer
    ) -> None:
        _, peer, target = queue.popleft()
        peer.receive(target, transfer.begin - transfer.traffic.latency)
        if queue:
            self.network.start(queue[0][0], partial(self._arrived_behind, queue))

    def _send_as_group(self, key: int, row: _Row, target: int) -> None:
        """Send once for the whole tensor group, when its last part is ready."""
        assert row.traffic is not None
        group = self.ranks.gather((*self.actor.position[:2], key), self)
        if group is None:
            if not self._blocking:
                self.take()
            return
        peers = [self.ranks.peer(rank.actor, row.stage) for rank in group]

        def arrived(transfer: Transfer) -> None:
            for peer in peers:
                peer.receive(target, transfer.begin - transfer.traffic.latency)
            if self._blocking:
                for rank in group:
                    rank.take()

        self.network.start(row.traffic, arrived)
        if not self._blocking:
            self.take()

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
        self._computed(None)

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
        self.finished = True

    # --- meeting others --------------------------------------------------------------------------

    def _together(self, name: tuple[Any, ...], traffic: Traffic, size: int) -> Process:
        """Take part in a collective that begins when all its rank classes are ready."""
        meeting = self.ranks.meeting(*name, size=size)
        if meeting.arrive():
            meeting.begun = float(self.env.now)
            self.network.start(traffic, partial(self._end_together, meeting))
        self.waits = traffic.name
        yield meeting.done
        return meeting.begun

    def _end_together(self, meeting: _Meeting, transfer: Transfer) -> None:
        """Let all who took part go on."""
        if transfer.traffic.links:
            times = np.array([transfer.begin]), np.array([self.env.now])
            rate = alone_rate(transfer.traffic, self.ranks.program.capacities)
            number = -1 - len(self.ranks.shared)
            self.ranks.shared.append(Passage(number, transfer.traffic, rate, *times))
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

    def _reduce_beside(self, seconds: float) -> Generator[Event, Any, None]:
        """Reduce the gradients piece by piece while the last backward of `seconds` makes them."""
        stage, pieces = self.actor.position.stage, self.actor.tail.gradients
        begun = self.env.now
        for number, piece in enumerate(pieces):
            ready = begun + seconds * (number + 1) / len(pieces)
            if ready > self.env.now:
                yield Timeout(self.env, ready - self.env.now)
            yield from self._together((GRADIENTS, stage, number), piece, self.ranks.on_a_stage)

    def _last_piece(self) -> Process:
        """Wait until the last piece is reduced; all of the wait is for communication."""
        ready = float(self.env.now)
        number = len(self.actor.tail.gradients) - 1
        name = (GRADIENTS, self.actor.position.stage, number)
        self.waits = self.actor.tail.gradients[-1].name
        meeting = self.ranks.meeting(*name, size=self.ranks.on_a_stage)
        yield meeting.done
        return ready

    # --- the record ------------------------------------------------------------------------------

    def stuck_at(self) -> str:
        """Return what an unfinished rank waits for."""
        if self.wanted >= 0:
            return f"the input of {self.actor.steps[self.at]}"
        return self.waits

    @cached_property
    def passages(self) -> "list[Passage]":
        """The transfers of this rank that were taken to be alone, by kind and chunk."""
        found: list[Passage] = []
        codes = np.array(self.keys) % self._codes
        end, through = np.array(self.end), np.array(self.free[1:])
        for code, row in enumerate(self.rows):
            if row.traffic is not None:
                rows = codes == code
                sender = 2 * self.ranks.number(self.actor.position)
                sender += 0 if self._blocking else code % 2  # then both directions go at once
                leaves = end[rows] if self._blocking else np.array(self.behind[code])
                done = through[rows] if self._blocking else leaves + row.alone
                begin = leaves + row.traffic.latency
                found.append(Passage(sender, row.traffic, row.rate, begin, done))
        return found

    def track(self) -> Track:
        """Return the record of this rank class."""
        keys = np.array(self.keys)
        code, position = keys % self.ranks.codes, self.actor.position
        return Track(
            replica=position.replica,
            stage=position.stage,
            part=position.part,
            multiplicity=self.actor.multiplicity,
            backward=code % 2 == 1,
            microbatch=(keys // self.ranks.codes).astype(np.int32),
            chunk=(code // 2).astype(np.int32),
            free=np.array(self.free),
            sent=np.array(self.sent),
            start=np.array(self.start),
            end=np.array(self.end),
            tail=tuple(self.tail),
        )


def _row(actor: Actor, program: Program, code: int) -> _Row:
    """Return what an actor does in the steps of one kind and chunk."""
    chunk, backward = divmod(code, 2)
    step = Step(BACKWARD if backward else FORWARD, 0, chunk)
    stage, stages, chunks = actor.position.stage, program.stages, program.chunks
    first, last = stage == 0 and chunk == 0, stage == stages - 1 and chunk == chunks - 1
    block = actor.blocks[step.kind, chunk]
    target = hand_over(step, stage, stages, chunks) or (stage, step)
    traffic = actor.send[step.kind, chunk]
    rate = float("inf") if traffic is None else alone_rate(traffic, program.capacities)
    return _Row(
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
