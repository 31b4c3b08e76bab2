"""The replay: run a program's rank classes over time and return the timeline.

The engine reads no bandwidths and no FLOPs: blocks carry their seconds, traffic carries its bytes,
and the network returns when they are delivered.

Most transfers share no link with another, and most periods of a pipeline repeat.  So there are two
methods, which give the same timeline, and the first serves nearly all programs:

1. `DirectReplay` assumes that every transfer has its links to itself, and afterwards compares
   all transfers link by link.  Where a link was overloaded, the next attempt runs the transfers of
   this link in the network.  Periods that repeat are derived (`steady_state`).
2. `EventReplay` runs the step event by event with every transfer in the network.  It serves
   programs with separate collectives inside blocks or without folded tensor groups, and those of
   which a large part shares links.  Periods that repeat are derived too (`repeated_events`).

`benchmarks/replay.py` compares their times.
"""

from typing import NamedTuple, TypeVar

from clustersim.engine.clock import time_grid
from clustersim.engine.direct_replay import DirectReplay
from clustersim.engine.event_replay import EventReplay
from clustersim.engine.repeated_events import skip_repeated_events
from clustersim.engine.steady_state import repeats, skip_repeated_periods
from clustersim.errors import SimulationError
from clustersim.program.program import Program
from clustersim.program.schedules.check import check_steps, rows_of
from clustersim.records import dataclass
from clustersim.timeline import Timeline

ATTEMPTS = 8
"""Times that a program is replayed directly before its events are."""

MOST_SHARED = 0.5
"""Share of the transfers of a program above which their events are replayed, if none repeat."""

Method = TypeVar("Method", DirectReplay, EventReplay)


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


class Attempt(NamedTuple):
    """A replay in which transfers share some links only.

    Attributes
    ----------
    overloaded : other links that were overloaded, so that the replay is not exact
    contended : other links that were contended in the network, which is exact if no replicas of a
        class differ in them
    """

    method: DirectReplay | EventReplay
    overloaded: frozenset[int]
    contended: frozenset[int]


def replay(program: Program, *, exact: bool = False) -> Replayed:
    """Return the timeline of a program, by the fastest method.

    Parameters
    ----------
    exact : whether to run every period of the pipeline, and derive none from the one before

    Raises
    ------
    SimulationError
        when ranks do not finish (naming what each waits for), or when the checks of bytes and
        links fail.
    ProgramError
        when ranks do not finish because their steps wait for each other in a cycle (drawn).
    """
    if program.fused.whole and program.tensor_ranks == 1:
        direct = direct_replay(program, exact=exact)
        if direct is not None:
            return result(direct)
    return result(_event_replay(program, exact=exact))


def replay_sharing(program: Program, shared: frozenset[int], *, exact: bool = False) -> Attempt:
    """Return a replay in which transfers share some links; all if blocks are not fused.

    Parameters
    ----------
    shared : links that transfers over them may share
    exact : as in `replay`
    """
    if not program.fused.whole or (shared and not _few_are_shared(program, shared)):
        events = _event_replay(program, exact=exact)
        return Attempt(events, frozenset(), frozenset(events.network.contended) - shared)
    direct = _attempt(program, shared, exact=exact)
    through = {link for series in direct.network_transfers for link in series.traffic.links}
    contended = through & direct.network.contended
    return Attempt(direct, direct.overloaded_links(), frozenset(contended) - shared)


def direct_replay(program: Program, *, exact: bool = False) -> DirectReplay | None:
    """Return the direct replay of a program; None where too many links are shared.

    Links that turn out to be overloaded are shared in the next attempt.
    """
    shared: frozenset[int] = frozenset()
    for _ in range(ATTEMPTS):
        replayed = _attempt(program, shared, exact=exact)
        overloaded = replayed.overloaded_links()
        if not overloaded:
            return replayed
        shared |= overloaded
        if not _few_are_shared(program, shared):
            break
    return None


def _few_are_shared(program: Program, shared: frozenset[int]) -> bool:
    """Return whether a program with some shared links is replayed directly.

    Programs in which most transfers share links are replayed event by event, unless their periods
    repeat, and so are those with concurrent steps.
    """
    if any(code.paired for code in program.order.codes):
        return False
    return _share_of(program, shared) <= MOST_SHARED or repeats(program.order)


def _share_of(program: Program, links: frozenset[int]) -> float:
    """Return the share of stage transfers that cross some links."""
    every = crossing = 0
    for actor in program.actors:
        for code, times in program.order.times(actor.position.stage).items():
            traffic = actor.send[code]
            if traffic is not None:
                every += times
                crossing += 0 if links.isdisjoint(traffic.links) else times
    return crossing / every


def _attempt(program: Program, shared: frozenset[int], *, exact: bool) -> DirectReplay:
    """Return a direct replay with some of the links in the network."""
    replayed = DirectReplay(program, shared)
    if not exact:
        skip_repeated_periods(replayed)
    return run_to_end(replayed)


def _event_replay(program: Program, *, exact: bool) -> EventReplay:
    """Return the event replay of a program, of which periods that repeat are derived."""
    if not repeats(program.order):
        return run_to_end(EventReplay(program))
    replayed = EventReplay(program, time_grid(program))
    if not exact:
        skip_repeated_events(replayed)
    return run_to_end(replayed)


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


def result(method: DirectReplay | EventReplay) -> Replayed:
    """Check bytes and links, and return the record of all rank classes."""
    method.check()
    tracks = tuple(rank.track() for rank in method.ranks)
    timeline = Timeline(tracks, tuple(method.collectives))
    return Replayed(timeline, method.activities, method.network.solves)
