"""A schedule on equal stages and free links: its bubble, and what it holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from clustersim.memory.verdict import peak_activations
from clustersim.program.schedules import Schedule
from clustersim.program.steps import Row
from clustersim.timeline import Timeline


@dataclass(frozen=True)
class Unrolled:
    """A schedule of some shape, replayed.

    Attributes
    ----------
    rows : steps of each stage
    seconds : of each kind of step, in any unit
    """

    schedule: Schedule
    stages: int
    microbatches: int
    chunks: int
    rows: list[Row]
    seconds: Mapping[str, float]
    timeline: Timeline

    @property
    def duration(self) -> float:
        """From the first step to the last."""
        return self.timeline.duration

    @property
    def idle(self) -> list[float]:
        """What each stage waits from the beginning of the step to its end."""
        return [self.duration - float((t.end - t.start).sum()) for t in self.timeline.tracks]

    @property
    def idle_inside(self) -> list[float]:
        """What each stage waits between its own first step and its own last."""
        tracks = self.timeline.tracks
        return [float(t.end[-1] - t.start[0] - (t.end - t.start).sum()) for t in tracks]

    @property
    def in_flight(self) -> list[int]:
        """The most microbatches that each stage holds, one for each chunk that is held."""
        none = [0.0] * self.chunks
        return [
            peak_activations(t.kind.astype(np.int64), t.chunk.astype(np.int64), none).microbatches
            for t in self.timeline.tracks
        ]

    @property
    def finding(self) -> str:
        """What there is to see, in a sentence."""
        share, slots = max(self.idle) / self.duration, round(self.duration)
        held = max(self.in_flight)
        of = f" of a {self.chunks}th of a stage" if self.chunks > 2 else ""
        of = " of half a stage" if self.chunks == 2 else of
        bubble = f"bubble {100 * share:.0f} % of {slots} slots"
        return f"{bubble}, at most {held} microbatches{of} in flight"

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        return {
            "stages": self.stages,
            "microbatches": self.microbatches,
            "chunks": self.chunks,
            "wiring": self.schedule.wiring,
            "steps": [[str(step) for step in row] for row in self.rows],
            "duration": self.duration,
            "idle": self.idle,
            "in_flight": self.in_flight,
        }
