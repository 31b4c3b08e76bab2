"""The grade of a case: a predicted number over the measured one, in the convention of its source.

    Case --measure_of--> Measure --grade--> Grade

A source prints several numbers about one run; the most informative one about the step is graded, in
the order of `METRICS`.  Where only memory was measured, or the time of one layer, that is graded.
TFLOP/s and utilisations count FLOPs either with recomputation (*hardware*) or without (*model*); a
number is compared in the convention of its own source.  `layer_times` has the time of one layer, as
papers measure it outside of a step.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from clustersim.cost.compute import chain_seconds
from clustersim.program.blocks.blocks import Blocks
from clustersim.program.job import Job
from clustersim.records import dataclass
from clustersim.scenario.load import Loaded
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.result import Result
from clustersim.validation.cases.case import Case
from clustersim.validation.cases.reasons import Reason, Ungradable
from clustersim.validation.cases.texts import HARDWARE, MODEL
from clustersim.workload.flops import layer_forward_flops
from clustersim.workload.kernels import Collective, Kernel
from clustersim.workload.ops import backward, forward


class Metric(NamedTuple):
    """A measured key and its prediction; `is_time` where more is slower, None if it is no speed."""

    predict: Callable[[Result, str, Case], float]
    is_time: bool | None
    convention: str | None = None


MEMORY: Final = "memory_gb_per_gpu"
"""The measured key of memory, graded where no time or rate was measured."""

LAYER: Final = ("layer_total_ms", "layer_backward_ms", "layer_forward_ms")
"""Measured keys of one layer, the most informative first."""

OF_SOURCE: Final = "of the source"
"""The convention of metrics that sources print in either."""


def _run_time(result: Result, _: str, case: Case) -> float:
    samples = case.row.measured.run_samples
    assert samples is not None, "`measured_metric` selects the time of a run only with its samples"
    return samples / result.samples_per_s


METRICS: Final[Mapping[str, Metric]] = {
    "step_time_s": Metric(lambda r, c, _: r.step_time, True),
    "tokens_per_s_per_gpu": Metric(lambda r, c, _: r.tokens_per_s / r.devices, False),
    "tflops_per_gpu": Metric(lambda r, c, _: r.flops_per_device(c) / 1e12, False, OF_SOURCE),
    "mfu_pct": Metric(lambda r, c, _: 100 * r.mfu, False, MODEL),
    "hfu_pct": Metric(lambda r, c, _: 100 * r.metric("hfu"), False, HARDWARE),
    "samples_per_s": Metric(lambda r, c, _: r.samples_per_s, False),
    "run_time_s": Metric(_run_time, True),
    MEMORY: Metric(lambda r, c, case: r.memory.fullest.peak / case.memory_unit, None),
}
"""Numbers that can be graded, the most informative about a step first."""

SINGLE_LAYER: Final = "single-layer"
"""The scope of cases that timed one layer."""

_NOT_STEPS: Final = (
    ("scaling_efficiency_pct", "scaling efficiency against an unstated start"),
    ("time_to_train_s", "only the time of a whole training"),
)


@dataclass(frozen=True)
class Measure:
    """The measured number that grades a case, and its convention of FLOPs if it has one."""

    metric: str
    value: float
    convention: str | None = None


@dataclass(frozen=True)
class Grade:
    """A prediction compared with a measurement.

    Attributes
    ----------
    error : predicted over measured, less one, of the metric itself [unitless]
    time_error : the same of the corresponding time: above 0 where the prediction is too slow; None
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
        known = METRICS.get(self.metric)
        return self.metric in LAYER or (known is not None and bool(known.is_time))


Graded = tuple[list[Grade], dict[str, str]]
"""Grades of a row, and what was assumed for them, with the reasons."""


def measured_metric(case: Case) -> str:
    """Return the name of the number that grades a case.

    Raises
    ------
    Ungradable
        when nothing about a whole step or a layer was measured.
    """
    measured = case.row.measured
    if case.row.scope == SINGLE_LAYER:
        for name in LAYER:
            if getattr(measured, name) is not None:
                return name
    if case.row.scope is None:
        for name in METRICS:
            if getattr(measured, name) is None:
                continue
            if name != "run_time_s" or measured.run_samples is not None:
                return name
    for name, what in _NOT_STEPS:
        if getattr(measured, name) is not None:
            raise Ungradable.because(what)
    if case.row.scope is not None:
        raise Ungradable.because("not a whole step", f"measured is '{case.row.scope}', not a step")
    raise Ungradable.because("no measured time or throughput")


def measure_of(case: Case, recompute: str, peak: float) -> Measure:
    """Return the number that grades a case; `peak` is that of a device [FLOP/s].

    Raises
    ------
    Ungradable
        when nothing about a whole step was measured, or its convention of FLOPs is not stated.
    """
    name = measured_metric(case)
    convention = METRICS[name].convention if name in METRICS else None
    if convention == OF_SOURCE:
        convention = flops_convention(case, recompute, peak)
    return Measure(name, float(getattr(case.row.measured, name)), convention)


