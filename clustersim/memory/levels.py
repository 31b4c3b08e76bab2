"""Memory of a stage step by step, at its peak, and over time.

Between steps a stage holds what its microbatches keep; during a step, what it holds at the fullest
moment of that step.  So a curve has two levels a step, the first from its start, the second from
its end.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustersim.answers import record
from clustersim.memory.verdict import PARTS, ChunkMemory, Parts, StageMemory, Verdict
from clustersim.timeline import BATCH, OPTIMISER, Timeline, Track, in_batches

_OPENED: Final = np.array([1, -1, 0, -1])
"""Microbatches that a step opens, by kind; the last half of its backward closes one."""


class Peak(NamedTuple):
    """The most bytes of activations and the most microbatches, one for each chunk, held at once."""

    nbytes: float
    microbatches: int


def peak_activations(
    kind: NDArray[np.int64], chunk: NDArray[np.int64], nbytes: Sequence[float], left: float = 0.0
) -> Peak:
    """Return the peak of what a stage keeps between forward and backward.

    Parameters
    ----------
    kind, chunk : which step each one is, in order, `kind` by its index in `timeline.KINDS`
    nbytes : kept for one microbatch in each chunk [B]
    left : share of that which remains between the two halves of a split backward
    """
    change = np.array(nbytes)[chunk] * np.array([1.0, -1.0, left - 1.0, -left])[kind]
    return Peak(float(np.cumsum(change).max()), int(np.cumsum(_OPENED[kind]).max()))


class Changes(NamedTuple):
    """How steps change what a stage holds, a row for each step and a column for each part [B].

    Attributes
    ----------
    change : from before a step to after it
    more : at the fullest moment of a step, more than after it
    opened : microbatches that a step opens, as `_OPENED`
    sums : of `change` and of `more`, over the parts
    """

    parts: tuple[str, ...]
    change: NDArray[np.float64]
    more: NDArray[np.float64]
    opened: NDArray[np.int64]
    sums: tuple[NDArray[np.float64], NDArray[np.float64]]


def changes_by_step(
    chunks: Sequence[ChunkMemory], kind: NDArray[np.int64], chunk: NDArray[np.int64]
) -> Changes:
    """Return how steps of a stage change what it holds.

    Parameters
    ----------
    kind, chunk : of each step, or of each code, `kind` by its index in `timeline.KINDS`
    """
    parts = tuple(sorted({part for memory in chunks for which in memory for part in which}))
    table = np.array([[[which.get(p, 0.0) for p in parts] for which in c] for c in chunks])
    every = _CHANGE @ table
    change, more = every[chunk, kind], (_INSIDE @ table - _BEFORE[:, None] * every)[chunk, kind]
    return Changes(parts, change, more, _OPENED[kind], (change.sum(axis=1), more.sum(axis=1)))


_CHANGE: Final = np.array([[1, 0, 0, 0], [-1, 0, 0, 0], [-1, 0, 0, 1], [0, 0, 0, -1]])
_INSIDE: Final = np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0]])
"""How often each part of a `ChunkMemory` is in the change and inside a step, by kind."""

_BEFORE: Final = np.array([0, 1, 1, 1])
"""Whether the fullest moment of a step is before its change, by kind."""


class Levels(NamedTuple):
    """Memory of a stage that comes and goes, at every step, a column for each part [B].

    Attributes
    ----------
    during : at the fullest moment of a step
    after : between a step and the next
    """

    parts: tuple[str, ...]
    during: NDArray[np.float64]
    after: NDArray[np.float64]


def levels(
    chunks: Sequence[ChunkMemory], kind: NDArray[np.int64], chunk: NDArray[np.int64]
) -> Levels:
    """Return what microbatches hold at each step of a stage.

    Parameters
    ----------
    kind, chunk : of each step, `kind` by its index in `timeline.KINDS`
    """
    changes = changes_by_step(chunks, kind, chunk)
    after = np.cumsum(changes.change, axis=0)
    return Levels(changes.parts, after + changes.more, after)


class Moment(NamedTuple):
    """The moment at which microbatches hold most.

    Attributes
    ----------
    parts : bytes by part [B]
    microbatches : those that are held, one for each chunk that is held
    """

    parts: Parts
    microbatches: int

    @property
    def nbytes(self) -> float:
        """Sum of all parts [B]."""
        return sum(self.parts.values())


def fullest_moment(changes: Changes, steps: NDArray[np.int64]) -> Moment:
    """Return the moment of a stage at which its microbatches hold most, the first of equals.

    Parameters
    ----------
    changes : of each code
    steps : codes of the steps of the stage, in order
    """
    _, change, more, opened, (whole, above) = changes
    total = np.cumsum(whole[steps]) + above[steps]
    moment = int(total.argmax())
    done, last = np.bincount(steps[: moment + 1], minlength=len(change)), steps[moment]
    parts = dict(zip(changes.parts, (done @ change + more[last]).tolist(), strict=True))
    return Moment(parts, int(done @ opened) + int(opened[last] < 0))


def at_peak(moving: Moment, steady: Parts, step: float = 0.0) -> tuple[dict[str, float], int]:
    """Return the peak of a stage by part, in the order of `PARTS`, and its microbatches.

    The optimiser step, where its buffers are more than microbatches ever hold.
    """
    parts, microbatches = moving
    if step > moving.nbytes:
        parts, microbatches = {"workspace": step}, 0
    return {part: steady.get(part, 0.0) + parts.get(part, 0.0) for part in PARTS}, microbatches


# --- over time ------------------------------------------------------------------------------------


@record
class MemoryCurve:
    """Memory of one stage over time.

    Attributes
    ----------
    time : when each level begins [s]
    moving : parts that come and go, at each level [B]
    steady : the other parts [B]
    """

    stage: int
    time: NDArray[np.float64]
    moving: dict[str, NDArray[np.float64]]
    steady: dict[str, float]

    @property
    def total(self) -> NDArray[np.float64]:
        """All parts together, without what the allocator caches [B]."""
        start = np.full(len(self.time), sum(self.steady.values()))
        return start + sum(self.moving.values(), np.zeros(len(self.time)))


def memory_curve(stage: StageMemory, track: Track) -> MemoryCurve:
    """Return the memory of a stage over time, from the steps of its rank class."""
    level = levels(stage.chunks, track.kind.astype(np.int64), track.chunk.astype(np.int64))
    rows = 2 * len(track.start)
    before, after = np.zeros(1), _optimiser_step(track)
    time = np.concatenate([before, np.stack([track.start, track.end], axis=1).ravel(), after])
    values = np.zeros((len(level.parts), len(time)))
    values[:, 1 : rows + 1 : 2], values[:, 2 : rows + 2 : 2] = level.during.T, level.after.T
    moving = dict(zip(level.parts, values, strict=True))
    moving["workspace"] = moving.get("workspace", np.zeros(len(time)))
    moving["workspace"][-2] += stage.step
    ordered = {str(part): moving[part] for part in PARTS if part in moving}
    steady = {part: nbytes for part, nbytes in stage.steady.items() if nbytes}
    return MemoryCurve(stage.stage, time, ordered, steady)


def _optimiser_step(track: Track) -> NDArray[np.float64]:
    """Return start and end of the optimiser step of a rank; its end where it has none [s]."""
    spans = [(span.start, span.end) for span in track.tail if span.name == OPTIMISER]
    return np.array(spans[0] if spans else (track.end[-1], track.end[-1]))


def memory_curves(verdict: Verdict, timeline: Timeline) -> list[MemoryCurve]:
    """Return the curve of every stage, of its first replica class and tensor rank."""
    tracks = [t for t in timeline.tracks if t.replica == 0 and t.tensor_rank == 0]
    return [memory_curve(verdict.stages[t.stage], t) for t in tracks]


def batches(
    curves: Sequence[MemoryCurve], rows: int = BATCH
) -> Iterator[dict[str, NDArray[np.generic]]]:
    """Yield curves as a table: stage, time [s], moving parts and the total [B].

    In parts of whole curves, each of at least `rows` rows.
    """
    names = [part for part in PARTS if any(part in curve.moving for curve in curves)]
    for some in in_batches(curves, [len(curve.time) for curve in curves], rows):
        yield _columns(some, names)


def _columns(curves: Sequence[MemoryCurve], names: Sequence[str]) -> dict[str, NDArray[np.generic]]:
    lengths = [len(curve.time) for curve in curves]
    table: dict[str, NDArray[np.generic]] = {
        "stage": np.repeat(np.array([curve.stage for curve in curves], np.int32), lengths),
        "time_s": np.concatenate([curve.time for curve in curves]),
    }
    for part in names:
        empty = [curve.moving.get(part, np.zeros(len(curve.time))) for curve in curves]
        table[part] = np.concatenate(empty)
    return table | {"total": np.concatenate([curve.total for curve in curves])}
