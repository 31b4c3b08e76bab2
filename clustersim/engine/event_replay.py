"""Event replay: the step event by event, with every transfer in the network.

1. A rank takes its next step and waits for the step's input.
2. It computes: the block's kernels and collectives, one after another.
   Where its collectives share links, it runs unit by unit: gathers ahead, reductions behind.
3. It sends the result to the next stage; where sends block, it waits until that is delivered.
"""

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from functools import partial
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from simpy.events import NORMAL, Event

from clustersim.engine.clock import CONTINUOUS, TimeGrid
from clustersim.engine.network.transfer import Transfer
from clustersim.engine.rank import NO_TIME, Action, Rank, ReplayState
from clustersim.program.blocks.units import (
    Channel,
    Move,
    OnStage,
    Shared,
    Units,
    stretched_segments,
    stretched_units,
)
from clustersim.program.program import Actor, Program
from clustersim.timeline import Floats
from clustersim.traffic import Traffic


class EventReplay(ReplayState):
    """Rank classes that run the step event by event, with instants on a grid if one is given."""

    def __init__(self, program: Program, grid: TimeGrid = CONTINUOUS) -> None:
        super().__init__(program, grid)
        self.schedule: Any = self.env.schedule  # also takes a rank: an event while it computes
        self._groups: dict[tuple[int, ...], list[EventRank]] = {}
        self.ranks = [EventRank(self, actor) for actor in program.actors]

    def run(self) -> None:
        """Start the first step of all ranks, then run the clock."""
        for rank in self.ranks:
            rank.next_step()
        self.env.run_all()

    def check(self) -> None:
        """Check that the network delivered all bytes within the capacities of its links."""
        self.network.check()

    @property
    def activities(self) -> int:
        """Transfers and collectives that ran [count]."""
        return self.network.started

    def join_send(self, name: tuple[int, ...], rank: "EventRank") -> "list[EventRank] | None":
        """Add a rank of a tensor group that is ready to send; return all ranks after the last."""
        group = self._groups.setdefault(name, [])
        group.append(rank)
        return self._groups.pop(name) if len(group) == self.program.tensor_ranks else None


