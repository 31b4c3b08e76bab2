"""The stage that others wait for: whose ranks are at work the longest."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from clustersim.timeline import Track


class SlowestStage(NamedTuple):
    """The stage whose ranks are at their blocks the longest, the first of equals.

    Attributes
    ----------
    seconds : from the start to the end of its blocks, the tail of the step left out [s]
    mean : the same of the mean stage [s]
    """

    stage: int
    seconds: float
    mean: float

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        return {"stage": self.stage, "seconds": self.seconds, "mean_s": self.mean}


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
