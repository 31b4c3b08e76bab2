"""A measured number beside the predicted one, in its source's convention, and the sums of many.

    Case --measure--> Measure --grade--> Grade --> Outcome      Outcomes --tally--> Validation

A source prints several numbers about one run; the one that says most about the step is graded, in
the order of `METRICS`.  TFLOP/s and utilisations count FLOPs either with recomputation (*hardware*)
or without (*model*); a number is compared in the convention of its own source.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, median
from typing import Any, Final, NamedTuple

from clustersim.simulate import Result
from clustersim.study.cases import Case, Measured, Reason, Ungradable, joined

MODEL, HARDWARE = "model", "hardware"

GIB: Final = 2.0**30


class Metric(NamedTuple):
    """A measured key and its prediction; `is_time` where more is slower."""

    predict: Callable[[Result, str, Measured], float]
    is_time: bool
    convention: str | None = None


def _run_time(result: Result, _: str, measured: Measured) -> float:
    samples = measured.run_samples
    assert samples is not None, "`measure` takes a run's time only with its samples"
    return samples / result.samples_per_s


METRICS: Final[Mapping[str, Metric]] = {
    "step_time_s": Metric(lambda r, c, m: r.step_time, True),
    "tokens_per_s_per_gpu": Metric(lambda r, c, m: r.tokens_per_s / r.devices, False),
    "tflops_per_gpu": Metric(lambda r, c, m: r.flops_per_device(c) / 1e12, False, "told"),
    "mfu_pct": Metric(lambda r, c, m: 100 * r.mfu, False, MODEL),
    "hfu_pct": Metric(lambda r, c, m: 100 * r.hfu, False, HARDWARE),
    "samples_per_s": Metric(lambda r, c, m: r.samples_per_s, False),
    "run_time_s": Metric(_run_time, True),
}
"""What can be graded, first what says most about a step."""

_NOT_STEPS: Final = (
    ("scaling_efficiency_pct", "scaling efficiency against an unstated start"),
    ("layer_total_ms", "times of a single layer only"),
    ("layer_forward_ms", "times of a single layer only"),
    ("time_to_train_s", "only the time of a whole training"),
    ("memory_gb_per_gpu", "only memory, no time or throughput"),
)


@dataclass(frozen=True)
class Measure:
    """The measured number that a case is graded by, and its convention of FLOPs if it has one."""

    metric: str
    value: float
    convention: str | None = None


@dataclass(frozen=True)
class Grade:
    """A prediction against what was measured.

    Attributes
    ----------
    error : predicted over measured, less one, of the metric itself [unitless]
    time_error : the same of the time it stands for: above 0 where the prediction is too slow
    """

    metric: str
    convention: str | None
    measured: float
    predicted: float
    error: float
    time_error: float


def measured_metric(case: Case) -> str:
    """Return the name of the number to grade a case by.

    Raises
    ------
    Ungradable
        when nothing about a whole step was measured.
    """
    measured = case.measured
    if case.scope is None:
        for name in METRICS:
            if getattr(measured, name) is None:
                continue
            if name != "run_time_s" or measured.run_samples is not None:
                return name
    for name, what in _NOT_STEPS:
        if getattr(measured, name) is not None:
            raise Ungradable(Reason(what, what))
    if case.scope is not None:
        raise Ungradable(Reason("not a whole step", f"measured is '{case.scope}', not a step"))
    raise Ungradable(Reason("no measured time or throughput", "no measured time or throughput"))


def measure(case: Case, recompute: str, peak: float) -> Measure:
    """Return what a case is graded by; `peak` is that of a device [FLOP/s].

    Raises
    ------
    Ungradable
        when nothing about a whole step was measured, or it is not told which FLOPs were counted.
    """
    name = measured_metric(case)
    convention = METRICS[name].convention
    if convention == "told":
        convention = flops_convention(case, recompute, peak)
    return Measure(name, float(getattr(case.measured, name)), convention)


def flops_convention(case: Case, recompute: str, peak: float) -> str:
    """Return whether the TFLOP/s of a case count recomputation.

    A utilisation beside them that they are the same as tells it best, then the text of the source.
    """
    measured = case.measured
    share = 100 * (measured.tflops_per_gpu or 0.0) * 1e12 / peak
    for same, convention in ((measured.mfu_pct, MODEL), (measured.hfu_pct, HARDWARE)):
        if same is not None and abs(share / same - 1) < 0.03:
            return convention
    told = (case.flops_convention or "").lower()
    for pattern, convention in _CONVENTIONS:
        if re.search(pattern, told):
            return convention
    if recompute == "none":
        return MODEL  # nothing is recomputed: both are the same
    raise Ungradable(
        Reason("convention of its TFLOP/s not stated", "it is not stated which FLOPs are counted")
    )


_CONVENTIONS: Final = (
    (r"no recompute|without recompute|tflops_per_gpu = model", MODEL),
    (r"hardware|recomputed forward|counts? recompute|factor 96|\b96\b|eq\. 3|hfu-like", HARDWARE),
    (r"\bmodel\b|\bmfu\b", MODEL),
)
"""What the texts of sources say, tried in this order."""


def grade(measure: Measure, result: Result, measured: Measured) -> Grade:
    """Compare a prediction with what was measured."""
    metric = METRICS[measure.metric]
    predicted = metric.predict(result, measure.convention or MODEL, measured)
    error = predicted / measure.value - 1
    slower = error if metric.is_time else measure.value / predicted - 1
    return Grade(
        measure.metric, measure.convention, measure.value, predicted, error, time_error=slower
    )


def measured_memory(measured: Measured) -> float | None:
    """Return the measured memory of a device [B].

    PyTorch and nvidia-smi count in powers of two whatever they print; GB is 10^9 B only where the
    unit says so and names neither.

    >>> measured_memory(Measured(memory_gb_per_gpu=2.0, memory_unit="GiB, peak reserved"))
    2147483648.0
    """
    if measured.memory_gb_per_gpu is None:
        return None
    unit = (measured.memory_unit or "GiB").lower()
    binary = any(told in unit for told in ("gib", "torch", "nvidia-smi"))
    return measured.memory_gb_per_gpu * (GIB if binary else 1e9)


@dataclass(frozen=True)
class Outcome:
    """What became of one case.

    Attributes
    ----------
    reasons : why it is not gradable; empty where it is
    grade : the prediction against the measured number
    memory_measured, memory_predicted, memory_capacity : of a device [B]
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
    def fits(self) -> bool | None:
        """Whether the run is predicted to fit its devices, as it must have."""
        if self.memory_predicted is None or self.memory_capacity is None:
            return None
        return self.memory_predicted <= self.memory_capacity

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
            "slower": None if grade is None else grade.time_error > 0,
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