class EventRank(Rank):
    """A rank class that runs its steps event by event.

    It is itself the event that SimPy holds while it computes: one at a time is pending, and an
    event object for each of 200,000 blocks would double the time of a block.

    Attributes
    ----------
    codes, inputs : of its steps, as in `Order`
    alone : whether it sends without waiting, for itself
    mark, reached : a step, and what is called when it is taken
    free, sent, start, end : the columns of its `Track`
    """

    state: EventReplay
    _ok = True

    def __init__(self, state: EventReplay, actor: Actor) -> None:
        super().__init__(state, actor)
        self.at = -1
        order, stage = state.program.order, actor.position.stage
        self.codes: list[int] = order.of[stage].tolist()
        self.inputs: list[int] = order.inputs[stage].tolist()
        self.free: list[float] = []
        self.sent: list[float] = []
        self.start: list[float] = []
        self.end: list[float] = []
        self.alone = not self.blocking and state.program.tensor_ranks == 1
        self.inbox: dict[int, float] = {}
        self.callbacks: list[Callable[[Any], None]] | None = None
        self._when_computed: list[Callable[[Any], None]] = [self._computed]
        self._segments: Iterator[tuple[int, float | Traffic]] = iter(())
        self._segment = -1
        self.mark, self.reached = -1, self.next_step
        self._when_segment_ended: list[Callable[[Any], None]] = [self._next_segment]
        position, stages = actor.position, range(state.program.stages)
        self._peers = [state.number(position._replace(stage=stage)) for stage in stages]
        self._receiver = (-1, -1)
        self._unsent: list[int] = []
        self._queues: list[deque[tuple[Traffic, Sequence[EventRank], int]]] = [deque(), deque()]
        self._when_delivered = [
            partial(self._delivered_in_background, direction) for direction in range(2)
        ]

    def columns(self) -> dict[str, Floats]:
        """Return the columns of the record of this rank class."""
        return {name: np.array(getattr(self, name)) for name in ("free", "sent", "start", "end")}

    def peer(self, stage: int) -> "EventRank":
        """Return the rank class of the same replicas and tensor rank on another stage."""
        return self.state.ranks[self._peers[stage]]

    def next_step(self) -> None:
        """Take the next step; compute when its input has arrived, else record its address."""
        self.at += 1
        self.free.append(self.env._now)
        if self.at == self.mark:
            self.reached()
        if self.at == len(self.codes):
            self.env.process(self.run_tail())
            return
        self._begin()

    def _begin(self) -> None:
        """Compute the current step, unless an input of it is missing."""
        action = self.actions[self.codes[self.at]]
        if action.leads:
            self._begin_pair()
        elif action.source or action.follows:
            self._compute(NO_TIME)
        else:
            address = self.inputs[self.at]
            departure = self.inbox.pop(address, None)
            if departure is None:
                self.awaited = address
            else:
                self._compute(departure)

    def _begin_pair(self) -> None:
        """Compute the first of two concurrent steps, unless an input of either is missing."""
        pair = self.at, self.at + 1
        steps = [step for step in pair if not self.actions[self.codes[step]].source]
        inputs = [self.inputs[step] for step in steps]
        missing = [address for address in inputs if address not in self.inbox]
        if missing:
            self.awaited = missing[0]
        else:
            self._compute(max(map(self.inbox.pop, inputs), default=NO_TIME))

    def receive(self, target: int, departure: float) -> None:
        """Receive a step's input; begin the step if it waits for it."""
        self.inbox[target] = departure
        if self.awaited == target:
            self.awaited = -1
            self._begin()

    def _compute(self, departure: float) -> None:
        action = self.actions[self.codes[self.at]]
        self.sent.append(departure)
        self.start.append(self.env._now)
        if self.at in self.completing:
            seconds = action.duration + self.additional(self.at)
            self.start_reduction(self.completing[self.at], seconds)
        if action.units is not None and shares_links(self, action.units):
            self.env.process(run_units(self, action.units, partial(self._computed, None)))
        elif isnan(action.seconds):
            self._run_segments(action.segments)
        else:
            self.callbacks = self._when_computed
            self.state.schedule(self, NORMAL, action.seconds + self.additional(self.at))

    def _computed(self, _: object) -> None:
        """Send the results, then continue; where sends block, after their delivery."""
        self.end.append(self.env._now)
        at = self.at
        action = self.actions[self.codes[at]]
        if action.leads or (action.stage < 0 and not action.follows):
            self.next_step()
        elif self.alone and action.traffic is not None and not action.follows:
            peers, target = (self.peer(action.stage),), self.inputs[at] + action.shift
            self._send_in_background(action.direction, action.traffic, peers, target)
            self.next_step()
        else:
            self._unsent = [at - 1, at] if action.follows else [at]
            self._send_results()

    def _send_results(self) -> None:
        """Send the results that remain; take the next step after the last."""
        while self._unsent:
            at = self._unsent.pop(0)
            action, target = self.actions[self.codes[at]], self.inputs[at]
            if action.stage < 0:
                continue
            target += action.shift
            if action.traffic is None:
                self.receive(target, self.env._now)
            elif self.state.program.tensor_ranks > 1:
                if self._send_as_group(at, action, action.traffic, target):
                    return
            elif self.blocking:
                self._receiver = action.stage, target
                self.network.start(action.traffic, self._delivered)
                return
            else:
                peers = (self.peer(action.stage),)
                self._send_in_background(action.direction, action.traffic, peers, target)
        self.next_step()

    def _delivered(self, transfer: Transfer) -> None:
        """Pass a blocking send to its receiver, and continue."""
        stage, target = self._receiver
        self.peer(stage).receive(target, transfer.departure)
        self._send_results()

    def _send_in_background(
        self, direction: int, traffic: Traffic, peers: "Sequence[EventRank]", target: int
    ) -> None:
        """Send without waiting, one transfer after another in each direction."""
        queue = self._queues[direction]
        queue.append((traffic, peers, target))
        if len(queue) == 1:
            self.network.start(traffic, self._when_delivered[direction])

    def _delivered_in_background(self, direction: int, transfer: Transfer) -> None:
        queue = self._queues[direction]
        _, peers, target = queue.popleft()
        for peer in peers:
            peer.receive(target, transfer.departure)
        if queue:
            self.network.start(queue[0][0], self._when_delivered[direction])

    def _send_as_group(self, at: int, action: Action, traffic: Traffic, target: int) -> bool:
        """Send once for the whole tensor group, when its last rank is ready.

        Returns
        -------
        bool
            Whether the rank waits for the send.
        """
        group = self.state.join_send((*self.actor.position[:2], at), self)
        if group is None:
            return self.blocking
        peers = [rank.peer(action.stage) for rank in group]
        if not self.blocking:
            first = min(group, key=lambda rank: rank.number)
            first._send_in_background(action.direction, traffic, peers, target)
            return False

        def delivered(transfer: Transfer) -> None:
            for peer in peers:
                peer.receive(target, transfer.departure)
            for rank in group:
                rank._send_results()

        self.network.start(traffic, delivered)
        return True

    def _run_segments(self, segments: tuple[float | Traffic, ...]) -> None:
        """Run a block whose collectives are separate operations on the links."""
        if more := self.additional(self.at):
            segments = stretched_segments(segments, more)
        self._segments = iter(enumerate(segments))
        self._next_segment(None)

    def _next_segment(self, _: object) -> None:
        """Run the next segment of the block; send the results after the last."""
        for number, segment in self._segments:
            self._segment = number
            if isinstance(segment, Traffic):
                self._collective(number, segment)
            else:
                self.callbacks = self._when_segment_ended
                self.state.schedule(self, NORMAL, self.env.grid.round(segment))
            return
        self._computed(None)

    def _collective(self, number: int, traffic: Traffic) -> None:
        """Take part in a collective of the block, which one rank class of many has to itself."""
        tensor_ranks = self.state.program.tensor_ranks
        if tensor_ranks == 1:
            self.waits_for = traffic.name
            self.network.start(traffic, self._end_own_collective)
            return
        name = ("tensor", self.actor.position[:2], self.at, number)
        done = self.join(name, traffic, tensor_ranks).done
        done.callbacks.append(self._next_segment)

    def _end_own_collective(self, transfer: Transfer) -> None:
        self.state.record(transfer)
        self._next_segment(None)

    # --- the same state later ---------------------------------------------------------------------

    @property
    def in_block(self) -> bool:
        """Whether its next event is the end of a segment of a block."""
        return self.callbacks is self._when_segment_ended

    def state_after(self, steps: int, addresses: int, now: float) -> tuple[Hashable, ...]:
        """Return all that its future depends on, counted from a step, an address and an instant."""
        at = self.at - steps
        awaited = -1 if self.awaited < 0 else self.awaited - addresses
        stage, target = self._receiver
        inbox = ((target - addresses, sent - now) for target, sent in self.inbox.items())
        queues = (
            [(id(traffic), peers[0].number, target - addresses) for traffic, peers, target in queue]
            for queue in self._queues
        )
        return (
            *(at, len(self.start) - self.at, len(self.end) - self.at, self._segment, awaited),
            *(stage, target - addresses if stage >= 0 else -1, tuple(sorted(inbox))),
            *(tuple(at - steps for at in self._unsent), *map(tuple, queues)),
        )

    def repeat(self, times: int, steps: int, addresses: int, seconds: float) -> None:
        """Repeat its last steps a number of times, and be in the same state after them.

        Parameters
        ----------
        steps, addresses, seconds : by which one repetition is after the other
        """
        later = seconds * np.arange(1.0, times + 1)[:, None]
        for column in (self.free, self.sent, self.start, self.end):
            column += (np.array(column[-steps:]) + later).ravel().tolist()
        self.at += times * steps
        moved = times * addresses
        if self.awaited >= 0:
            self.awaited += moved
        self.inbox = {at + moved: sent + times * seconds for at, sent in self.inbox.items()}
        self._receiver = self._receiver[0], self._receiver[1] + moved
        self._unsent = [at + times * steps for at in self._unsent]
        for queue in self._queues:
            waiting = [(traffic, peers, target + moved) for traffic, peers, target in queue]
            queue.clear()
            queue.extend(waiting)


