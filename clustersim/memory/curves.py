"""Memory in time: what a stage holds by part as its steps go by.

Between steps a stage holds what its microbatches keep; while a step runs, what it holds at the
fullest moment of that step.  So a curve is two levels a step, the first from its start, the second
from its end.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clustersim.memory.verdict import PARTS, StageMemory, Verdict, levels
from clustersim.timeline import OPTIMISER, Timeline, Track


@dataclass(frozen=True)
class MemoryCurve:
    """What one stage holds from moment to moment.

    Attributes
    ----------
    time : when each level begins [s]
    moving : bytes at each level of the parts that come and go, a column by part [B]
    steady : of the others [B]
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
    """Return what a stage holds in time, by the record of its rank class."""
    found = levels(stage.chunks, track.kind.astype(np.int64), track.chunk.astype(np.int64))
    rows = 2 * len(track.start)
    time = np.stack([track.start, track.end], axis=1).reshape(rows)
    both = np.stack([found.during, found.after], axis=1).reshape(rows, len(found.parts))
    before, after = np.zeros(1), _optimiser_step(track)
    time = np.concatenate([before, time, after])
    none = np.zeros((len(after), len(found.parts)))
    both = np.concatenate([none[:1], both, none])
    moving = dict(zip(found.parts, both.T, strict=True))
    moving["workspace"] = moving.get("workspace", np.zeros(len(time)))
    moving["workspace"][-2] += stage.step
    ordered = {str(part): moving[part] for part in PARTS if part in moving}
    steady = {part: nbytes for part, nbytes in stage.steady.items() if nbytes}
    return MemoryCurve(stage.stage, time, ordered, steady)


def _optimiser_step(track: Track) -> NDArray[np.float64]:
    """Return when a rank's optimiser began and when it was done; its end where it has none [s]."""
    spans = [(span.start, span.end) for span in track.tail if span.name == OPTIMISER]
    return np.array(spans[0] if spans else (track.end[-1], track.end[-1]))


def memory_curves(verdict: Verdict, timeline: Timeline) -> list[MemoryCurve]:
    """Return the curve of every stage, of the first replica class and part."""
    tracks = [t for t in timeline.tracks if t.replica == 0 and t.tensor_rank == 0]
    return [memory_curve(verdict.stages[t.stage], t) for t in tracks]


def columns(curves: list[MemoryCurve]) -> dict[str, NDArray[np.generic]]:
    """Return curves as one table: stage, time [s], moving parts and the total [B]."""
    names = [part for part in PARTS if any(part in curve.moving for curve in curves)]
    lengths = [len(curve.time) for curve in curves]
    table: dict[str, NDArray[np.generic]] = {
        "stage": np.repeat(np.array([curve.stage for curve in curves], np.int32), lengths),
        "time_s": np.concatenate([curve.time for curve in curves]),
    }
    for part in names:
        empty = [curve.moving.get(part, np.zeros(len(curve.time))) for curve in curves]
        table[part] = np.concatenate(empty)
    return table | {"total": np.concatenate([curve.total for curve in curves])}


__all__ = ["MemoryCurve", "columns", "memory_curve", "memory_curves"]
