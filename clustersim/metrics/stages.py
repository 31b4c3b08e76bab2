"""The stage that others wait for: whose ranks are at work the longest."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from clustersim.timeline import Track


@dataclass(frozen=True)
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


__all__ = ["SlowestStage", "slowest_stage"]