# --- blocks unit by unit --------------------------------------------------------------------------
# The order is that of `program.blocks.units`: the device computes one unit after another, each
# channel carries one move after another in the order of the requests.  Collectives that share links
# are in the network, so that all of them progress at the rates that max-min fairness gives them.


class Turn(NamedTuple):
    """A position in the queue of a channel: the end of the move before, and that of this one.

    `request` : of a move that is requested late
    """

    after: Event | None
    done: Event
    request: Event | None = None


def shares_links(rank: Rank, block: Units) -> bool:
    """Return whether the current block of a rank class shares links with other traffic."""
    return block.always or (bool(rank.completing) and rank.at >= min(rank.completing))


def run_units(rank: Rank, block: Units, done: Callable[[], None]) -> Generator[Event, Any, None]:
    """Run the current block of a rank class; call `done` at its end."""
    env, step = rank.env, rank.at
    if more := rank.additional(step):
        block = stretched_units(block, more)
    queues: dict[Channel, Event] = {}
    fetched: list[Event] = []
    pushed: list[Event] = []
    for number, unit in enumerate(block.units):
        for ahead in range(len(fetched), min(number + 1 + block.ahead, len(block.units))):
            begun = fetched[number] if fetched[number:] else None
            name, moves = (step, ahead, "fetch"), block.units[ahead].fetch
            fetched.append(_carry(rank, name, moves, queues, begun, unit.compute))
        yield fetched[number]
        for index, segment in enumerate(unit.segments or (unit.compute,)):
            if isinstance(segment, Traffic | OnStage):
                yield from _collective(rank, (step, number, index), segment)
            else:
                yield env.after(segment)
        pushed.append(_carry(rank, (step, number, "push"), unit.push, queues))
        if not block.ahead:
            yield pushed[number]
    yield from pushed
    yield env.after(block.rest)
    done()


