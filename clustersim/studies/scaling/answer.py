"""Efficiency along a scaling curve, and what is lost of it, part by part.

    a device's rate    r = work of a step / (devices x step time)
    efficiency         E = r / r of the point that others are held against
    device-seconds     w = devices x step time / work = 1 / r, a sum over the parts of a step
    loss           1 - E = (w - w0) / w = the sum over the parts of (w_part - w0_part) / w

Work is counted in tokens, or in model FLOPs where the points of a curve train several models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clustersim.runs.table import measures
from clustersim.runs.variants import Run
from clustersim.scenario.scaling import EFFICIENCY, PublishedPoint
from clustersim.studies.scaling.arguments import Curve
from clustersim.studies.scaling.points import Point

Values = Mapping[str, Any]

TOKENS: Final = "tokens"
FLOPS: Final = "model FLOPs"


@dataclass(frozen=True)
class Step:
    """A point that has been run.

    Attributes
    ----------
    answer : of its run
    work : of a step, in the unit of its curve
    """

    point: Point
    answer: Values
    work: float

    @property
    def rate(self) -> float:
        """Work of a device in a second."""
        seconds: float = self.answer["step_time_s"]
        return self.work / (self.point.devices * seconds)

    @property
    def parts(self) -> dict[str, float]:
        """Device-seconds of a unit of work, by part [s]."""
        each = self.point.devices / self.work
        return {part: each * seconds for part, seconds in self.answer["attribution"].items()}


def efficiency(step: Step, first: Step) -> float:
    """Return the rate of a device over that of the first point [unitless].

    With the same batch this is the speed-up over the ratio of devices, as strong scaling is told;
    with a batch that grows with the devices it is the ratio of step times, as weak scaling is.
    """
    return step.rate / first.rate


def loss(step: Step, first: Step) -> dict[str, float]:
    r"""Return what efficiency lacks to 1, by part [unitless]; less than 0 where a part gains.

    .. math:: 1 - E = \sum_i \frac{w_i - w_{0,i}}{w}

    with w the device-seconds of a unit of work, whose parts add up to it.
    """
    parts, before = step.parts, first.parts
    whole = sum(parts.values())
    return {part: (parts[part] - before[part]) / whole for part in parts}


def scaled(curve: Curve, runs: Sequence[Run]) -> dict[str, Any]:
    """Return a curve with what came of its points as plain values; the keys are documented."""
    pairs = list(zip(curve.points, runs, strict=True))
    ran = [(point, run.answer) for point, run in pairs if run.answer is not None]
    unit = TOKENS if len({point.model for point, _ in ran}) <= 1 else FLOPS
    steps = [Step(point, answer, _work(answer, unit)) for point, answer in ran]
    first = next((s for s in steps if curve.against in (None, s.point.devices)), None)
    points = [] if first is None else [_values(step, first) for step in steps]
    return {
        "name": curve.name,
        "title": curve.title,
        "scaling": curve.kind,
        "axis": curve.axis,
        "set": list(curve.changed),
        "guessed": curve.guessed,
        "work": unit,
        "against": None if first is None else first.point.devices,
        "points": points,
        "skipped": [
            {"devices": point.devices, "why": run.why or "the point to be held against has not run"}
            for point, run in pairs
            if run.answer is None or first is None
        ],
        "published": [] if first is None else _published(curve, steps, points, first),
        "assumed": dict(curve.assumed),
    }


def _work(answer: Values, unit: str) -> float:
    """Return the work of a step: its tokens, or its model FLOPs [TFLOP]."""
    rate: float = answer["tokens_per_s"]
    if unit == FLOPS:
        rate = answer["tflops_per_device"]["model"] * answer["counts"]["devices"]
    return rate * float(answer["step_time_s"])


def _values(step: Step, first: Step) -> dict[str, Any]:
    point, answer, found = step.point, step.answer, measures(step.answer)
    return {
        "scenario": answer["name"],
        "devices": point.devices,
        "nodes": point.nodes,
        "batch": point.batch,
        "set": list(point.variant.settings),
        "step_time_s": answer["step_time_s"],
        "tokens_per_s": answer["tokens_per_s"],
        "tokens_per_s_per_device": answer["tokens_per_s_per_device"],
        "tflops_per_device": dict(answer["tflops_per_device"]),
        "mfu": answer["mfu"],
        "hfu": answer["hfu"],
        "efficiency": efficiency(step, first),
        "speedup": step.rate * point.devices / (first.rate * first.point.devices),
        "bubble_fraction": answer["bubble_fraction"],
        "exposed_fraction": found["exposed_fraction"],
        "memory": {key: answer["memory"][key] for key in ("peak_bytes", "capacity_bytes", "fits")},
        "attribution": dict(answer["attribution"]),
        "loss": loss(step, first),
        "exposed": list(answer["exposed"]),
    }


# --- beside what was published --------------------------------------------------------------------


@dataclass(frozen=True)
class _Told:
    """A published number of a point."""

    devices: int
    metric: str
    convention: str | None
    value: float
    source: str


def _published(
    curve: Curve, steps: Sequence[Step], points: Sequence[Values], first: Step
) -> list[dict[str, Any]]:
    """Return published numbers beside the predicted ones, by devices."""
    there = {point["devices"]: point for point in points}
    told = sorted({*map(_of_file, curve.published), *_of_points(steps)}, key=_order)
    starts = {_unit(each): each for each in told if each.devices == first.point.devices}
    found = []
    for each in told:
        point = there.get(each.devices)
        predicted = None if point is None else _predicted(each, point)
        start = starts.get(_unit(each))
        shown = None if point is None else _efficiency(each, start, point, there)
        error = None
        if predicted is not None:
            points_off = predicted - each.value
            error = points_off if each.metric == EFFICIENCY else points_off / each.value
        found.append({**vars(each), "predicted": predicted, "error": error, "efficiency": shown})
    return found


def _of_file(said: PublishedPoint) -> _Told:
    return _Told(said.devices, said.metric, said.convention, said.value, said.source)


def _of_points(steps: Sequence[Step]) -> list[_Told]:
    """Return what scenarios say was published of themselves, where they are points unchanged."""
    return [
        _Told(step.point.devices, said["metric"], said["convention"], said["value"], said["source"])
        for step in steps
        if step.point.own
        for said in step.answer["published"]
        if said["metric"] not in ("fits", "memory_bytes")
    ]


def _order(told: _Told) -> tuple[int, str, str, float]:
    return told.devices, told.metric, told.source, told.value


def _unit(told: _Told) -> tuple[str, str | None]:
    return told.metric, told.convention


def _predicted(told: _Told, point: Values) -> float:
    value = point[told.metric]
    return float(value[told.convention or "model"] if isinstance(value, Mapping) else value)


def _efficiency(
    told: _Told, start: _Told | None, point: Values, there: Mapping[int, Values]
) -> float | None:
    """Return the efficiency that a published number stands for; None without one at the start.

    It has that of the prediction, times how much better the number is than predicted here, over how
    much better the one at the start was than predicted there.
    """
    if told.metric == EFFICIENCY:
        return told.value
    if start is None:
        return None
    sign = -1 if told.metric == "step_time_s" else 1
    here = told.value / _predicted(told, point)
    before = start.value / _predicted(start, there[start.devices])
    return float(point["efficiency"] * (here / before) ** sign)


__all__ = ["FLOPS", "TOKENS", "efficiency", "loss", "scaled"]
