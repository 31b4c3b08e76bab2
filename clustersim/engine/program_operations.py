"""A pipeline's program written out as a graph of operations, with the same times.

Each rank class is a chain: its steps in order, each after the arrival of its input, then its tail.
What rank classes do together, such as a collective, is one operation that follows all of them.
The order is that of `event_replay`, which replays the program itself.
"""

from collections.abc import Hashable, Iterable, Sequence
from math import isnan
from typing import Any, Final

from clustersim.engine.clock import CONTINUOUS
from clustersim.engine.rank import Action, action_of
from clustersim.program.blocks.units import (
    Channel,
    Move,
    OnStage,
    Shared,
    Units,
    stretched_segments,
    stretched_units,
)
from clustersim.program.operations import Operations
from clustersim.program.program import Actor, Position, Program
from clustersim.program.schedules.steps import completing
from clustersim.timeline import EMBEDDING, GRADIENTS, NORM, OPTIMISER, PARAMETERS
from clustersim.traffic import Traffic

COMPUTE: Final = "compute"
READY: Final = "ready"
REQUEST: Final = "request"


def operations_of(program: Program) -> Operations:
    """Return a program as a graph of operations."""
    return _Writer(program).graph


class _Writer:
    """The graph of a program while it is written.

    Attributes
    ----------
    joined : by name, operations of several rank classes
    arrivals : by rank class and address, the operation after which an input has arrived
    awaited : by operation, the rank class and address of an input that it waits for
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.graph = Operations()
        self.joined: dict[Hashable, int] = {}
        self.arrivals: dict[tuple[Position, int], int] = {}
        self.awaited: list[tuple[int, Position, int]] = []
        each = enumerate(zip(program.rates, program.actors, strict=True))
        for rank, (rates, actor) in each:
            actions = [
                action_of(actor, rates, program, code, CONTINUOUS) for code in program.order.codes
            ]
            _RankWriter(self, rank, actor, actions).write()
        for number, position, address in self.awaited:
            self.graph.follow(number, self.arrivals[position, address])

    @property
    def ranks_of_stage(self) -> int:
        """Rank classes of one stage."""
        return self.program.classes * self.program.tensor_ranks

    def join(self, name: Hashable, traffic: Traffic, rank: int, after: Iterable[int]) -> int:
        """Let a rank class take part in a collective of a name, which follows all of them."""
        if name not in self.joined:
            self.joined[name] = self.graph.add(traffic.name, traffic=traffic)
        joined = self.joined[name]
        self.graph.follow(joined, *after)
        self.graph.ranks[joined].append(rank)
        return joined


class _RankWriter:
    """The operations of one rank class.

    Attributes
    ----------
    last : the latest of its chain
    sending : by direction, its latest send in the background
    reduced : the latest reduction of gradients that overlaps with its steps
    """

    def __init__(self, writer: _Writer, rank: int, actor: Actor, actions: list[Action]) -> None:
        self.writer, self.graph, self.rank = writer, writer.graph, rank
        self.actor, self.actions = actor, actions
        order, self.stage = writer.program.order, actor.position.stage
        self.codes: list[int] = order.of[self.stage].tolist()
        self.inputs: list[int] = order.inputs[self.stage].tolist()
        overlapped = actor.tail.overlapped and actor.tail.gradients
        self.completing = completing(order, self.stage) if overlapped else {}
        self.last = self.add("begin")
        self.sending: dict[int, int] = {}
        self.reduced: int | None = None

    def write(self) -> None:
        """Write the steps in order, and the tail."""
        for at in range(len(self.codes)):
            self._await_inputs(at)
            self._compute(at)
            self._send(at)
        self._tail()

    def add(
        self,
        name: str,
        after: Iterable[int] = (),
        *,
        seconds: float = 0.0,
        traffic: Traffic | None = None,
    ) -> int:
        """Add an operation of this rank class."""
        return self.graph.add(name, after, seconds=seconds, traffic=traffic, ranks=[self.rank])

    def join(self, name: Hashable, traffic: Traffic, *after: int) -> int:
        """Take part in a collective of a name."""
        return self.writer.join(name, traffic, self.rank, after)

    def then(self, name: str, seconds: float) -> int:
        """Compute for a time after the latest operation."""
        self.last = self.add(name, [self.last], seconds=seconds)
        return self.last

    def after(self, *others: int) -> None:
        """Wait for other operations."""
        self.last = self.add("wait", [self.last, *others])

    # --- steps ------------------------------------------------------------------------------------

    def _await_inputs(self, at: int) -> None:
        action = self.actions[self.codes[at]]
        steps = [at, at + 1] if action.leads else [] if action.follows else [at]
        missing = [step for step in steps if not self.actions[self.codes[step]].source]
        self.after()
        for step in missing:
            self.writer.awaited.append((self.last, self.actor.position, self.inputs[step]))

    def _compute(self, at: int) -> None:
        action = self.actions[self.codes[at]]
        more = 0.0 if self.actor.extra is None else float(self.actor.extra[at])
        if at in self.completing:
            self._reduce(self.completing[at], action.duration + more)
        if action.units is not None and self._shares_links(action.units, at):
            units = stretched_units(action.units, more) if more else action.units
            self._units(at, units)
        elif isnan(action.seconds):
            segments = stretched_segments(action.segments, more) if more else action.segments
            for number, segment in enumerate(segments):
                if isinstance(segment, Traffic):
                    name = "tensor", self.actor.position[:2], at, number
                    self.last = self.join(name, segment, self.last)
                else:
                    self.then(COMPUTE, segment)
        else:
            self.then(COMPUTE, action.seconds + more)

    def _shares_links(self, units: Units, at: int) -> bool:
        return units.always or (bool(self.completing) and at >= min(self.completing))

    def _send(self, at: int) -> None:
        """Send the results of a step; of two concurrent steps after the second."""
        action = self.actions[self.codes[at]]
        if action.leads:
            return
        for step in [at - 1, at] if action.follows else [at]:
            self._send_result(step)

    def _send_result(self, at: int) -> None:
        action, program = self.actions[self.codes[at]], self.writer.program
        if action.stage < 0:
            return
        target = self.inputs[at] + action.shift
        position = self.actor.position
        if action.traffic is None:
            self.writer.arrivals[position, target] = self.last
            return
        before = self.sending.get(action.direction)
        follows = [self.last] if before is None or program.blocking else [self.last, before]
        if program.tensor_ranks > 1:
            sent = self.join(("send", *position[:2], at), action.traffic, *follows)
        else:
            sent = self.add(action.traffic.name, follows, traffic=action.traffic)
        self.sending[action.direction] = sent
        self.writer.arrivals[position._replace(stage=action.stage), target] = sent
        if program.blocking:
            self.after(sent)

    # --- blocks unit by unit ----------------------------------------------------------------------

    def _units(self, at: int, block: Units) -> None:
        queues: dict[Channel, int] = {}
        fetched: list[int] = []
        pushed: list[int] = []
        for number, unit in enumerate(block.units):
            for ahead in range(len(fetched), min(number + 1 + block.ahead, len(block.units))):
                begun = fetched[number] if fetched[number:] else None
                name, moves = (at, ahead, "fetch"), block.units[ahead].fetch
                fetched.append(self._carry(name, moves, queues, begun, unit.compute))
            self.after(fetched[number])
            for index, segment in enumerate(unit.segments or (unit.compute,)):
                if isinstance(segment, Traffic | OnStage):
                    self.last = self._collective((at, number, index), segment, self.last)
                else:
                    self.then(COMPUTE, segment)
            pushed.append(self._carry((at, number, "push"), unit.push, queues))
            if not block.ahead:
                self.after(pushed[number])
        self.after(*pushed)
        self.then(COMPUTE, block.rest)

    def _carry(
        self,
        name: tuple[Any, ...],
        moves: Sequence[Move],
        queues: dict[Channel, int],
        begun: int | None = None,
        compute: float = 0.0,
    ) -> int:
        """Carry moves one after another, each when its channel is free; return the last."""
        done = self.last
        for index, move in enumerate(moves):
            follows = [done]
            if move.channel in queues:
                follows.append(queues[move.channel])
            if begun is not None and move.late is not None:
                late = max(0.0, compute - move.late)
                follows.append(self.add(REQUEST, [begun, self.last], seconds=late))
            done = self.add("carry", follows)
            if move.shared is None:
                done = self.add(move.channel, [done], seconds=move.seconds)
            else:
                done = self._collective((*name, index), move.shared, done)
            queues[move.channel] = done
        return done

    def _collective(self, name: tuple[Any, ...], moved: Shared, after: int) -> int:
        """Take part in a collective inside a block, of a cell or of all replicas of a stage."""
        replica, stage, _ = self.actor.position
        if isinstance(moved, OnStage):
            return self.join((stage, *name), moved.traffic, after)
        return self.join((replica, stage, *name), moved, after)

    # --- after the last step ----------------------------------------------------------------------

    def _reduce(self, group: int, seconds: float) -> None:
        """Reduce the gradients of a chunk piece by piece as its last step computes them."""
        pieces = self.actor.tail.gradients[group]
        begun = self.last
        for number, piece in enumerate(pieces):
            begun = self.add(READY, [begun], seconds=seconds / len(pieces))
            follows = [begun]
            if self.reduced is not None:
                follows.append(self.reduced)
            name = GRADIENTS, self.stage, group, number
            joined = self.add("gradients", follows)
            self.reduced = self.join(name, piece, joined)

    def _tail(self) -> None:
        tail, program = self.actor.tail, self.writer.program
        if tail.overlapped and tail.gradients:
            assert self.reduced is not None
            self.after(self.reduced)
        else:
            for number, piece in enumerate(piece for pieces in tail.gradients for piece in pieces):
                self._together((GRADIENTS, self.stage, 0, number), piece)
        if tail.mirrored is not None:
            pair = min(self.stage, program.stages - 1 - self.stage)
            self._together(("mirrored", pair), tail.mirrored)
        if tail.embedding is not None:
            self._together((EMBEDDING,), tail.embedding)
        if program.norm_sync:
            traffic = Traffic(NORM, (), (), 0.0, program.norm_sync)
            self._together((NORM, self.actor.position.replica), traffic)
        self.then(OPTIMISER, tail.optimiser)
        for number, gather in enumerate(tail.parameters):
            self._together((PARAMETERS, self.stage, number), gather)

    def _together(self, name: tuple[Any, ...], traffic: Traffic) -> None:
        """Take part in a collective of the tail."""
        self.last = self.join(name, traffic, self.last)
