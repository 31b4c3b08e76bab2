"""Efficiency along scaling curves, and the part of the step that each loss is due to.

    rate of a device   r = work of a step / (devices x step time)
    efficiency         E = r / r of the reference point
    device-seconds     w = devices x step time / work = 1 / r, a sum over the parts of a step
    loss           1 - E = (w - w0) / w = the sum over the parts of (w_part - w0_part) / w

Work is counted in tokens, or in model FLOPs where the points of a curve train several models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Final, Literal, NamedTuple

from clustersim.catalog.changes import Settings
from clustersim.runs.arguments import settings_of, study_of
from clustersim.runs.execution import OnProgress, ignore_progress, run_study
from clustersim.runs.table import measures
from clustersim.runs.variants import Run
from clustersim.scenario.scaling import EFFICIENCY
from clustersim.simulation.answer import DeviceTflops, ExposedCommunication, RunAnswer
from clustersim.studies.scaling.arguments import (
    CurveRequest,
    ScalingRequest,
    curves_of,
    device_counts,
)
from clustersim.studies.scaling.points import Kind, PlannedPoint

Work = Literal["tokens", "model FLOPs"]

TOKENS: Final = "tokens"
FLOPS: Final = "model FLOPs"


@dataclass(frozen=True)
class PointMemory:
    """The peak of the fullest stage.

    Attributes
    ----------
    peak_bytes : the most that a device of the fullest stage holds [B]
    capacity_bytes : memory of a device [B]
    fits : false if the peak exceeds the capacity by more than the error of predictions
    """

    peak_bytes: float
    capacity_bytes: float
    fits: bool


@dataclass(frozen=True)
class ScalingPoint:
    """A point of a curve that has been run.

    Attributes
    ----------
    scenario : name of the scenario of the point
    devices : devices of the job
    nodes : nodes of the job
    batch : sequences of a step
    set : changes of the scenario
    step_time_s : step time [s]
    tokens_per_s : tokens of the whole job in a second
    tokens_per_s_per_device : the same over the number of devices
    tflops_per_device : rate of a device in both conventions
    mfu : model FLOPs over peak
    hfu : executed FLOPs over peak, recomputation included
    efficiency : [rate of a device over that of the reference point](model.md#along-a-scaling-curve)
    speedup : rate of the job over that of the reference point
    bubble_fraction : bubble over step time
    exposed_fraction : exposed communication over step time
    memory : the peak of the fullest stage
    attribution : seconds of each part of the step time; they add up to it [s]
    loss : loss of efficiency by part; all of them add up to 1 - `efficiency`
    exposed : communication that no computation hides, the longest first
    """

    scenario: str
    devices: int
    nodes: int
    batch: int
    set: tuple[str, ...]
    step_time_s: float
    tokens_per_s: float
    tokens_per_s_per_device: float
    tflops_per_device: DeviceTflops
    mfu: float
    hfu: float
    efficiency: float
    speedup: float
    bubble_fraction: float
    exposed_fraction: float
    memory: PointMemory
    attribution: Mapping[str, float]
    loss: Mapping[str, float]
    exposed: tuple[ExposedCommunication, ...]


@dataclass(frozen=True)
class SkippedPoint:
    """A point that has not been run.

    Attributes
    ----------
    devices : its devices
    why : the reason in one line
    """

    devices: int
    why: str


@dataclass(frozen=True)
class PublishedResult:
    """A published number of a curve, and the predicted one.

    Attributes
    ----------
    devices : devices of the point
    metric : `efficiency`, or a metric of a scenario's `published`
    convention : how FLOPs are counted: `model` or `hardware`
    value : the published number
    source : where it was read
    predicted : the same number as predicted; null where the point has not been run
    error : predicted over published, less one; for `efficiency` predicted less published
    efficiency : the efficiency that corresponds to it; null where the reference has no such number
    """

    devices: int
    metric: str
    convention: str | None
    value: float
    source: str
    predicted: float | None
    error: float | None
    efficiency: float | None


@dataclass(frozen=True)
class ScalingCurve:
    """A scaling curve of a scenario.

    Attributes
    ----------
    name : file name of the scenario without its suffix
    title : title of the scenario
    scaling : `weak`, where the batch grows with the devices, or `strong`, where it does not
    axis : parallel axis that grows with the number of devices
    set : changes of all points
    guessed : whether the numbers of devices were chosen by doubling, since none are given
    work : what efficiency counts: `tokens`, or `model FLOPs` where points train several models
    against : devices of the reference point, which has efficiency 1; null where it has not run
    points : points that have been run, by number of devices
    skipped : points that have not been run
    published : published numbers and the predicted ones, by number of devices
    assumed : `assumed` of the scenario: keys that no source states, with the reason
    """

    name: str
    title: str
    scaling: Kind
    axis: str
    set: tuple[str, ...]
    guessed: bool
    work: Work
    against: int | None
    points: tuple[ScalingPoint, ...]
    skipped: tuple[SkippedPoint, ...]
    published: tuple[PublishedResult, ...]
    assumed: Mapping[str, str]


@dataclass(frozen=True)
class ScalingAnswer:
    """Scaling curves.

    Attributes
    ----------
    curves : the weak ones first
    """

    curves: tuple[ScalingCurve, ...]


def scale(
    scenarios: str | Sequence[str],
    *,
    weak: str | Sequence[int] | None = None,
    strong: str | Sequence[int] | None = None,
    axis: str | None = None,
    against: int | None = None,
    settings: Settings = (),
    store: str | Path | None = None,
    jobs: int | None = None,
    executor: str | None = None,
    on_progress: OnProgress = ignore_progress,
) -> ScalingAnswer:
    """Compute scaling curves: efficiency over numbers of devices, and causes of lost efficiency.

    Without `weak` and `strong` the curves are those of the scenario's key ``scaling``; a scenario
    without that key is run on 1, 2, 4 and 8 times its own devices.

    Parameters
    ----------
    scenarios : one or more files or names of shipped scenarios
    weak : numbers of devices of a curve with a batch that grows with them, ``"128:1024"`` or
        ``[128, 256, 512, 1024]``
    strong : numbers of devices of a curve with the batch of the scenario
    axis : parallel axis that grows with the number of devices: tensor, pipeline, data, context or
        expert
    against : devices of the reference point, which has efficiency 1; the fewest if None
    settings : changes of all points, ``["plan.zero=1"]`` or ``{"plan.zero": 1}``
    store : run cache (SQLite); in memory if None
    jobs : number of processes; one per core if None
    executor : address of a Dask cluster to run on instead: ``dask://HOST:PORT``, ``dask:FILE.yaml``
    on_progress : called with the number of runs that are done, and of all

    Raises
    ------
    ScenarioError, CatalogError
        when a scenario is invalid, or no point of a curve is valid, before any is run.

    >>> import clustersim
    >>> answer = clustersim.scale(
    ...     "frontier-22b", strong=[16, 32], settings={"batch.global": 32}, jobs=1
    ... )
    >>> [point.devices for point in answer.curves[0].points]
    [16, 32]
    """
    request = ScalingRequest(
        weak=device_counts("--weak", weak),
        strong=device_counts("--strong", strong),
        axis=axis,
        against=against,
        settings=settings_of(settings),
    )
    curves = curves_of([scenarios] if isinstance(scenarios, str) else scenarios, request)
    variants = [point.variant for curve in curves for point in curve.points]
    study = study_of("scale", curves[0].name, curves[0].title, variants)
    runs = iter(
        run_study(
            study, variants, store=store, jobs=jobs, executor=executor, on_progress=on_progress
        )
    )
    return ScalingAnswer(tuple(curve_of(c, [next(runs) for _ in c.points]) for c in curves))


@dataclass(frozen=True)
class RunPoint:
    """A point with the answer of its run.

    Attributes
    ----------
    work : of a step, in the unit of its curve
    """

    point: PlannedPoint
    answer: RunAnswer
    work: float

    @property
    def rate(self) -> float:
        """Work of a device in a second."""
        return self.work / (self.point.devices * self.answer.step_time_s)

    @property
    def parts(self) -> dict[str, float]:
        """Device-seconds of a unit of work, by part [s]."""
        share = self.point.devices / self.work
        return {part: share * seconds for part, seconds in self.answer.attribution.items()}


def efficiency(run: RunPoint, reference: RunPoint) -> float:
    """Return the rate of a device over that of the reference point [unitless].

    With the same batch this is the speed-up over the ratio of devices (strong scaling); with a
    batch that grows with the devices it is the ratio of step times (weak scaling).
    """
    return run.rate / reference.rate


def loss(run: RunPoint, reference: RunPoint) -> dict[str, float]:
    r"""Return the loss of efficiency by part [unitless]; below 0 where a part gains.

    .. math:: 1 - E = \sum_i \frac{w_i - w_{0,i}}{w}

    with w the device-seconds of a unit of work, whose parts add up to it.
    """
    parts, before = run.parts, reference.parts
    total = sum(parts.values())
    return {part: (parts[part] - before[part]) / total for part in parts}


def curve_of(request: CurveRequest, runs: Sequence[Run]) -> ScalingCurve:
    """Return a curve from the runs of its points."""
    pairs = [*zip(request.points, runs, strict=True)]
    ran = [(p, run.answer) for p, run in pairs if run.answer is not None]
    work: Work = TOKENS if len({point.model for point, _ in ran}) <= 1 else FLOPS
    finished = [RunPoint(point, answer, _work_of(answer, work)) for point, answer in ran]
    known = [run for run in finished if request.against in (None, run.point.devices)]
    reference = known[0] if known else None
    points = [] if reference is None else [_point(run, reference) for run in finished]
    return ScalingCurve(
        name=request.name,
        title=request.title,
        scaling=request.kind,
        axis=request.axis,
        set=request.changed,
        guessed=request.guessed,
        work=work,
        against=None if reference is None else reference.point.devices,
        points=tuple(points),
        skipped=tuple(
            SkippedPoint(point.devices, run.why or "the reference point has not run")
            for point, run in pairs
            if run.answer is None or reference is None
        ),
        published=() if reference is None else _published(request, finished, points, reference),
        assumed=dict(request.assumed),
    )


def _work_of(answer: RunAnswer, unit: Work) -> float:
    """Return the work of a step: its tokens, or its model FLOPs [TFLOP]."""
    if unit == FLOPS:
        return answer.tflops_per_device.model * answer.counts.devices * answer.step_time_s
    return answer.tokens_per_s * answer.step_time_s


def _point(run: RunPoint, reference: RunPoint) -> ScalingPoint:
    point, answer, memory = run.point, run.answer, run.answer.memory
    return ScalingPoint(
        scenario=answer.name,
        devices=point.devices,
        nodes=point.nodes,
        batch=point.batch,
        set=settings_of(point.variant.settings),
        step_time_s=answer.step_time_s,
        tokens_per_s=answer.tokens_per_s,
        tokens_per_s_per_device=answer.tokens_per_s_per_device,
        tflops_per_device=answer.tflops_per_device,
        mfu=answer.mfu,
        hfu=answer.hfu,
        efficiency=efficiency(run, reference),
        speedup=run.rate * point.devices / (reference.rate * reference.point.devices),
        bubble_fraction=answer.bubble_fraction,
        exposed_fraction=measures(answer)["exposed_fraction"],
        memory=PointMemory(memory.peak_bytes, memory.capacity_bytes, memory.fits),
        attribution=answer.attribution,
        loss=loss(run, reference),
        exposed=answer.exposed,
    )


# --- published numbers ----------------------------------------------------------------------------


class _Number(NamedTuple):
    """A published number of a point."""

    devices: int
    metric: str
    convention: str | None
    value: float
    source: str

    @property
    def unit(self) -> tuple[str, str | None]:
        """Metric and convention."""
        return self.metric, self.convention


def _published(
    request: CurveRequest,
    finished: Sequence[RunPoint],
    points: Sequence[ScalingPoint],
    reference: RunPoint,
) -> tuple[PublishedResult, ...]:
    """Return published numbers with the predicted ones, by devices."""
    of_curve = [
        _Number(p.devices, p.metric, p.convention, p.value, p.source) for p in request.published
    ]
    order = attrgetter("devices", "metric", "source", "value")
    numbers = sorted({*of_curve, *_of_points(finished)}, key=order)
    starts = {n.unit: n for n in numbers if n.devices == reference.point.devices}
    by_devices = {point.devices: point for point in points}
    start = by_devices[reference.point.devices]
    return tuple(
        _compared(number, by_devices.get(number.devices), starts.get(number.unit), start)
        for number in numbers
    )


def _of_points(finished: Sequence[RunPoint]) -> list[_Number]:
    """Return the published numbers of scenarios that are points without changes."""
    return [
        _Number(run.point.devices, check.metric, check.convention, check.value, check.source)
        for run in finished
        if run.point.own
        for check in run.answer.published
        if check.metric not in ("fits", "memory_bytes")
    ]


def _compared(
    number: _Number,
    point: ScalingPoint | None,
    published_start: _Number | None,
    start: ScalingPoint,
) -> PublishedResult:
    """Return a published number with the predicted one.

    The efficiency that it corresponds to is the predicted one, times published over predicted here,
    over published over predicted at the reference point.
    """
    if point is None:
        return PublishedResult(*number, predicted=None, error=None, efficiency=None)
    predicted = _predicted(number, point)
    difference = predicted - number.value
    if number.metric == EFFICIENCY:
        return PublishedResult(*number, predicted, error=difference, efficiency=number.value)
    efficiency = None
    if published_start is not None:
        ratio = number.value / predicted
        ratio_at_start = published_start.value / _predicted(published_start, start)
        sign = -1 if number.metric == "step_time_s" else 1
        efficiency = point.efficiency * (ratio / ratio_at_start) ** sign
    return PublishedResult(*number, predicted, difference / number.value, efficiency)


def _predicted(number: _Number, point: ScalingPoint) -> float:
    """Return a number of a point in the published convention, as `Result.metric` does."""
    rate, value = point.tflops_per_device, getattr(point, number.metric)
    if isinstance(value, DeviceTflops):
        return rate.hardware if number.convention == "hardware" else rate.model
    return point.mfu * rate.hardware / rate.model if number.metric == "hfu" else float(value)


__all__ = [
    "FLOPS",
    "TOKENS",
    "PointMemory",
    "PublishedResult",
    "RunPoint",
    "ScalingAnswer",
    "ScalingCurve",
    "ScalingPoint",
    "SkippedPoint",
    "curve_of",
    "efficiency",
    "loss",
    "scale",
]
