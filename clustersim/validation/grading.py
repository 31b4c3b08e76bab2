"""A measured number beside the predicted one, in its source's convention.

    Case --measure--> Measure --grade--> Grade

A source prints several numbers about one run; the one that says most about the step is graded, in
the order of `METRICS`.  Where only memory was measured, or the time of one layer, that is graded.
TFLOP/s and utilisations count FLOPs either with recomputation (*hardware*)
or without (*model*); a number is compared in the convention of its own source.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from clustersim.simulation.simulate import Result
from clustersim.validation.cases.cases import Case, Measured
from clustersim.validation.cases.reasons import Reason, Ungradable

MODEL, HARDWARE = "model", "hardware"


class Metric(NamedTuple):
    """A measured key and its prediction; `is_time` where more is slower, None if it is no speed."""

    predict: Callable[[Result, str, Measured], float]
    is_time: bool | None
    convention: str | None = None


MEMORY: Final = "memory_gb_per_gpu"
"""The measured key of memory, graded alone where no time or rate was measured."""

LAYER: Final = ("layer_total_ms", "layer_backward_ms", "layer_forward_ms")
"""Measured keys of one layer, first what says most."""


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
    MEMORY: Metric(lambda r, c, m: r.memory.fullest.peak / memory_unit(m), None),
}
"""What can be graded, first what says most about a step."""

SINGLE_LAYER: Final = "single-layer"
"""The scope of cases that timed one layer."""

_NOT_STEPS: Final = (
    ("scaling_efficiency_pct", "scaling efficiency against an unstated start"),
    ("time_to_train_s", "only the time of a whole training"),
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
    time_error : the same of the time it stands for: above 0 where the prediction is too slow; None
        for memory
    """

    metric: str
    convention: str | None
    measured: float
    predicted: float
    error: float
    time_error: float | None

    @property
    def is_time(self) -> bool:
        """Whether more of the metric is slower."""
        return self.metric in LAYER or bool(METRICS[self.metric].is_time)


def measured_metric(case: Case) -> str:
    """Return the name of the number to grade a case by.

    Raises
    ------
    Ungradable
        when nothing about a whole step or a layer was measured.
    """
    measured = case.measured
    if case.scope == SINGLE_LAYER:
        for name in LAYER:
            if getattr(measured, name) is not None:
                return name
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
    convention = METRICS[name].convention if name in METRICS else None
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
    return compared(measure, predicted, metric.is_time)


def grade_layer(measure: Measure, forward: float, backward: float) -> Grade:
    """Compare the time of a layer, forward and whole backward [s], with what was measured."""
    seconds = {"layer_forward_ms": forward, "layer_backward_ms": backward}
    return compared(measure, 1e3 * seconds.get(measure.metric, forward + backward), True)


def compared(measure: Measure, predicted: float, is_time: bool | None) -> Grade:
    """Return the grade of a predicted number."""
    error = predicted / measure.value - 1
    slower = {True: error, False: measure.value / predicted - 1, None: None}[is_time]
    return Grade(
        measure.metric, measure.convention, measure.value, predicted, error, time_error=slower
    )


def measured_memory(measured: Measured) -> float | None:
    """Return the measured memory of a device [B].

    >>> measured_memory(Measured(memory_gb_per_gpu=2.0, memory_unit="GiB, peak reserved"))
    2147483648.0
    """
    given = measured.memory_gb_per_gpu
    return None if given is None else given * memory_unit(measured)


def memory_unit(measured: Measured) -> float:
    """Return the unit that the memory of a case is in [B].

    PyTorch and nvidia-smi count in powers of two whatever they print; GB is 10^9 B only where the
    unit says so and names neither.
    """
    unit = (measured.memory_unit or "GiB").lower()
    return 2.0**30 if any(told in unit for told in ("gib", "torch", "nvidia-smi")) else 1e9