def _carry(
    rank: Rank,
    name: tuple[Any, ...],
    moves: Sequence[Move],
    queues: dict[Channel, Event],
    begun: Event | None = None,
    compute: float = 0.0,
) -> Event:
    """Carry moves one after another, each when its channel is free; return the end of the last.

    Parameters
    ----------
    begun, compute : start and time [s] of the unit that runs when late moves are requested
    """
    turns = []
    for move in moves:
        request = None
        if begun is not None and move.late is not None:
            request = rank.env.process(_request(rank, begun, compute - move.late))
        turns.append(Turn(queues.get(move.channel), Event(rank.env), request))
        queues[move.channel] = turns[-1].done
    return rank.env.process(_moves(rank, name, moves, turns))


def _request(rank: Rank, begun: Event, seconds: float) -> Generator[Event, Any, None]:
    """End some time after the start of a unit."""
    yield begun
    yield rank.env.after(max(0.0, seconds))


def _moves(
    rank: Rank, name: tuple[Any, ...], moves: Sequence[Move], turns: Sequence[Turn]
) -> Generator[Event, Any, None]:
    for index, (move, turn) in enumerate(zip(moves, turns, strict=True)):
        if turn.request is not None:
            yield turn.request
        if turn.after is not None:
            yield turn.after
        if move.shared is None:
            yield rank.env.after(move.seconds)
        else:
            yield from _collective(rank, (*name, index), move.shared)
        turn.done.succeed()


def _collective(rank: Rank, name: tuple[Any, ...], moved: Shared) -> Generator[Event, Any, None]:
    """Take part in a collective inside a block, of a cell or of all replicas of a stage."""
    replica, stage, _ = rank.actor.position
    if isinstance(moved, OnStage):
        yield from rank.collective((stage, *name), moved.traffic, rank.state.ranks_of_stage)
    else:
        yield from rank.collective((replica, stage, *name), moved, rank.state.program.tensor_ranks)
