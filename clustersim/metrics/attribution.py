"""The time of a step by component, for every rank; the components add up to the step time.

block     matmul + attention + memory_bound + dispatch, and exposed communication: tensor_,
          context_, expert_, sharding_communication, host_transfer; imbalance, where a rank has
          more tokens to compute on than the mean; overlap_slowdown, where concurrent collectives
          take compute units from kernels; disturbance, by which blocks take longer (or shorter)
          than those of undisturbed ranks
waiting   for a transfer on its way: pipeline_communication
          for a result not yet sent: bubble_fill before the first backward, bubble_drain after
          the last forward, bubble_steady between
sending   pipeline_communication, where sends block
tail      data_, embedding_communication, synchronisation, optimiser; waiting until the other
          ranks are ready, and until the end of the step, is bubble_drain
"""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clustersim.answers import record
from clustersim.program.program import Actor, Block, Program
from clustersim.timeline import EMBEDDING, GRADIENTS, NORM, OPTIMISER, PARAMETERS, Timeline, Track

PARTS = (
    "matmul",
    "attention",
    "memory_bound",
    "dispatch",
    "tensor_communication",
    "context_communication",
    "expert_communication",
    "sharding_communication",
    "host_transfer",
    "imbalance",
    "overlap_slowdown",
    "disturbance",
    "pipeline_communication",
    "data_communication",
    "embedding_communication",
    "synchronisation",
    "optimiser",
    "bubble_fill",
    "bubble_steady",
    "bubble_drain",
)
"""All components, in the order in which they are shown."""

BUBBLES = ("bubble_fill", "bubble_steady", "bubble_drain")

ROUNDING = 1e-12
"""Share of the time of blocks by which sums of their components may differ from it."""

TAIL_PARTS: Final = {
    GRADIENTS: "data_communication",
    PARAMETERS: "data_communication",
    EMBEDDING: "embedding_communication",
    NORM: "synchronisation",
    OPTIMISER: "optimiser",
}
"""The component of each operation after the blocks."""


def attribute(track: Track, actor: Actor, duration: float) -> dict[str, float]:
    """Return the seconds of each component of one rank class; their sum is `duration` [s]."""
    parts = dict.fromkeys(PARTS, 0.0)
    _blocks(parts, track, actor)
    _waits(parts, track)
    for span in track.tail:
        parts["bubble_drain"] += span.start - span.ready
        parts[TAIL_PARTS[span.name]] += span.end - span.start
    parts["bubble_drain"] += duration - track.finish
    return parts


def _blocks(parts: dict[str, float], track: Track, actor: Actor) -> None:
    for _, own in parts_by_code(track, actor):
        for part, seconds in own.items():
            parts[part] += seconds


def parts_by_code(
    track: Track, actor: Actor
) -> Iterator[tuple[NDArray[np.int64], dict[str, float]]]:
    """Yield the blocks of each code by their indices, and their seconds by component [s].

    The sum of these components is the time of the blocks.
    """
    steps = actor.order.steps_of[actor.position.stage]
    for code, block in actor.blocks.items():
        rows = steps[code]
        yield rows, _parts_of(block, rows, track, actor)


def _parts_of(
    block: Block, rows: NDArray[np.int64], track: Track, actor: Actor
) -> dict[str, float]:
    seconds, count = block.seconds, len(rows)
    parts = {
        part: count * seconds_each
        for part, seconds_each in (
            ("matmul", seconds.gemm),
            ("attention", seconds.attention),
            ("memory_bound", seconds.stream),
            ("dispatch", seconds.dispatch),
            ("tensor_communication", 0.0 if block.units is None else seconds.tensor),
            ("context_communication", seconds.context),
            ("expert_communication", seconds.expert),
            ("sharding_communication", seconds.data),
            ("host_transfer", seconds.host),
            ("imbalance", seconds.imbalance),
            ("overlap_slowdown", seconds.slowed),
            ("disturbance", block.late),
        )
    }
    taken = float((track.end[rows] - track.start[rows]).sum())
    fixed = seconds.total if block.units is not None else seconds.total - seconds.tensor
    drawn = 0.0 if actor.extra is None else float(actor.extra[rows].sum())
    parts["disturbance"] += drawn
    rest = taken - count * (fixed + block.late) - drawn
    if rest > ROUNDING * taken:
        parts[_slowed_by_sharing(block)] += rest
    elif block.late or drawn:  # longer kernels hide more of the moves of a block unit by unit
        parts["disturbance"] += rest
    return parts


