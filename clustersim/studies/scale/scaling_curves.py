"""Efficiency along scaling curves, and the part of the step that each loss is due to.

    rate of a device   r = work of a step / (devices x step time)
    efficiency         E = r / r of the reference point
    device-seconds     w = devices x step time / work = 1 / r, a sum over the parts of a step
    loss           1 - E = (w - w0) / w = the sum over the parts of (w_part - w0_part) / w

Work is counted in tokens, in model FLOPs where the points of a curve train several models, and in
steps of the jobs of a shared machine.  Of a service at an open rate it is the tokens of the rate
that it sustains: at the stated rate any number of devices that sustains it has the same tokens.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final, Unpack

import numpy as np

from clustersim.catalog.changes import Settings
from clustersim.memory.room import outcome_of
from clustersim.records import dataclass
from clustersim.runs.arguments import settings_of, study_of
from clustersim.runs.execution import Execution, run_study
from clustersim.runs.variants import Run, ScenarioAnswer
from clustersim.scenario.origins import scenario_text
from clustersim.scenario.scaling import EFFICIENCY, PublishedPoint
from clustersim.simulation.published import PublishedCheck
from clustersim.simulation.sharing.answer import ShareAnswer
from clustersim.simulation.step.answer import Replications, RunAnswer
from clustersim.studies.scale.answer import (
    FLOPS,
    STEPS,
    SUSTAINED,
    TOKENS,
    PublishedResult,
    ScalingAnswer,
    ScalingCurve,
    ScalingPoint,
    SkippedPoint,
    Work,
    sustained,
)
from clustersim.studies.scale.arguments import (
    CurveRequest,
    ScalingRequest,
    curves_of,
    device_counts,
)
from clustersim.studies.scale.points import PlannedPoint

AT_LOAD: Final = "parts of a loss are those of the time per token at the load of each point"
"""What parts of a loss are of, where efficiency is that of the sustainable rate."""


@dataclass(frozen=True)
class RunPoint:
    """A point with the answer of its run.

    Attributes
    ----------
    work : what is counted: tokens, those that a service sustains, model FLOPs, or steps of jobs
    """

    point: PlannedPoint
    answer: ScenarioAnswer
    work: Work

    @property
    def rate(self) -> float:
        """Work of a device in a second; all tokens of a service whose requests have one token."""
        if self.work == STEPS:
            return 1 / sum(self.attribution.values())
        numbers = self.answer.measures()
        if self.work == FLOPS:
            return numbers["tflops_per_device_model"]
        prompts_only = "ttft" in numbers and "tpot" not in numbers
        tokens = numbers[f"{'total_' if prompts_only else ''}tokens_per_s_per_device"]
        if self.work == SUSTAINED:
            return tokens * sustained(numbers)
        return tokens

    @property
    def replications(self) -> Replications | None:
        """Its step over several seeds; None of a service, and without random disturbances."""
        return self.answer.replications if isinstance(self.answer, RunAnswer) else None

    @property
    def attribution(self) -> Mapping[str, float]:
        """Seconds of each part of a step, of the time per token, or of a mean device's step [s]."""
        accounts = {account.name: account.parts for account in self.answer.accounts()}
        return next(
            accounts[n] for n in ("step", "token", "first token", "device") if n in accounts
        )

    @property
    def parts(self) -> dict[str, float]:
        """Device-seconds of a unit of work, by part [s]."""
        total = sum(self.attribution.values())
        return {part: s / total / self.rate for part, s in self.attribution.items()}


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
    return {
        part: (parts.get(part, 0.0) - before.get(part, 0.0)) / total for part in {**before, **parts}
    }


