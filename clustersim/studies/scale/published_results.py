"""Published numbers of a scaling curve, compared with the predicted ones."""

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from clustersim.scenario.scaling import EFFICIENCY
from clustersim.simulation.step.answer import RunAnswer
from clustersim.studies.scale.answer import PublishedResult, ScalingPoint
from clustersim.studies.scale.arguments import CurveRequest
from clustersim.studies.scale.run_points import RunPoint


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


def published_results(
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
        if isinstance(run.answer, RunAnswer)
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
    numbers = point.measures
    if number.metric == "efficiency":
        return point.efficiency
    if number.metric == "tflops_per_device":
        return numbers[f"tflops_per_device_{number.convention}"]
    if number.metric == "hfu":
        hardware, model = (numbers[f"tflops_per_device_{name}"] for name in ("hardware", "model"))
        return numbers["mfu"] * hardware / model
    return numbers[number.metric]