def _slowed_by_sharing(block: Block) -> str:
    """Return the component that contains the delays of a block by traffic on its links."""
    if block.units is None:
        return "tensor_communication"
    if any(move.shared for unit in block.units.units for move in (*unit.fetch, *unit.push)):
        return "sharding_communication"
    seconds = block.seconds
    exposed = {"context": seconds.context, "expert": seconds.expert, "tensor": seconds.tensor}
    return f"{max(exposed, key=exposed.__getitem__)}_communication"


def _waits(parts: dict[str, float], track: Track) -> None:
    free, start, end = track.free, track.start, track.end
    rows = len(start)
    exposed = np.where(
        np.isnan(track.sent), 0.0, np.maximum(0.0, start - np.fmax(free[:rows], track.sent))
    )
    idle = start - free[:rows] - exposed
    first_backward = int(np.argmax(track.backward))
    last_forward = rows - 1 - int(np.argmax(~track.backward[::-1]))
    parts["pipeline_communication"] += float(exposed.sum() + (free[1:] - end).sum())
    parts["bubble_fill"] += float(idle[: first_backward + 1].sum())
    parts["bubble_steady"] += float(idle[first_backward + 1 : last_forward + 1].sum())
    parts["bubble_drain"] += float(idle[max(first_backward, last_forward) + 1 :].sum())


def average(timeline: Timeline, actors: Iterable[Actor]) -> dict[str, float]:
    """Return the seconds of each component, mean of all ranks; their sum is the step time [s]."""
    duration = timeline.duration
    totals = dict.fromkeys(PARTS, 0.0)
    ranks = 0
    for track, actor in zip(timeline.tracks, actors, strict=True):
        ranks += track.multiplicity
        for name, seconds in attribute(track, actor, duration).items():
            totals[name] += track.multiplicity * seconds
    return {name: seconds / ranks for name, seconds in totals.items()}


def recomputed(program: Program) -> float:
    """Return the seconds of recomputation in blocks, mean of all ranks [s]."""
    total, ranks = 0.0, 0
    for actor in program.actors:
        ranks += actor.multiplicity
        times = program.order.times(actor.position.stage)
        once = sum(block.recomputed.total * times[code] for code, block in actor.blocks.items())
        total += actor.multiplicity * once
    return total / ranks


# --- stages ---------------------------------------------------------------------------------------


@record
class SlowestStage:
    """The stage whose ranks run their blocks the longest, the first of equals.

    Attributes
    ----------
    stage : number of the stage
    seconds : time that its mean rank runs blocks, without the tail of the step [s]
    mean_s : the same of the mean stage [s]
    """

    stage: int
    seconds: float
    mean_s: float


def slowest_stage(tracks: Iterable[Track]) -> SlowestStage:
    """Return the slowest stage, each stage by the mean of its ranks."""
    work: dict[int, list[tuple[float, int]]] = {}
    for track in tracks:
        taken = float((track.end - track.start).sum())
        work.setdefault(track.stage, []).append((taken, track.multiplicity))
    means = {stage: _mean(ranks) for stage, ranks in sorted(work.items())}
    slowest = max(means, key=lambda stage: round(means[stage], 9))
    return SlowestStage(slowest, means[slowest], float(np.mean([*means.values()])))


def _mean(ranks: list[tuple[float, int]]) -> float:
    return sum(taken * count for taken, count in ranks) / sum(count for _, count in ranks)
