"""Scaling curves as text: a table for each curve, and the causes of lost efficiency."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from clustersim.memory.room import EXCEEDING, TIGHT
from clustersim.metrics.attribution import BUBBLES
from clustersim.render.tables import UNMASKED, Row, percent
from clustersim.reports.measures import cells, headlines, part_name
from clustersim.reports.published import metric_name, metric_value
from clustersim.simulation.measures import HEADLINES, QUEUE_GROWTH, Measure
from clustersim.simulation.measures import Kind as AnswerKind
from clustersim.studies.scale.answer import (
    SUSTAINED,
    PublishedResult,
    ScalingCurve,
    ScalingPoint,
    SkippedPoint,
)
from clustersim.units import counted, format_number, format_seconds

NAMED: Final = 4
"""Parts of a loss that are named; the others are one number."""

NEGLIGIBLE: Final = 5e-4
"""Share of efficiency below which a part is not named."""


def head(curve: ScalingCurve) -> list[Row]:
    """Return the lines above the table of a curve."""
    return [Row("scaling", f"{curve.scaling}: {description(curve)}")]


def curve_label(curve: ScalingCurve, curves: Sequence[ScalingCurve] = ()) -> str:
    """Return the title of a curve's scenario, with its name where another has the same title."""
    same = {other.name for other in curves if other.title == curve.title} - {curve.name}
    return f"{curve.title} ({curve.name})" if same else curve.title


def description(curve: ScalingCurve) -> str:
    """Return what grows along a curve, and what efficiency means on it."""
    what = load_name(curve)
    grows = "grow" if what == "jobs" else "grows"
    batch = (
        f"the {what} {grows} with the devices" if curve.scaling == "weak" else f"the same {what}"
    )
    several = _scenarios(curve) > 1
    growth = "a scenario for each point" if several else f"{curve.axis} axis, {batch}"
    text = ", ".join([growth, *curve.set])
    if curve.guessed:
        text += "; devices by doubling, since the scenario has no scaling curve"
    if curve.against is None:
        return text
    return f"{text}; efficiency is {curve.work}/s per device, relative to {curve.against:,} devices"


def load_name(curve: ScalingCurve) -> str:
    """Return what a point has of work: a batch, the load of a service, or jobs."""
    if "shared machine" in curve.kinds:
        return "jobs"
    return "load" if "service" in curve.kinds else "batch"


def _scenarios(curve: ScalingCurve) -> int:
    return len({point.scenario for point in curve.points})


# --- the table ------------------------------------------------------------------------------------

WORDS: Final = ("memory", "scenario")
"""Columns that are words."""


def table(curve: ScalingCurve) -> list[list[str]]:
    """Return the table of a curve: its heading, then a row for each point."""
    more = ["sustainable_rate"] if curve.work == SUSTAINED else []
    measures = headlines(curve.kinds, [p.measures for p in curve.points], *more, of=SHOWN)
    heads = [
        "devices",
        *_axis_head(curve),
        "nodes",
        load_name(curve),
    ]
    rows = [[*heads, *(measure.heading for measure in measures), "efficiency", "memory"]]
    rows += [_cells(point, curve, measures) for point in curve.points]
    if _scenarios(curve) > 1:
        names = ["scenario", *(point.scenario for point in curve.points)]
        rows = [[*row, name] for row, name in zip(rows, names, strict=True)]
    return rows


def _axis_head(curve: ScalingCurve) -> list[str]:
    """Return the heading of the degree that grows, which pools of a service may each have."""
    return [curve.axis] if "service" in curve.kinds else []


def _cells(point: ScalingPoint, curve: ScalingCurve, measures: Sequence[Measure]) -> list[str]:
    degrees = [text.partition("=")[2] for text in point.set if f".{curve.axis}=" in text]
    return [
        f"{point.devices:,}",
        *([" + ".join(degrees)] if _axis_head(curve) else []),
        f"{point.nodes:,}",
        "trace" if point.load is None else f"{point.load:,.6g}",
        *cells(measures, point.measures),
        percent(point.efficiency),
        point.memory,
    ]


SHOWN: Final[Mapping[AnswerKind, tuple[str, ...]]] = {
    **HEADLINES,
    "step": ("step_time_s", "step_time_low_s", "step_time_high_s", "tokens_per_s",
             "tflops_per_device_model", "mfu", "bubble_fraction", "exposed_fraction"),
}  # fmt: skip
"""Measures of the table."""


# --- losses and published numbers -----------------------------------------------------------------


def notes(curve: ScalingCurve) -> list[Row]:
    """Return the lines below the table of a curve."""
    assumed = f"{counted(len(curve.assumed), 'key')}: {', '.join(curve.assumed)}"
    return [
        *([Row("loss", format_loss(curve))] if len(curve.points) > 1 else []),
        *_spread(curve),
        *(Row("published", format_published(number, curve)) for number in curve.published),
        *(
            [Row("MFU", UNMASKED)]
            if any(point.measures.get("mfu", 0) > 1 for point in curve.points)
            else []
        ),
        *(Row("skipped", line) for line in format_skipped(curve.skipped)),
        *_queues(curve),
        *_memory(curve),
        *(Row("caution", caution, caution=True) for caution in curve.cautions),
        *([Row("assumed", assumed)] if curve.assumed else []),
    ]


