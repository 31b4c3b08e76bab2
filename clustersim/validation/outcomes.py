"""What became of one case: its grade and its memory, or the reasons why it has none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clustersim.validation.cases.reasons import Reason, joined
from clustersim.validation.grading import Grade


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
    accelerator, nodes : what a whole step was predicted on; None for a single layer
    assumed : what the source does not state, with the reason
    machine_assumed, framework_assumed : what the cluster file rests on where the source does not
        name the machine; the same of the profile
    rates : predicted throughput of a device by convention of FLOPs [FLOP/s]; None where nothing ran
    job, layout : what was run, a text that is the same for the same job; and how it was laid out
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
    accelerator: str | None = None
    nodes: int | None = None
    cluster: str | None = None
    framework: str | None = None
    machine_assumed: str | None = None
    framework_assumed: str | None = None
    assumed: Mapping[str, str] = field(default_factory=dict)
    wall: float | None = None
    devices: int | None = None
    rates: Mapping[str, float] | None = None
    job: str | None = None
    layout: Mapping[str, Any] = field(default_factory=dict)

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

    def measured_rate(self, convention: str) -> float | None:
        """Return the measured throughput of a device [FLOP/s]; None where no time was measured.

        The FLOPs are those of the prediction: the unit of the source is no matter.
        """
        if self.rates is None or self.grade is None or self.grade.time_error is None:
            return None
        return self.rates[convention] * (1 + self.grade.time_error)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        grade, measured = self.grade, self.measured_rate("model")
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
            "accelerator": self.accelerator,
            "nodes": self.nodes,
            "cluster": self.cluster,
            "framework": self.framework,
            "assumed": dict(self.assumed),
            "wall_s": self.wall,
            "devices": self.devices,
            "machine_assumed": self.machine_assumed,
            "framework_assumed": self.framework_assumed,
            "layout": dict(self.layout),
            "tflops_measured": measured and measured / 1e12,
            "tflops_predicted": self.rates and self.rates["model"] / 1e12,
        }
