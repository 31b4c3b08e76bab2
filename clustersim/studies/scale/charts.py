"""Charts of scaling curves: efficiency, throughput, idle shares, and what takes efficiency.

Curves differ by marker as well as by colour; published points are hollow, ideal lines thin.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from clustersim.render.charts.bars import Step, Waterfall
from clustersim.render.charts.lines import (
    Band,
    Lines,
    Series,
    Stroke,
    colour_at,
    marker_at,
    reference,
)
from clustersim.render.charts.picture import Axis
from clustersim.render.tables import percent
from clustersim.reports.measures import part_kind, part_name
from clustersim.studies.scale.answer import (
    SUSTAINED,
    TOKENS,
    ScalingCurve,
    ScalingPoint,
    Work,
    sustained,
)
from clustersim.studies.scale.text import curve_label, format_loss, losses
from clustersim.units import format_number

MAXIMUM: Final = 7
"""Parts of a loss that have a bar of their own."""
NEGLIGIBLE: Final = 5e-4
"""Share of efficiency below which a part has none."""
NOTABLE: Final = 0.02
"""Loss from which on a title names its cause."""
IDLE: Final[tuple[tuple[str, str, Stroke], ...]] = (
    ("bubble_fraction", "bubble", "solid"),
    ("exposed_fraction", "exposed communication", "dotted"),
)
"""Measures of what is idle in a step, their names and lines."""
NAMED: Final = 2
"""Curves that a title has room for."""


def curve_charts(curves: Sequence[ScalingCurve]) -> list[Lines]:
    """Return what is drawn over numbers of devices, for the curves of one kind."""
    charts = [efficiency_chart(curves), throughput_chart(curves)]
    idle = all(key in point.measures for c in curves for point in c.points for key, _, _ in IDLE)
    return [*charts, idle_chart(curves)] if idle else charts


# --- efficiency -----------------------------------------------------------------------------------


def curve_finding(curves: Sequence[ScalingCurve]) -> str:
    """Return the finding of the curves, as a title."""
    kind = str(curves[0].scaling).capitalize()
    point = curves[0].points[-1]
    if len(curves) > NAMED:
        return f"{kind} scaling of {len(curves)} scenarios"
    if len(curves) > 1:
        kept = [f"{percent(c.points[-1].efficiency)} for {curve_label(c, curves)}" for c in curves]
        return f"{kind} scaling keeps {', '.join(kept)}"
    verb = "keeps" if point.efficiency < 1 + NEGLIGIBLE else "reaches"
    efficiency = percent(point.efficiency)
    text = f"{kind} scaling {verb} {efficiency} at {point.devices:,} devices"
    part, share = losses(point)[0]
    if 1 - point.efficiency < NOTABLE or share <= 0:
        return text
    mostly = "mostly " if share < 0.9 * (1 - point.efficiency) else ""
    return f"{text}; the loss is {mostly}{part_name(part)}"


def efficiency_chart(curves: Sequence[ScalingCurve]) -> Lines:
    """Return efficiencies along the curves, predicted and published."""
    series = [reference("", _ends(curves), (100.0, 100.0))]
    for place, curve in enumerate(curves):
        efficiencies = [100 * point.efficiency for point in curve.points]
        series.append(_predicted(curve, efficiencies, place, curve_label(curve, curves)))
        for source in dict.fromkeys(number.source for number in curve.published):
            points = [
                (number.devices, 100 * number.efficiency)
                for number in curve.published
                if number.source == source and number.efficiency is not None
            ]
            if points:
                series.append(_published(f"published: {source}", points, place))
    unfit = [
        (point.devices, 100 * point.efficiency)
        for curve in curves
        for point in curve.points
        if not point.fits
    ]
    if unfit:
        x, y = zip(*unfit, strict=True)
        series.append(Series("does not fit in memory", x, y, "ink", "x", "none"))
    seen = [value for one in series for value in one.y]
    return Lines(
        title=curve_finding(curves),
        caption=", ".join(curve_label(curve, curves) for curve in curves),
        description="Efficiency over devices; the thin line is ideal, hollow marks are published.",
        note=_note(series),
        contents="efficiency, predicted and published",
        x=_devices(curves),
        y=Axis("efficiency", "%", limits=(max(0.0, min(*seen, 90.0) - 3), max(seen) + 3)),
        series=tuple(series),
        bands=tuple(_bands(curves)),
    )


def _bands(curves: Sequence[ScalingCurve]) -> Iterator[Band]:
    """Yield where the efficiencies of the middle 80 % of replications are."""
    for curve in curves:
        spread = [(float(p.devices), p.efficiency_spread) for p in curve.points]
        known = [(devices, *ends) for devices, ends in spread if ends is not None]
        if len(known) > 1:
            devices, low, high = zip(*known, strict=True)
            yield Band(devices, *(tuple(100 * end for end in ends) for ends in (low, high)))


def _predicted(
    curve: ScalingCurve,
    values: Sequence[float],
    place: int,
    name: str,
    stroke: Stroke = "solid",
) -> Series:
    devices = tuple(float(point.devices) for point in curve.points)
    look = colour_at(place), marker_at(place)
    return Series(name, devices, tuple(values), *look, stroke)


def _published(name: str, points: Sequence[tuple[int, float]], place: int) -> Series:
    """Return numbers of devices, each with a published value."""
    devices, values = zip(*points, strict=True)
    look = colour_at(place), marker_at(place)
    return Series(name, devices, values, *look, "none", hollow=True)


def _devices(curves: Sequence[ScalingCurve]) -> Axis:
    counts = sorted({point.devices for curve in curves for point in curve.points})
    return Axis("devices", log=2, ticks=tuple((float(count), f"{count:,}") for count in counts))


def _note(series: Sequence[Series]) -> str:
    """Return what thin lines mean, and hollow marks where there are any."""
    hollow = any(one.hollow for one in series)
    return "Thin line: ideal. Hollow: published." if hollow else "Thin line: ideal."


def _ends(curves: Sequence[ScalingCurve]) -> tuple[float, float]:
    devices = [point.devices for curve in curves for point in curve.points]
    return min(devices), max(devices)


# --- throughput, and what is idle -----------------------------------------------------------------


UNITS: Final[Mapping[Work, tuple[str, str]]] = {
    "tokens": ("throughput", "tokens/s"),
    "sustainable tokens": ("sustainable throughput", "tokens/s"),
    "model FLOPs": ("model FLOPs", "PFLOP/s"),
    "steps": ("steps of devices", "steps/s"),
}
"""Name and unit of the throughput, by what is counted."""


def throughput_chart(curves: Sequence[ScalingCurve]) -> Lines:
    """Return the throughput of all devices along the curves, predicted and published."""
    series: list[Series] = []
    for place, curve in enumerate(curves):
        points = curve.points
        start = next(point for point in points if point.devices == curve.against)
        rates = [throughput(curve, point) for point in points]
        of_a_device = throughput(curve, start) / start.devices
        devices = [float(point.devices) for point in points]
        series.append(reference("", devices, [of_a_device * count for count in devices]))
        series.append(_predicted(curve, rates, place, curve_label(curve, curves)))
        series += _published_rates(curve, start, place)
    return Lines(
        title=throughput_finding(curves),
        description="Throughput over devices; thin lines are ideal, hollow marks are published.",
        note=_note(series),
        contents="throughput, predicted and published",
        x=_devices(curves),
        y=Axis(*UNITS[curves[0].work], 10),
        series=tuple(series),
    )


def throughput_finding(curves: Sequence[ScalingCurve]) -> str:
    """Return how throughput grows along the curves, as a title."""
    _, unit = UNITS[curves[0].work]
    grown = []
    for curve in curves:
        first, last = curve.points[0], curve.points[-1]
        rate = throughput(curve, last)
        times = f"{rate / throughput(curve, first):.3g} times those of {first.devices:,}"
        label = f" ({curve_label(curve, curves)})" if len(curves) > 1 else ""
        reached = f"{last.devices:,} devices reach {format_number(rate, 3)} {unit}"
        grown.append(f"{reached}, {times}{label}")
    return "; ".join(grown)


def throughput(curve: ScalingCurve, point: ScalingPoint) -> float:
    """Return the work of all devices in a second, in the unit of `UNITS`."""
    if curve.work == "steps":
        return point.devices / sum(point.attribution.values())
    if curve.work == TOKENS:
        return point.measures["tokens_per_s"]
    if curve.work == SUSTAINED:
        return point.measures["tokens_per_s"] * sustained(point.measures)
    return point.measures["tflops_per_device_model"] * point.devices / 1e3


def _published_rates(curve: ScalingCurve, start: ScalingPoint, place: int) -> list[Series]:
    """Return published points by their efficiency over the published rate at the start."""
    predicted = {point.devices: point for point in curve.points}
    ratio = _published_ratio(curve, start)
    rates = [
        (point.devices, throughput(curve, point) * number.efficiency / point.efficiency * ratio)
        for number in curve.published
        if number.efficiency and number.metric != "efficiency"
        if (point := predicted.get(number.devices))
    ]
    return [_published("published", rates, place)] if rates else []


def _published_ratio(curve: ScalingCurve, start: ScalingPoint) -> float:
    """Return the published rate over the predicted one at the start."""
    for number in curve.published:
        if number.devices == start.devices and number.metric != "efficiency" and number.predicted:
            ratio = number.value / number.predicted
            return 1 / ratio if number.metric == "step_time_s" else ratio
    return 1.0


def idle_chart(curves: Sequence[ScalingCurve]) -> Lines:
    """Return how bubble and exposed communication change along the curves."""
    series = [
        _predicted(
            curve,
            [100 * point.measures[key] for point in curve.points],
            place,
            f"{curve_label(curve, curves)}: {name}" if len(curves) > 1 else name,
            stroke,
        )
        for place, curve in enumerate(curves)
        for key, name, stroke in IDLE
    ]
    return Lines(
        title=idle_finding(curves),
        description="Shares of a step over devices: solid lines are bubble, dotted ones exposed"
        " communication.",
        contents="idle shares of a step",
        x=_devices(curves),
        y=Axis("share of a step", "%", zero=True),
        series=tuple(series),
    )


def idle_finding(curves: Sequence[ScalingCurve]) -> str:
    """Return which shares of a step the last points of the curves lose, as a title."""
    lost = []
    for curve in curves:
        last = curve.points[-1]
        shares = [f"{name} {percent(last.measures[key])}" for key, name, _ in IDLE]
        label = f" ({curve_label(curve, curves)})" if len(curves) > 1 else ""
        lost.append(f"{' and '.join(shares)}{label}")
    devices = {curve.points[-1].devices for curve in curves}
    where = f" of a step at {devices.pop():,} devices" if len(devices) == 1 else " of a step"
    text = "; ".join(lost)
    return f"{text[0].upper()}{text[1:]}{where}"


# --- what takes efficiency ------------------------------------------------------------------------


def loss_finding(curve: ScalingCurve) -> str:
    """Return the largest loss of efficiency, as a title."""
    point = curve.points[-1]
    whole, (part, share) = 1 - point.efficiency, losses(point)[0]
    if abs(whole) < NOTABLE or whole < 0:
        verb = "loses" if whole > 0 else "gains"
        kind = f"{curve.scaling.capitalize()} scaling"
        return f"{kind} {verb} {abs(100 * whole):.1f} points up to {point.devices:,} devices"
    points = f"{100 * share:.1f} of the {100 * whole:.1f} points lost"
    if share > whole + NEGLIGIBLE:
        points = f"{100 * share:.1f} points; others give {100 * (share - whole):.1f} back"
    return f"{part_name(part).capitalize()} takes {points}"


def loss_chart(curve: ScalingCurve, *, named: bool = False) -> Waterfall:
    """Return how parts of the step take efficiency from the last point of a curve.

    `named` puts the name of the curve into the title.
    """
    point = curve.points[-1]
    finding = loss_finding(curve)
    return Waterfall(
        title=f"{curve.title}: {finding}" if named else finding,
        caption=f"{curve.title} at {point.devices:,} devices",
        note="Device-seconds of a unit of work, by part of the step.",
        description=f"{format_loss(curve)}.",
        contents="what each part takes from efficiency",
        measure=Axis("efficiency", "%"),
        first=f"{curve.against:,} devices",
        last=f"{point.devices:,} devices",
        start=100.0,
        steps=loss_steps(curve),
    )


def loss_steps(curve: ScalingCurve) -> tuple[Step, ...]:
    """Return the steps from efficiency 1 down to that of the last point [%], small ones joined."""
    point = curve.points[-1]
    steps = [
        Step(part_name(part), part_kind(part), -100 * share)
        for part, share in losses(point)[:MAXIMUM]
        if abs(share) >= NEGLIGIBLE
    ]
    rest = 100 * (point.efficiency - 1) - sum(step.change for step in steps)
    return (*steps, Step("other", "other", rest)) if abs(rest) >= 100 * NEGLIGIBLE else (*steps,)
