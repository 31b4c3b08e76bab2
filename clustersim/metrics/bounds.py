"""Lower bounds of the step time, and sums that must agree.

compute bound   the device time of the busiest rank
link bound      the bytes of the busiest link over its capacity
path bound      for every stage: the first microbatch on its way to it, its own blocks, and the
                last microbatch on its way back
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from clustersim.errors import SimulationError
from clustersim.metrics.communication import HotLink
from clustersim.program.program import Actor, Program
from clustersim.program.schedules.steps import Code
from clustersim.timeline import FORWARD, WEIGHT, Timeline, Track

SLACK = 1 + 1e-9


def check_step(
    program: Program,
    timeline: Timeline,
    links: Sequence[HotLink],
    attribution: Mapping[str, float],
) -> None:
    """Check a replay against the bounds of its step.

    Parameters
    ----------
    links : the hottest first
    attribution : mean seconds of a rank by component

    Raises
    ------
    SimulationError
        when the step is shorter than one of the bounds, when a stream ran two blocks at once, or
        when the attribution does not add up to the step time.
    """
    step = timeline.duration
    for track, actor in zip(timeline.tracks, program.actors, strict=True):
        busy = compute_bound(actor)
        if busy > step * SLACK:
            raise SimulationError(f"{actor.position} computes {busy:g} s in a step of {step:g} s")
        if _overlaps(track, step * (SLACK - 1)):
            raise SimulationError(f"{actor.position} runs two blocks at once")
    for link in links[:1]:
        if link.nbytes / link.capacity > step * SLACK:
            raise SimulationError(
                f"link {link.name} carries {link.nbytes:g} B in {step:g} s, more than its"
                f" {link.capacity:g} B/s"
            )
    shortest = path_bound(program)
    if shortest > step * SLACK:
        raise SimulationError(f"the step takes {step:g} s, its critical path {shortest:g} s")
    total = math.fsum(attribution.values())
    if not math.isclose(total, step, rel_tol=1e-9):
        raise SimulationError(f"attribution adds up to {total:g} s, not the step's {step:g} s")


def compute_bound(actor: Actor, without: str | None = None) -> float:
    """Return the device time of all blocks of one rank, `without` those of a kind [s]."""
    times = actor.order.times(actor.position.stage)
    drawn = 0.0 if actor.extra is None else float(actor.extra.sum())
    return drawn + sum(
        (block.seconds.compute + block.late) * times[code]
        for code, block in actor.blocks.items()
        if code.kind != without
    )


def path_bound(program: Program) -> float:
    """Return the longest of the shortest possible ways through each stage [s].

    A stage cannot start before the first microbatch has passed all stages before it, and the step
    cannot end before the last backward has passed them on its way back, which needs no gradient of
    a weight. Zero for schedules whose chunks do not all begin at the first stage, or that run two
    steps concurrently, and where steps take random times.
    """
    longest, wiring = 0.0, program.wiring
    paired = any(code.paired for code in program.order.codes)
    if wiring.name != "loop" or paired or not all(actor.repeats for actor in program.actors):
        return longest
    folded = program.tensor_ranks
    for first in range(0, len(program.actors), program.stages * folded):
        ahead, back = 0.0, 0.0
        for actor in program.actors[
            first : first + program.stages * program.tensor_ranks : program.tensor_ranks
        ]:
            awaited = compute_bound(actor, without=WEIGHT)
            longest = max(longest, ahead + compute_bound(actor), ahead + awaited + back)
            first_chunk = [code for code in actor.blocks if code.chunk == 0]
            ahead += sum(_uncontended(actor, code) for code in first_chunk if code.kind == FORWARD)
            back += sum(_uncontended(actor, code) for code in first_chunk if code.kind != FORWARD)
    return longest


def _uncontended(actor: Actor, code: Code) -> float:
    """Return the time of one block of the first chunk and of its transfer, without other traffic.

    No stage waits for gradients of weights.
    """
    block = actor.blocks[code]
    seconds = block.seconds.compute + block.late if code.kind != WEIGHT else 0.0
    traffic = actor.send[code]
    if code.kind != FORWARD or traffic is None:
        return seconds
    return seconds + traffic.latency + traffic.nbytes / traffic.cap


def _overlaps(track: Track, rounding: float) -> bool:
    """Return whether blocks overlap by more than the rounding of instants [s]."""
    start, end = track.start, track.end
    return bool(np.any(start[1:] < end[:-1] - rounding) or np.any(end < start - rounding))