# --- many cases -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tally:
    """The errors of a group [unitless].

    Attributes
    ----------
    count, gradable, gating : cases; those that ran; those of them that a tolerance may be held to
    mean_abs_error, median_abs_error : of `error`, over gradable cases; None without any
    gating_mean_abs_error : the same over gating cases
    worst : the largest absolute error, of the case `worst_id`
    bias : mean of `time_error`: above 0 where predictions are too slow
    memory_count, memory_mean_abs_error : of measured memory
    """

    count: int
    gradable: int
    gating: int
    mean_abs_error: float | None
    median_abs_error: float | None
    gating_mean_abs_error: float | None
    worst: float | None
    worst_id: str | None
    bias: float | None
    memory_count: int
    memory_mean_abs_error: float | None


def tally(outcomes: Sequence[Outcome]) -> Tally:
    """Sum up the outcomes of a group.

    >>> slow = Grade("step_time_s", None, measured=1.0, predicted=1.2, error=0.2, time_error=0.2)
    >>> fast = Grade("mfu_pct", "model", measured=40.0, predicted=50.0, error=0.25, time_error=-0.2)
    >>> sums = tally([Outcome("a", "x", grade=slow), Outcome("b", "x", grade=fast)])
    >>> sums.mean_abs_error, sums.bias, sums.worst_id
    (0.225, 0.0, 'b')
    """
    ran = [(outcome, outcome.grade) for outcome in outcomes if outcome.grade is not None]
    errors = [abs(grade.error) for _, grade in ran]
    gating = [abs(grade.error) for outcome, grade in ran if outcome.gates]
    memory = [abs(o.memory_error) for o in outcomes if o.memory_error is not None]
    worst = max(range(len(ran)), key=errors.__getitem__, default=None)
    return Tally(
        count=len(outcomes),
        gradable=len(ran),
        gating=len(gating),
        mean_abs_error=_mean(errors),
        median_abs_error=median(errors) if errors else None,
        gating_mean_abs_error=_mean(gating),
        worst=None if worst is None else errors[worst],
        worst_id=None if worst is None else ran[worst][0].id,
        bias=_mean([grade.time_error for _, grade in ran]),
        memory_count=len(memory),
        memory_mean_abs_error=_mean(memory),
    )


def _mean(values: list[float]) -> float | None:
    return fmean(values) if values else None


def count_reasons(reasons: Iterable[tuple[Reason, ...]]) -> list[dict[str, Any]]:
    """Return for each kind of reason how many cases have it, and how many no other: most first."""
    total: dict[str, int] = {}
    alone: dict[str, int] = {}
    for found in reasons:
        kinds = sorted({reason.kind for reason in found})
        for kind in kinds:
            total[kind] = total.get(kind, 0) + 1
            alone[kind] = alone.get(kind, 0) + (len(kinds) == 1)
    order = sorted(total, key=lambda kind: (-total[kind], kind))
    return [{"reason": kind, "cases": total[kind], "alone": alone[kind]} for kind in order]


@dataclass(frozen=True)
class Validation:
    """All cases, in the order of their file."""

    outcomes: tuple[Outcome, ...]

    @property
    def groups(self) -> dict[str, Tally]:
        """The errors of each group, by name."""
        names = sorted({outcome.group for outcome in self.outcomes})
        return {n: tally([o for o in self.outcomes if o.group == n]) for n in names}

    @property
    def all(self) -> Tally:
        """The errors of all cases together."""
        return tally(self.outcomes)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        return {
            "cases": [outcome.to_json() for outcome in self.outcomes],
            "groups": {name: asdict(sums) for name, sums in self.groups.items()},
            "all": asdict(self.all),
            "reasons": count_reasons(o.reasons for o in self.outcomes if not o.gradable),
        }
