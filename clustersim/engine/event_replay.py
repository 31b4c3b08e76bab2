"""The full road: the step event by event, with every transfer in the network.

1. A rank takes its next step and waits until the step's input has arrived.
2. It computes: the block's kernels, with their collectives, one after another.
3. It hands the result to the next stage; where sends block, it waits until that is through.
"""

from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from math import isnan
from typing import Any

from simpy.events import NORMAL, Event, Timeout

from clustersim.engine.network.transfer import Transfer
from clustersim.engine.rank import NOTHING, Crew, Rank, Row
from clustersim.program.ops import Actor, Program
from clustersim.traffic import Traffic


class SteppingCrew(Crew):
    """Ranks that go through the step event by event."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.schedule: Any = self.env.schedule  # also takes a rank: an event while it computes
        self._groups: dict[tuple[int, ...], list[SteppingRank]] = {}
        self.all = [SteppingRank(self, actor) for actor in program.actors]

    def run(self) -> None:
        """Let all ranks take their first step, then let the clock run."""
        for rank in self.all:
            rank.take()
        self.env.run_out()

    def check(self) -> None:
        """Refuse books of the network that do not balance."""
        self.network.check()

    @property
    def activities(self) -> int:
        """Transfers and collectives that ran."""
        return self.network.started

    def gather(self, name: tuple[int, ...], rank: "SteppingRank") -> "list[SteppingRank] | None":
        """Note that a part of a tensor group is ready to send; return all when it is the last."""
        group = self._groups.setdefault(name, [])
        group.append(rank)
        return self._groups.pop(name) if len(group) == self.program.parts else None


class SteppingRank(Rank):
    """A rank that lives through its steps.

    It is itself the event that SimPy holds while it computes: one at a time is in flight, and an
    event for each of 200,000 blocks would cost as much as all else that a block does.
    """

    crew: SteppingCrew
    _ok = True

    def __init__(self, crew: SteppingCrew, actor: Actor) -> None:
        super().__init__(crew, actor)
        self.at = -1
        self.inbox: dict[int, float] = {}
        self.callbacks: list[Callable[[Any], None]] | None = None
        self._when_computed: list[Callable[[Any], None]] = [self._computed]
        self._sending = (-1, -1)
        self._unsent: list[int] = []
        self._busy: dict[int, deque[tuple[Traffic, SteppingRank, int]]] = {}

    def peer(self, stage: int) -> "SteppingRank":
        """Return the rank class of the same replicas and part on another stage."""
        return self.crew.all[self.crew.number(self.actor.position._replace(stage=stage))]

    def take(self) -> None:
        """Take the next step; compute when its input is there, else leave word what is wanted."""
        self.at += 1
        self.free.append(self.env._now)
        if self.at == len(self.codes):
            self.env.process(self.after())
            return
        self._begin()

    def _begin(self) -> None:
        """Compute the step at hand, unless an input of it is missing."""
        row = self.rows[self.codes[self.at]]
        if row.leads:
            self._begin_both()
        elif row.source or row.follows:
            self._compute(NOTHING)
        else:
            wanted = self.inputs[self.at]
            left = self.inbox.pop(wanted, None)
            if left is None:
                self.wanted = wanted
            else:
                self._compute(left)

    def _begin_both(self) -> None:
        """Compute the first of two steps beside each other, unless an input is missing."""
        places = [p for p in (self.at, self.at + 1) if not self.rows[self.codes[p]].source]
        inputs = [self.inputs[place] for place in places]
        missing = [wanted for wanted in inputs if wanted not in self.inbox]
        if missing:
            self.wanted = missing[0]
        else:
            self._compute(max(map(self.inbox.pop, inputs), default=NOTHING))

    def receive(self, target: int, left: float) -> None:
        """Take delivery of a step's input, which had set out at `left`."""
        self.inbox[target] = left
        if self.wanted == target:
            self.wanted = -1
            self._begin()

    def _compute(self, left: float) -> None:
        row = self.rows[self.codes[self.at]]
        self.sent.append(left)
        self.start.append(self.env._now)
        if self.at in self.completing:
            self.reduce_beside(self.completing[self.at], row.length)
        if isnan(row.seconds):
            self.env.process(self._segments(self.at, row.segments))
        else:
            self.callbacks = self._when_computed
            self.crew.schedule(self, NORMAL, row.seconds)

    def _computed(self, _: object) -> None:
        """Hand results on; go on at once, or when they are through where sends block."""
        self.end.append(self.env._now)
        row = self.rows[self.codes[self.at]]
        if row.leads or (row.stage < 0 and not row.follows):
            self.take()
            return
        self._unsent = [self.at - 1, self.at] if row.follows else [self.at]
        self._hand_on()

    def _hand_on(self) -> None:
        """Hand on the next result that is not handed on yet; take the next step after the last."""
        while self._unsent:
            at = self._unsent.pop(0)
            row, target = self.rows[self.codes[at]], self.inputs[at]
            if row.stage < 0:
                continue
            target += row.shift
            if row.traffic is None:
                self.receive(target, self.env._now)
            elif self.crew.program.parts > 1:
                if self._send_as_group(at, row, row.traffic, target):
                    return
            elif self.blocking:
                self._sending = row.stage, target
                self.network.start(row.traffic, self._through)
                return
            else:
                self._send_behind(row.direction, row.traffic, self.peer(row.stage), target)
        self.take()

    def _through(self, transfer: Transfer) -> None:
        """A send that held this rank up has arrived: the peer has it, and the rank goes on."""
        stage, target = self._sending
        self.peer(stage).receive(target, transfer.begin - transfer.traffic.latency)
        self._hand_on()

    def _send_behind(
        self, direction: int, traffic: Traffic, peer: "SteppingRank", target: int
    ) -> None:
        """Send without waiting, one transfer after another in each direction."""
        queue = self._busy.setdefault(direction, deque())
        queue.append((traffic, peer, target))
        if len(queue) == 1:
            self.network.start(traffic, partial(self._arrived_behind, queue))

    def _arrived_behind(
        self, queue: "deque[tuple[Traffic, SteppingRank, int]]", transfer: Transfer
    ) -> None:
        _, peer, target = queue.popleft()
        peer.receive(target, transfer.begin - transfer.traffic.latency)
        if queue:
            self.network.start(queue[0][0], partial(self._arrived_behind, queue))

    def _send_as_group(self, at: int, row: Row, traffic: Traffic, target: int) -> bool:
        """Send once for the whole tensor group, when its last part is ready.

        Returns
        -------
        bool
            Whether the rank waits for the send.
        """
        group = self.crew.gather((*self.actor.position[:2], at), self)
        if group is None:
            return self.blocking
        peers = [rank.peer(row.stage) for rank in group]

        def arrived(transfer: Transfer) -> None:
            for peer in peers:
                peer.receive(target, transfer.begin - transfer.traffic.latency)
            if self.blocking:
                for rank in group:
                    rank._hand_on()

        self.network.start(traffic, arrived)
        return self.blocking

    def _segments(
        self, at: int, segments: tuple[float | Traffic, ...]
    ) -> Generator[Event, Any, None]:
        """Run a block whose collectives share their links with others."""
        for number, segment in enumerate(segments):
            if isinstance(segment, Traffic):
                self.waits = segment.name
                name = ("tensor", self.actor.position[:2], at, number)
                yield from self.together(name, segment, self.crew.program.parts)
            else:
                yield Timeout(self.env, segment)
        self._computed(None)
