"""The outcome of one case: its grade and its memory, or the reasons why it has none."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from clustersim.answers import answer_from, record
from clustersim.evidence import Traits
from clustersim.memory.room import UNFIT
from clustersim.records import dataclass
from clustersim.validation.cases.reasons import Reason, join_reasons
from clustersim.validation.grading import Grade


@dataclass(frozen=True)
class TokenTime:
    """The predicted time of a token of a case, or of its first one.

    Attributes
    ----------
    parts : by cause, which add up to it [s]
    sequences : that a step decodes, mean
    layers : of the model
    reduces : all-reduces of a step
    """

    parts: Mapping[str, float] = field(default_factory=dict)
    sequences: float = 0.0
    layers: int = 0
    reduces: int = 0

    @property
    def seconds(self) -> float:
        """The whole time [s]."""
        return sum(self.parts.values())


@record
class MetricAnswer:
    """One of several measured numbers of a case, and its prediction.

    Attributes
    ----------
    metric : a key of the file of cases
    measured : in the unit of the metric
    predicted : in the same unit
    error : predicted over measured, less one
    """

    metric: str
    measured: float
    predicted: float
    error: float


@record
class CaseAnswer:
    """One case of ``validate --json``; null where nothing was measured or predicted.

    Attributes
    ----------
    id : name of the case
    group : the set that it comes from
    gradable : whether there is a prediction to compare
    why : the reasons against it, if there is none
    reasons : the kinds of these reasons, which other cases share
    metric : the measured number that is compared, a key of the file of cases
    convention : FLOPs that it counts: `hardware` with recomputation, `model` without
    measured : in the unit of the metric
    predicted : in the same unit
    error : of the metric: predicted over measured, less one
    time_error : of the corresponding time, above 0 where the prediction is too slow
    slower : whether the prediction is too slow
    memory_measured : of a device [B]
    memory_predicted : of a device of the stage that the source measured [B]
    memory_error : of the memory
    fits : whether the run is not predicted not to fit its devices, as it did
    memory_verdict : `fits`, `tight`, `probably does not fit` or `does not fit`
    confidence : of the source, as the case has it
    gates : whether the case is scored: held to a tolerance, because nothing of it is assumed
    accelerator : the accelerator of the prediction
    nodes : number of nodes of the prediction
    cluster : the cluster file of its machine
    framework : the profile of its software
    assumed : settings that the source does not state, each with the reason for its value
    wall_s : time of the simulation [s]
    devices : devices of the job
    machine_assumed : the assumption behind the cluster file, where the source does not name it
    framework_assumed : the assumption behind the profile, where no entry names the software
    layout : layout of the job as it was run
    tflops_measured : throughput of a device, without recomputation [TFLOP/s]
    tflops_predicted : the same, predicted [TFLOP/s]
    metrics : all numbers that are compared, of a case with several
    parts : of inference, the predicted time of a token by cause, of the first token where only that
        is measured [s]; empty for other cases
    """

    id: str
    group: str
    gradable: bool
    why: str | None
    reasons: tuple[str, ...]
    metric: str | None
    convention: str | None
    measured: float | None
    predicted: float | None
    error: float | None
    time_error: float | None
    slower: bool | None
    memory_measured: float | None
    memory_predicted: float | None
    memory_error: float | None
    fits: bool | None
    memory_verdict: str | None
    confidence: str | None
    gates: bool
    accelerator: str | None
    nodes: int | None
    cluster: str | None
    framework: str | None
    assumed: Mapping[str, str]
    wall_s: float | None
    devices: int | None
    machine_assumed: str | None
    framework_assumed: str | None
    layout: Mapping[str, Any]
    tflops_measured: float | None
    tflops_predicted: float | None
    metrics: tuple[MetricAnswer, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one case; most fields are those of `CaseAnswer`.

    Attributes
    ----------
    reasons : why it is not gradable; empty where it is
    grade : the prediction compared with the measured number
    others : the same of further numbers of the case
    memory_verdict : whether it is predicted to fit, in a word or two
    scored : whether it is held to a tolerance: not of low confidence, and nothing assumed that
        changes the step time
    rates : predicted throughput of a device by convention of FLOPs [FLOP/s]; None where nothing ran
    job : the job, a text that is equal for equal jobs
    observed : what the observer of a validation returned for the step
    token : of inference, the predicted time of a token
    is_inference : whether it is of inference, whose metrics are summarised one by one
    baselines : errors of a one-line roofline, by metric
    model : name of the model
    traits : what makes it like other runs; None where nothing ran
    """

    id: str
    group: str
    reasons: tuple[Reason, ...] = ()
    grade: Grade | None = None
    others: tuple[Grade, ...] = ()
    memory_measured: float | None = None
    memory_predicted: float | None = None
    memory_verdict: str | None = None
    confidence: str | None = None
    scored: bool = False
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
    observed: Any = None
    token: TokenTime | None = None
    is_inference: bool = False
    baselines: Mapping[str, float] = field(default_factory=dict)
    model: str = ""
    traits: Traits | None = None

    @property
    def gradable(self) -> bool:
        """Whether there is a prediction to compare."""
        return self.grade is not None

    @property
    def absolute_error(self) -> float:
        """The absolute error of a graded run [unitless]."""
        assert self.grade is not None, "only graded runs have an error"
        return abs(self.grade.error)

    @property
    def slower(self) -> bool | None:
        """Whether the prediction is slower than the measurement."""
        if self.grade is None or self.grade.time_error is None:
            return None
        return self.grade.time_error > 0

    @property
    def fits(self) -> bool | None:
        """Whether the run is not predicted to fail for lack of memory, as it did not."""
        return None if self.memory_verdict is None else self.memory_verdict != UNFIT

    @property
    def memory_error(self) -> float | None:
        """Predicted over measured memory, less one [unitless]."""
        if self.memory_predicted is None or self.memory_measured is None:
            return None
        return self.memory_predicted / self.memory_measured - 1

    def measured_rate(self, convention: str) -> float | None:
        """Return the measured throughput of a device [FLOP/s]; None where no time was measured.

        It counts the FLOPs of the prediction, so the unit of the source does not matter.
        """
        if self.rates is None or self.grade is None or self.grade.time_error is None:
            return None
        return self.rates[convention] * (1 + self.grade.time_error)

    @property
    def answer(self) -> CaseAnswer:
        """The outcome as ``validate --json`` prints it."""
        grade, measured = self.grade, self.measured_rate("model")
        predicted = None if self.rates is None else self.rates["model"]
        grades = (grade, *self.others) if grade and self.others else ()
        return answer_from(
            CaseAnswer,
            self,
            **{name: getattr(grade, name, None) for name in _OF_GRADE},
            why=join_reasons(self.reasons) or None,
            reasons=tuple(reason.kind for reason in self.reasons),
            gates=self.scored,
            wall_s=self.wall,
            tflops_measured=None if measured is None else measured / 1e12,
            tflops_predicted=None if predicted is None else predicted / 1e12,
            metrics=tuple(answer_from(MetricAnswer, each) for each in grades),
            parts=self.token.parts if self.token else {},
        )


_OF_GRADE: Final = ("metric", "convention", "measured", "predicted", "error", "time_error")
"""Keys of an answer that are those of its grade; most others are fields of its outcome."""