def flops_convention(case: Case, recompute: str, peak: float) -> str:
    """Return whether the TFLOP/s of a case count recomputation.

    An equal utilisation of the same source decides it, else the words of the source.
    """
    measured = case.row.measured
    share = 100 * (measured.tflops_per_gpu or 0.0) * 1e12 / peak
    for same, convention in ((measured.mfu_pct, MODEL), (measured.hfu_pct, HARDWARE)):
        if same is not None and abs(share / same - 1) < 0.03:
            return convention
    if case.convention is not None:
        return case.convention
    if recompute == "none":
        return MODEL  # without recomputation both are equal
    raise Ungradable(
        Reason("convention of its TFLOP/s not stated", "it is not stated which FLOPs are counted")
    )


def grade(measure: Measure, result: Result, case: Case) -> Grade:
    """Compare the prediction of a whole step with the measurement."""
    metric = METRICS[measure.metric]
    predicted = metric.predict(result, measure.convention or MODEL, case)
    return graded(
        measure.metric, measure.value, predicted, metric.is_time, convention=measure.convention
    )


def grade_layer(measure: Measure, forward: float, backward: float) -> Grade:
    """Compare the time of a layer, forward and whole backward [s], with the measurement."""
    seconds = {"layer_forward_ms": forward, "layer_backward_ms": backward}
    predicted = 1e3 * seconds.get(measure.metric, forward + backward)
    return graded(measure.metric, measure.value, predicted, is_time=True)


def graded(
    metric: str,
    measured: float,
    predicted: float,
    is_time: bool | None = None,
    convention: str | None = None,
) -> Grade:
    """Compare a prediction with a measurement; `is_time` as in `Metric`.

    >>> graded("mfu_pct", 40.0, 32.0, is_time=False).time_error
    0.25
    """
    error = predicted / measured - 1
    slower = {True: error, False: measured / predicted - 1, None: None}[is_time]
    return Grade(metric, convention, measured, predicted, error, time_error=slower)


def at_least(metric: str, bound: float, predicted: float) -> Grade:
    """Return the grade of a lower bound: no error where it holds."""
    return Grade(metric, None, bound, predicted, min(0.0, predicted / bound - 1), None)


def at_most(metric: str, bound: float, predicted: float) -> Grade:
    """Return the grade of an upper bound: no error where it holds."""
    return Grade(metric, None, bound, predicted, max(0.0, predicted / bound - 1), None)


def measured_memory(case: Case) -> float | None:
    """Return the measured memory of a device [B]."""
    amount = case.row.measured.memory_gb_per_gpu
    return None if amount is None else amount * case.memory_unit


# --- a single layer -------------------------------------------------------------------------------


class LayerTimes(NamedTuple):
    """Times of one layer for one microbatch on one rank [s].

    Attributes
    ----------
    forward : its forward
    backward : its backward, without recomputation
    recompute : the recomputed forward operations
    """

    forward: float
    backward: float
    recompute: float


def layer_times(loaded: Loaded) -> LayerTimes:
    """Return the times of the first layer of a scenario, its collectives without other traffic.

    Gradients are not accumulated: there is one microbatch.
    """
    return layer_times_of(build_job(loaded))


def layer_times_of(job: Job) -> LayerTimes:
    """Return the same of a job."""
    blocks = Blocks(job)
    groups, pattern = blocks.communicators, blocks.communicators.pattern(0, 0)
    stacked = job.layers.stacked(0, 0)[0]
    ops = [op for op in job.layers.ops(stacked.layer) if op.forward]

    def seconds(kernels: Iterable[Kernel], *, back: bool = False) -> float:
        def moved(collective: Collective) -> float:
            return groups.cost(collective, pattern).seconds

        chain = chain_seconds(kernels, job.device, moved, job.cluster.occupied)
        return job.dispatch.of(chain.of_backward() if back else chain).total

    recomputed = [op for op in ops if op.name in stacked.recomputed]
    back = seconds(backward(ops), back=True)
    return LayerTimes(seconds(forward(ops)), back, seconds(forward(recomputed)))


def layer_flops(loaded: Loaded, metric: str) -> dict[str, float]:
    """Return the FLOPs of the measured passes of the first layer, on one device, by convention.

    Parameters
    ----------
    metric : ``layer_forward_ms``, ``layer_backward_ms`` or ``layer_total_ms``
    """
    job = build_job(loaded)
    stacked = job.layers.stacked(0, 0)[0]
    flops = layer_forward_flops(job.model, stacked.layer)
    ahead = sum(flops.values())
    recomputed = sum(amount for name, amount in flops.items() if name in stacked.recomputed)
    passes = {"layer_forward_ms": 1, "layer_backward_ms": 2}.get(metric, 3)
    plan = loaded.scenario.plan
    share = loaded.scenario.batch.micro / (plan.tensor * plan.context)
    hardware = passes * ahead + (recomputed if passes > 1 else 0.0)
    return {"model": share * passes * ahead, "hardware": share * hardware}
