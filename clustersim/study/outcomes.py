"""What became of one case: its grade and its memory, or the reasons why it has none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clustersim.study.grading import Grade
from clustersim.study.reasons import Reason, joined


@dataclass(frozen=True)
class Outcome:
    """What became of one case.

    Attributes
    ----------
    reasons : why it is not gradable; empty where it is
    grade : the prediction against the measured number
    memory_measured, memory_predicted : of a device of the stage that the source tells of [B]
    memory_peak, memory_capacity : of a device of the fullest stage [B]
    confidence : of the source
    gates : whether a tolerance may be held to it: not of low confidence, nothing assumed that
        shapes the step
    assumed : what the source does not state, with the reason
    """

    id: str
    group: str
    reasons: tuple[Reason, ...] = ()
    grade: Grade | None = None
    memory_measured: float | None = None
    memory_predicted: float | None = None
    memory_peak: float | None = None
    memory_capacity: float | None = None
    confidence: str | None = None
    gates: bool = False
    cluster: str | None = None
    framework: str | None = None
    assumed: Mapping[str, str] = field(default_factory=dict)
    wall: float | None = None

    @property
    def gradable(self) -> bool:
        """Whether there is a prediction to compare."""
        return self.grade is not None

    @property
    def slower(self) -> bool | None:
        """Whether the prediction is slower than what was measured."""
        if self.grade is None or self.grade.time_error is None:
            return None
        return self.grade.time_error > 0

    @property
    def fits(self) -> bool | None:
        """Whether the run is predicted to fit its devices, as it must have."""
        if self.memory_peak is None or self.memory_capacity is None:
            return None
        return self.memory_peak <= self.memory_capacity

    @property
    def memory_error(self) -> float | None:
        """Predicted over measured memory, less one [unitless]."""
        if self.memory_predicted is None or self.memory_measured is None:
            return None
        return self.memory_predicted / self.memory_measured - 1

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        grade = self.grade
        return {
            "id": self.id,
            "group": self.group,
            "gradable": self.gradable,
            "why": joined(self.reasons) or None,
            "reasons": [reason.kind for reason in self.reasons],
            "metric": grade and grade.metric,
            "convention": grade and grade.convention,
            "measured": grade and grade.measured,
            "predicted": grade and grade.predicted,
            "error": grade and grade.error,
            "time_error": grade and grade.time_error,
            "slower": self.slower,
            "memory_measured": self.memory_measured,
            "memory_predicted": self.memory_predicted,
            "memory_error": self.memory_error,
            "fits": self.fits,
            "confidence": self.confidence,
            "gates": self.gates,
            "cluster": self.cluster,
            "framework": self.framework,
            "assumed": dict(self.assumed),
            "wall_s": self.wall,
        }
