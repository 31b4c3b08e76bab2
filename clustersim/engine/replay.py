"""The replay: run a program's rank classes over time and return the timeline.

The engine reads no bandwidths and no FLOPs: blocks carry their seconds, traffic carries its bytes,
and the network returns when they are delivered.

Most transfers share no link with another.  So there are two methods, and the first serves nearly
all programs:

1. `UncontendedReplay` assumes that every transfer has its links to itself, and afterwards compares
   all transfers link by link.  If no link was ever overloaded, the assumption held and the timeline
   is exact.
2. Otherwise its timeline is discarded, and `EventReplay` runs the step event by event with every
   transfer in the network.  Programs with separate collectives inside blocks, or without folded
   tensor groups, are run this way at once.

The first method takes an eighth of the time of the second or less (`benchmarks/replay.py`).
"""

from dataclasses import dataclass
from typing import TypeVar

from clustersim.engine.event_replay import EventReplay
from clustersim.engine.uncontended import UncontendedReplay
from clustersim.errors import SimulationError
from clustersim.program.program import Program
from clustersim.program.schedule_check import check_steps, rows_of
from clustersim.timeline import Timeline

Method = TypeVar("Method", UncontendedReplay, EventReplay)


@dataclass(frozen=True)
class Replayed:
    """Result of a replay.

    Attributes
    ----------
    activities : transfers and collectives that ran [count]
    solves : times that the rates of contended links were solved [count]
    """

    timeline: Timeline
    activities: int
    solves: int


def replay(program: Program) -> Replayed:
    """Return the timeline of a program, by the fastest method that is exact.

    Raises
    ------
    SimulationError
        when ranks do not finish (naming what each waits for), or when the checks of bytes and
        links fail.
    ProgramError
        when ranks do not finish because their steps wait for each other in a cycle (drawn).
    """
    if program.fused.whole and program.tensor_ranks == 1:
        uncontended = run_to_end(UncontendedReplay(program))
        if not uncontended.contended():
            return result(uncontended)
    return result(run_to_end(EventReplay(program)))


def run_to_end(method: Method) -> Method:
    """Run all rank classes to the end of the step."""
    program = method.program
    method.run()
    unfinished = [rank for rank in method.ranks if not rank.finished]
    if unfinished:
        check_steps(rows_of(program), program.microbatches, program.wiring)
        waits = "; ".join(f"{r.actor.position} waits for {r.missing()}" for r in unfinished[:4])
        raise SimulationError(f"{len(unfinished)} rank classes did not finish: {waits}")
    return method


def result(method: UncontendedReplay | EventReplay) -> Replayed:
    """Check bytes and links, and return the record of all rank classes."""
    method.check()
    tracks = tuple(rank.track() for rank in method.ranks)
    timeline = Timeline(tracks, tuple(method.collectives))
    return Replayed(timeline, method.activities, method.network.solves)
