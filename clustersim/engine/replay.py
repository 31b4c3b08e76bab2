"""The replay: every rank class lives through its steps, and the network carries what they hand on.

Nothing in the engine knows bandwidths or FLOPs: blocks bring their seconds, traffic brings its
bytes, and `network` says when they are through.

Most transfers meet nobody.  So a step is first replayed as if that held for all of them (`alone`).
Afterwards all transfers are compared, link by link.  If no link was ever asked for more than it
has, that was the true replay; else it is thrown away and the step is replayed event by event, with
every transfer in the network (`stepping`).
"""

from dataclasses import dataclass
from typing import TypeVar

from clustersim.engine.event_replay import SteppingCrew
from clustersim.engine.uncontended import AloneCrew
from clustersim.errors import SimulationError
from clustersim.program.check import check_steps, steps_of
from clustersim.program.ops import Program
from clustersim.timeline import Timeline

Ranks = TypeVar("Ranks", AloneCrew, SteppingCrew)


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
        crew = AloneCrew(program)
        if not run(crew).met():
            return result(crew)
    return result(run(SteppingCrew(program)))


def run(crew: Ranks) -> Ranks:
    """Let all rank classes finish the step."""
    program = crew.program
    crew.run()
    stuck = [rank for rank in crew.all if not rank.finished]
    if stuck:
        check_steps(steps_of(program), program.microbatches, program.wiring)
        waits = "; ".join(f"{r.actor.position} waits for {r.stuck_at()}" for r in stuck[:4])
        raise SimulationError(f"{len(stuck)} rank classes did not finish: {waits}")
    return crew


def result(crew: AloneCrew | SteppingCrew) -> Replayed:
    """Return the record of all rank classes, its books checked."""
    crew.check()
    timeline = Timeline(tuple(rank.track() for rank in crew.all), tuple(crew.together))
    return Replayed(timeline, crew.activities, crew.network.solves)