def scale(
    scenarios: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
    *,
    weak: str | int | Sequence[int] | None = None,
    strong: str | int | Sequence[int] | None = None,
    axis: str | None = None,
    against: int | None = None,
    settings: Settings = (),
    **execution: Unpack[Execution],
) -> ScalingAnswer:
    """Compute scaling curves: efficiency over numbers of devices, and causes of lost efficiency.

    Without `weak` and `strong` the curves are those of the scenario's key ``scaling``; a scenario
    without that key is run on 1, 2, 4 and 8 times its own devices, a service with a load that
    grows with them, a shared machine with copies of its jobs.

    Parameters
    ----------
    scenarios : one or more files or names of shipped scenarios, or their keys and values as dicts
    weak : numbers of devices of a curve with a batch or load that grows with them, ``"128:1024"``
        or ``[128, 256, 512, 1024]``
    strong : numbers of devices of a curve with the batch or load of the scenario
    axis : parallel axis that grows with the number of devices: tensor, pipeline, data, context or
        expert; of a service replicas, tensor or pipeline; of a shared machine copies
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
    several = [scenarios] if isinstance(scenarios, str | Mapping) else scenarios
    curves = curves_of([*map(scenario_text, several)], request)
    variants = [point.variant for curve in curves for point in curve.points]
    study = study_of("scale", curves[0].name, curves[0].title, variants)
    runs = iter(run_study(study, variants, **execution))
    return ScalingAnswer(tuple(curve_of(c, [next(runs) for _ in c.points]) for c in curves))


def curve_of(request: CurveRequest, runs: Sequence[Run]) -> ScalingCurve:
    """Return a curve from the runs of its points."""
    pairs = [*zip(request.points, runs, strict=True)]
    ran = [(p, run.answer) for p, run in pairs if run.answer is not None and run.answer.measures()]
    work: Work = TOKENS if len({point.model for point, _ in ran}) <= 1 else FLOPS
    if any(isinstance(answer, ShareAnswer) for _, answer in ran):
        work = STEPS
    elif ran and all("sustainable_rate" in answer.measures() for _, answer in ran):
        work = SUSTAINED
    finished = [RunPoint(point, answer, work) for point, answer in ran]
    known = [run for run in finished if request.against in (None, run.point.devices)]
    reference = known[0] if known else None
    points: list[ScalingPoint] = []
    published: tuple[PublishedResult, ...] = ()
    if reference is not None:
        points = [_point(run, reference) for run in finished]
        published = published_results(request, finished, points, reference)
    done = {id(run.point) for run in finished} if reference is not None else set()
    return ScalingCurve(
        name=request.name,
        title=request.title,
        kinds=finished[0].answer.kinds if finished else (),
        scaling=request.kind,
        axis=request.axis,
        set=request.changed,
        guessed=request.guessed,
        work=work,
        against=None if reference is None else reference.point.devices,
        points=tuple(points),
        skipped=tuple(
            SkippedPoint(point.devices, _why(run)) for point, run in pairs if id(point) not in done
        ),
        published=published,
        cautions=(*_cautions(points, finished), *([AT_LOAD] if work == SUSTAINED else [])),
        assumed=dict(request.assumed),
    )


def _cautions(points: Sequence[ScalingPoint], finished: Sequence[RunPoint]) -> Iterator[str]:
    """Yield what the efficiencies of steps leave out, and on what their intervals are based."""
    steps = [run.answer for run in finished if isinstance(run.answer, RunAnswer)]
    if len(points) < 2 or not steps:
        return
    interval = steps[-1].interval
    if interval.low_s is None or interval.high_s is None:
        yield f"no interval of step times: {interval.why}"
    else:
        low, high = (end / steps[-1].step_time_s for end in (interval.low_s, interval.high_s))
        yield (
            f"{100 * interval.level:.0f} % of measured steps take {low:.2f} to {high:.2f} times the"
            f" prediction ({interval.why}); efficiencies have no interval of their own"
        )
    if not any(step.disturbances for step in steps):
        yield (
            "random times of devices, hosts and links are not included, and lower the efficiency of"
            " large jobs (a scenario states them as disturbances)"
        )


def _why(run: Run) -> str:
    """Return why a point is not on its curve."""
    if run.answer is not None and not run.answer.measures():
        return run.answer.memory.verdict
    return run.why or "the reference point has not run"


def _point(run: RunPoint, reference: RunPoint) -> ScalingPoint:
    point, answer = run.point, run.answer
    return ScalingPoint(
        scenario=answer.name,
        devices=point.devices,
        nodes=point.nodes,
        load=point.load,
        set=settings_of(point.variant.settings),
        measures=answer.measures(),
        efficiency=efficiency(run, reference),
        speedup=run.rate * point.devices / (reference.rate * reference.point.devices),
        fits=answer.memory.fits,
        memory=outcome_of(answer.memory.verdict),
        attribution=run.attribution,
        loss=loss(run, reference),
        bottleneck=answer.facts().get("bottleneck", ""),
        replications=run.replications,
        efficiency_spread=_spread(run, reference),
    )


def _spread(run: RunPoint, reference: RunPoint) -> tuple[float, float] | None:
    """Return the percentiles of the efficiency over replications; None without them.

    Each step is compared with the one of the reference that has the same random numbers.
    """
    own, other = run.replications, reference.replications
    if own is None or other is None:
        return None
    steps, before = np.array(own.steps_s), np.array(other.steps_s)
    ratios = steps[0] / steps * before / before[0]
    low, high = np.quantile(efficiency(run, reference) * ratios, (0.1, 0.9)).tolist()
    return low, high


def published_results(
    request: CurveRequest,
    finished: Sequence[RunPoint],
    points: Sequence[ScalingPoint],
    reference: RunPoint,
) -> tuple[PublishedResult, ...]:
    """Return published numbers with the predicted ones, by devices."""
    of_curve = [_stated(point.devices, point) for point in request.published]
    order = attrgetter("devices", "metric", "source", "value")
    numbers = sorted({*of_curve, *_of_points(finished)}, key=order)
    unit = attrgetter("metric", "convention")
    starts = {unit(n): n for n in numbers if n.devices == reference.point.devices}
    by_devices = {point.devices: point for point in points}
    start = by_devices[reference.point.devices]
    base = request.base or reference.point.devices
    return tuple(
        _compared(
            number if number.metric != EFFICIENCY else replace(number, base=base),
            by_devices.get(number.devices),
            starts.get(unit(number)),
            start if number.metric != EFFICIENCY else by_devices.get(base),
        )
        for number in numbers
    )


def _stated(devices: int, published: PublishedPoint | PublishedCheck) -> PublishedResult:
    """Return a published number of a point, which is not compared yet."""
    metric, convention = published.metric, published.convention
    return PublishedResult(
        devices, metric, convention, published.value, published.source, None, None, None
    )


def _of_points(finished: Sequence[RunPoint]) -> list[PublishedResult]:
    """Return the published numbers of scenarios that are points without changes."""
    return [
        _stated(run.point.devices, check)
        for run in finished
        if run.point.own
        if isinstance(run.answer, RunAnswer)
        for check in run.answer.published
        if check.metric not in ("fits", "memory_bytes")
    ]


def _compared(
    number: PublishedResult,
    point: ScalingPoint | None,
    published_start: PublishedResult | None,
    start: ScalingPoint | None,
) -> PublishedResult:
    """Return a published number with the predicted one.

    `start` is the reference point, of an efficiency the point that it is relative to; without it
    there is no comparison.

    The efficiency that it corresponds to is the predicted one, times published over predicted here,
    over published over predicted at the reference point.
    """
    if point is None or start is None:
        return number
    if number.metric == EFFICIENCY:
        predicted = point.efficiency / start.efficiency
        return replace(
            number,
            predicted=predicted,
            error=predicted - number.value,
            efficiency=number.value * start.efficiency,
        )
    predicted = _predicted(number, point)
    difference = predicted - number.value
    efficiency = None
    if published_start is not None:
        ratio = number.value / predicted
        ratio_at_start = published_start.value / _predicted(published_start, start)
        sign = -1 if number.metric == "step_time_s" else 1
        efficiency = point.efficiency * (ratio / ratio_at_start) ** sign
    error = difference / number.value
    return replace(number, predicted=predicted, error=error, efficiency=efficiency)


def _predicted(number: PublishedResult, point: ScalingPoint) -> float:
    """Return a number of a point in the published convention, as `Result.metric` does."""
    numbers = point.measures
    if number.metric == "tflops_per_device":
        return numbers[f"tflops_per_device_{number.convention}"]
    if number.metric == "hfu":
        hardware, model = (numbers[f"tflops_per_device_{name}"] for name in ("hardware", "model"))
        return numbers["mfu"] * hardware / model
    return numbers[number.metric]
