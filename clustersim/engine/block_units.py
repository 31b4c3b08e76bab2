"""A block unit by unit: gathers ahead, reductions behind, and collectives between its kernels.

The order is that of `program.blocks.units`: the device computes one unit after another, each
channel carries one move after another in the order of the requests.  Collectives that share links
are in the network, so that all of them progress at the rates that max-min fairness gives them.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

from simpy.events import Event

from clustersim.engine.rank import Rank
from clustersim.program.blocks.units import Channel, Move, OnStage, Shared, Units, stretched_units
from clustersim.traffic import Traffic


class Turn(NamedTuple):
    """A place in the queue of a channel: the end of the move before, and that of this one.

    `request` : of a move that is requested late
    """

    after: Event | None
    done: Event
    request: Event | None = None


class Running(NamedTuple):
    """The unit that runs when moves are requested: the event of its start, and its time [s]."""

    begun: Event
    compute: float


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
            moves, begun = block.units[ahead].fetch, fetched[number] if fetched[number:] else None
            running = None if begun is None else Running(begun, unit.compute)
            fetched.append(_carry(rank, (step, ahead, "fetch"), moves, queues, running))
        yield fetched[number]
        for place, segment in enumerate(unit.segments or (unit.compute,)):
            if isinstance(segment, Traffic | OnStage):
                yield from _collective(rank, (step, number, place), segment)
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
    running: Running | None = None,
) -> Event:
    """Carry moves one after another, each when its channel is free; return the end of the last."""
    turns = []
    for move in moves:
        request = None
        if running is not None and move.late is not None:
            request = rank.env.process(_request(rank, running, move.late))
        turns.append(Turn(queues.get(move.channel), Event(rank.env), request))
        queues[move.channel] = turns[-1].done
    return rank.env.process(_moves(rank, name, moves, turns))


def _request(rank: Rank, running: Running, late: float) -> Generator[Event, Any, None]:
    """End some time before the unit that runs now, if no link slows it down."""
    yield running.begun
    yield rank.env.after(max(0.0, running.compute - late))


def _moves(
    rank: Rank, name: tuple[Any, ...], moves: Sequence[Move], turns: Sequence[Turn]
) -> Generator[Event, Any, None]:
    for place, (move, turn) in enumerate(zip(moves, turns, strict=True)):
        if turn.request is not None:
            yield turn.request
        if turn.after is not None:
            yield turn.after
        if move.shared is None:
            yield rank.env.after(move.seconds)
        else:
            yield from _collective(rank, (*name, place), move.shared)
        turn.done.succeed()


def _collective(rank: Rank, name: tuple[Any, ...], moved: Shared) -> Generator[Event, Any, None]:
    """Take part in a collective inside a block, of a cell or of all replicas of a stage."""
    replica, stage, _ = rank.actor.position
    if isinstance(moved, OnStage):
        yield from rank.collective((stage, *name), moved.traffic, rank.state.ranks_of_stage)
    else:
        yield from rank.collective((replica, stage, *name), moved, rank.state.program.tensor_ranks)