def _spread(curve: ScalingCurve) -> Iterator[Row]:
    """Yield the step times and efficiencies of the middle 80 % of replications."""
    texts, count = [], 0
    for point in curve.points:
        if point.replications is not None and point.efficiency_spread is not None:
            count, of = point.replications.count, point.replications.quantiles
            steps = f"{format_seconds(of.p10_s)} to {format_seconds(of.p90_s)}"
            low, high = map(percent, point.efficiency_spread)
            kept = "" if point.devices == curve.against else f", efficiency {low} to {high}"
            texts.append(f"{point.devices:,} devices {steps}{kept}")
    if texts:
        yield Row("spread", f"80 % of {count} steps with other random times: {'; '.join(texts)}")


def _queues(curve: ScalingCurve) -> Iterator[Row]:
    """Yield the points of a service whose queue grows."""
    growing = [(p.devices, p.measures.get(QUEUE_GROWTH, 0.0)) for p in curve.points]
    found = [f"{devices:,} devices by {format_number(n, 3)}" for devices, n in growing if n]
    if found:
        text = f"unstable, it grows on {', '.join(found)} requests a second"
        yield Row("queue", text, warning=True)


def _memory(curve: ScalingCurve) -> Iterator[Row]:
    """Yield the points of each verdict on their memory but *fits*."""
    for verdict in (TIGHT, *EXCEEDING):
        found = ", ".join(f"{point.devices:,}" for point in curve.points if point.memory == verdict)
        if found:
            yield Row("memory", f"{verdict} on {found} devices", verdict != TIGHT, verdict == TIGHT)


def format_skipped(skipped: Sequence[SkippedPoint]) -> list[str]:
    """Return a line for each reason, apart from its numbers, with the points that it skips."""
    groups: dict[str, list[SkippedPoint]] = {}
    for point in skipped:
        groups.setdefault(re.sub(r"[\d.,]+|\(.*\)", "", point.why), []).append(point)
    lines = []
    for points in groups.values():
        first, last = points[0], points[-1]
        where = f"{first.devices:,}"
        if len(points) > 1:
            where = f"{len(points)} points from {where} to {last.devices:,}"
        example = f" (for {first.devices:,})" if len(points) > 1 else ""
        lines.append(f"{where} devices: {first.why}{example}")
    return lines


def losses(point: ScalingPoint) -> list[tuple[str, float]]:
    """Return the loss of a point by part [unitless], bubbles as one, the largest first."""
    sums: dict[str, float] = {}
    for part, share in point.loss.items():
        name = "bubble" if part in BUBBLES else part
        sums[name] = sums.get(name, 0.0) + share
    return sorted(sums.items(), key=lambda item: -abs(item[1]))


def format_loss(curve: ScalingCurve) -> str:
    """Return the loss of the last point by part, and the link behind the largest part."""
    point = curve.points[-1]
    whole, parts = 1 - point.efficiency, losses(point)
    if abs(whole) < NEGLIGIBLE:
        return f"{point.devices:,} devices lose less than {100 * NEGLIGIBLE:g} %"
    named = [(part, share) for part, share in parts[:NAMED] if abs(share) >= NEGLIGIBLE]
    rest = whole - sum(share for _, share in named)
    sign = -1 if whole < 0 else 1
    texts = [f"{part_name(part)} {_points(sign * share)}" for part, share in named]
    texts += [f"other {_points(sign * rest)}"] if abs(rest) >= NEGLIGIBLE else []
    verb = "gain" if whole < 0 else "lose"
    text = f"{point.devices:,} devices {verb} {percent(abs(whole))}"
    return f"{text}: {', '.join(texts)}{_link(point, parts)}" if texts else text


def _link(point: ScalingPoint, parts: Sequence[tuple[str, float]]) -> str:
    """Return the link that limits the largest part, where that is the longest communication."""
    name, over, link = point.bottleneck.partition(" over ")
    return f"; {point.bottleneck}" if over and link and name == part_name(parts[0][0]) else ""


def _points(share: float) -> str:
    """Return a share in points of a percent: ``'7.2'``; a gain as ``'-0.3'``."""
    return f"{100 * share:.1f}"


def format_published(number: PublishedResult, curve: ScalingCurve) -> str:
    """Return a published number, the predicted one, and the efficiency that it corresponds to."""
    name = metric_name(number.metric, number.convention)
    text = f"{number.devices:,} devices: {name} {_published_value(number)}"
    if number.base not in (None, curve.against):
        text += f" relative to {number.base:,} devices"
    if number.predicted is None or number.error is None:
        return f"{text}, not predicted here; {number.source}"
    predicted = metric_value(number.metric, number.predicted)
    unit = "points" if number.metric == "efficiency" else "%"
    error = f"{round(100 * number.error, 1) + 0.0:+.1f} {unit}"  # -0.0 + 0.0 is 0.0
    efficiency = _format_efficiency(number, curve)
    return f"{text}, predicted {predicted} ({error}){efficiency}; {number.source}"


def _published_value(number: PublishedResult) -> str:
    """Return a published number with all of its digits."""
    if number.metric in ("efficiency", "mfu", "hfu"):
        return f"{100 * number.value:.4g} %"
    return metric_value(number.metric, number.value)


def _format_efficiency(number: PublishedResult, curve: ScalingCurve) -> str:
    if number.metric == "efficiency" or number.efficiency is None:
        return ""
    if number.devices == curve.against:
        return ""
    point = next(point for point in curve.points if point.devices == number.devices)
    return f", efficiency {percent(number.efficiency)}, predicted {percent(point.efficiency)}"
