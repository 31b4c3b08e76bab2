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
tail      data_, embedding_communication, synchronisation, optimiser; waiting_for_slowest, until
          all replicas of its stage are ready to reduce gradients or gather parameters; waiting
          until other stages are ready, and until the end of the step, is bubble_drain
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clustersim.answers import record
from clustersim.program.program import Actor, Block, Program
from clustersim.timeline import (
    BATCH,
    EMBEDDING,
    GRADIENTS,
    NORM,
    OPTIMISER,
    PARAMETERS,
    Floats,
    Steps,
    Timeline,
    Track,
    in_batches,
)

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
    "waiting_for_slowest",
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


def attributed(
    tracks: Sequence[Track], actors: Sequence[Actor], duration: float
) -> Iterator[dict[str, float]]:
    """Yield the seconds of each component of some rank classes; their sum is `duration` [s]."""
    steps = Steps.of(tracks)
    waits = _waits(steps, tracks).tolist()
    of_blocks = parts_by_code(steps, actors)
    for track, by_code, waiting in zip(tracks, of_blocks, waits, strict=True):
        parts = dict.fromkeys(PARTS, 0.0)
        for own in by_code.values():
            for part, seconds in own.items():
                parts[part] += seconds
        for part, seconds in zip(WAITING, waiting, strict=True):
            parts[part] += seconds
        for span in track.tail:
            apart = span.name in (GRADIENTS, PARAMETERS)
            parts["waiting_for_slowest" if apart else "bubble_drain"] += span.start - span.ready
            parts[TAIL_PARTS[span.name]] += span.end - span.start
        parts["bubble_drain"] += duration - track.finish
        yield parts


def parts_by_code(steps: Steps, actors: Sequence[Actor]) -> Iterator[dict[int, dict[str, float]]]:
    """Yield, for each of some rank classes, the seconds of the blocks of each code by component.

    The sum of these components is the time of the blocks [s].  Codes have their numbers in the
    order.
    """
    known = actors[0].order.codes
    width = len(known)
    rows = code_rows(steps, actors)

    def by_code(weights: Floats | None = None) -> Any:
        return np.bincount(rows, weights, width * len(actors)).reshape(-1, width).tolist()

    counts, taken = by_code(), by_code(steps.end - steps.start)
    extra = [actor.extra for actor in actors]
    drawn = by_code(_joined(extra, steps)) if any(e is not None for e in extra) else None
    for rank, actor in enumerate(actors):
        yield {
            code: _parts_of(
                actor.blocks[known[code]],
                int(count),
                taken[rank][code],
                0.0 if drawn is None else drawn[rank][code],
            )
            for code, count in enumerate(counts[rank])
            if count
        }


def code_rows(steps: Steps, actors: Sequence[Actor]) -> NDArray[np.int64]:
    """Return the code of each step of some rank classes, those of each class behind the others."""
    width = len(actors[0].order.codes)
    codes = np.concatenate([actor.order.of[actor.position.stage] for actor in actors])
    rows: NDArray[np.int64] = codes + steps.of_rows(range(0, width * len(actors), width))
    return rows


def _joined(extra: Sequence[Floats | None], steps: Steps) -> Floats:
    """Return additional times of all steps of some rank classes [s]."""
    lengths = np.diff(steps.first).tolist()
    return np.concatenate(
        [np.zeros(n) if one is None else one for one, n in zip(extra, lengths, strict=True)]
    )


def _parts_of(block: Block, count: int, taken: float, drawn: float) -> dict[str, float]:
    """Return the seconds of equal blocks by component.

    Parameters
    ----------
    count, taken : number of blocks, and time that they took [s]
    drawn : of it, additional time that differs at random [s]
    """
    parts = {part: count * seconds for part, seconds in _parts_of_each(block)}
    seconds = block.seconds
    fixed = seconds.total if block.units is not None else seconds.total - seconds.tensor
    parts["disturbance"] += drawn
    rest = taken - count * (fixed + block.late) - drawn
    if rest > ROUNDING * taken:
        parts[_slowed_by_sharing(block)] += rest
    elif block.late or drawn:  # longer kernels hide more of the moves of a block unit by unit
        parts["disturbance"] += rest
    return parts


def _parts_of_each(block: Block) -> tuple[tuple[str, float], ...]:
    seconds = block.seconds
    return (
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


def _slowed_by_sharing(block: Block) -> str:
    """Return the component that contains the delays of a block by traffic on its links."""
    if block.units is None:
        return "tensor_communication"
    if any(move.shared for unit in block.units.units for move in (*unit.fetch, *unit.push)):
        return "sharding_communication"
    seconds = block.seconds
    exposed = {"context": seconds.context, "expert": seconds.expert, "tensor": seconds.tensor}
    return f"{max(exposed, key=exposed.__getitem__)}_communication"


WAITING: Final = ("pipeline_communication", *BUBBLES)
"""Components of a rank between its blocks."""


def _waits(steps: Steps, tracks: Sequence[Track]) -> NDArray[np.float64]:
    """Return the seconds of `WAITING` of some rank classes, a row for each [s]."""
    exposed = np.where(
        np.isnan(steps.sent),
        0.0,
        np.maximum(0.0, steps.start - np.fmax(steps.free, steps.sent)),
    )
    idle = steps.start - steps.free - exposed
    sent = np.add.reduceat(exposed + (steps.freed - steps.end), steps.first[:-1])
    bounds = steps.first[:-1, None] + np.array([_phases(track.backward) for track in tracks])
    sums = np.add.reduceat(np.append(idle, 0.0), bounds[:, :-1].ravel()).reshape(-1, len(BUBBLES))
    return np.column_stack([sent, np.where(np.diff(bounds, axis=1) > 0, sums, 0.0)])


def _phases(backward: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    """Return the rows at which a rank begins to fill, is steady, drains, and has finished."""
    steady = int(np.argmax(backward)) + 1
    last_forward = len(backward) - 1 - int(np.argmax(~backward[::-1]))
    return 0, steady, max(steady, last_forward + 1), len(backward)


def average(timeline: Timeline, actors: Sequence[Actor]) -> dict[str, float]:
    """Return the seconds of each component, mean of all ranks; their sum is the step time [s]."""
    totals = dict.fromkeys(PARTS, 0.0)
    ranks = sum(track.multiplicity for track in timeline.tracks)
    for tracks, of_tracks in in_parts(timeline, actors):
        each_rank = attributed(tracks, of_tracks, timeline.duration)
        for track, parts in zip(tracks, each_rank, strict=True):
            for name, seconds in parts.items():
                totals[name] += track.multiplicity * seconds
    return {name: seconds / ranks for name, seconds in totals.items()}


def in_parts(
    timeline: Timeline, actors: Sequence[Actor]
) -> Iterator[tuple[tuple[Track, ...], tuple[Actor, ...]]]:
    """Yield rank classes some at a time, so that arrays of their steps are not too long."""
    ranks = [*zip(timeline.tracks, actors, strict=True)]
    for some in in_batches(ranks, [len(track.start) for track, _ in ranks], BATCH):
        yield tuple(track for track, _ in some), tuple(actor for _, actor in some)


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
