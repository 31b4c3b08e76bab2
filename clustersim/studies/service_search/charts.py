"""Charts of a search of services: speed against throughput, and replays against their bounds."""

from collections.abc import Sequence
from typing import Final

from clustersim.render.charts import Axis, Lines, Series
from clustersim.render.charts.bars import time_unit
from clustersim.render.charts.lines import Stroke, reference
from clustersim.render.tables import percent
from clustersim.studies.service_search.answer import FoundService, ServiceSearch
from clustersim.studies.service_search.bounded_search import SERVICE
from clustersim.studies.service_search.text import found_text
from clustersim.units import counted, format_number

SPEED: Final = "tokens_per_s_per_user"
RATE: Final = "tokens_per_s_per_device"
"""Measures of the curve that services are judged by."""

_LEAST: Final = 2
"""Points of a chart that is worth drawing."""


def speed_chart(answer: ServiceSearch) -> Lines | None:
    """Return the simulated layouts by throughput of a device and speed of a user, with the front.

    None where fewer than two have decoded.
    """
    ran = [found for found in answer.simulated if found.measures.get(SPEED)]
    if len(ran) < _LEAST:
        return None
    within, outside = _split(ran)
    front = service_front(within or ran)
    series = [_speeds("within the limits" if answer.limits else "simulated", within, "idle")]
    series.append(_speeds("misses a limit", outside, "quiet", "x"))
    series.append(_speeds("front of these", front, "compute", stroke="solid"))
    if answer.own.get(SPEED):
        at = (answer.own[SPEED],), (answer.own[RATE],)
        series.append(Series("scenario", *at, "communication", "diamond", "none"))
    if answer.best is not None:
        series.append(_speeds(f"best: {found_text(answer.best)}", [answer.best], "warning", "star"))
    if "tpot" in answer.limits:
        slowest, most = 1 / answer.limits["tpot"], max(found.measures[RATE] for found in ran)
        series.append(reference("limit of tpot", (slowest, slowest), (0.0, most)))
    return Lines(
        title=front_title(front),
        caption=f"{answer.title}; {counted(len(ran), 'simulated layout')} of"
        f" {answer.layouts.possible:,}; no other is better in {SERVICE[answer.objective].label}",
        description="Throughput of a device over the speed that one user sees; the front has the"
        " simulated layouts that no other one exceeds in both.",
        contents="layouts",
        x=Axis("speed of one user", "tokens/s", zero=True),
        y=Axis("throughput of one device", "output tokens/s", zero=True),
        series=tuple(one for one in series if one.x),
    )


def bound_chart(answer: ServiceSearch) -> Lines | None:
    """Return the objective of each simulated layout over its bound; None with fewer than two."""
    known = [
        found for found in answer.simulated if found.bound and found.measures.get(answer.objective)
    ]
    if len(known) < _LEAST or answer.tightness is None:
        return None
    by, measure = answer.objective, SERVICE[answer.objective]
    ends = [value for found in known for value in (found.bound or 0.0, found.measures[by])]
    factor, unit = time_unit(max(ends)) if measure.unit == "s" else (1.0, "")
    line = factor * min(ends), factor * max(ends)
    within, outside = _split(known)
    bars = [
        _bounds(
            "within the limits" if answer.limits else "simulated", within, by, factor, "compute"
        ),
        _bounds("misses a limit", outside, by, factor, "quiet", "x"),
        reference("bound", line, line),
    ]
    if answer.best is not None:
        best = factor * answer.best.measures[by]
        bars.append(_bounds("best", [answer.best], by, factor, "warning", "star"))
        bars.append(reference("best replay", (best, best), line))
    side = "above" if measure.more_is_better else "below"
    name = measure.label
    return Lines(
        title=f"Replays reach {percent(answer.tightness)} of their bound (median)",
        caption=f"{answer.title}; {counted(len(known), 'simulated layout')}",
        description=f"The {name} of each simulated layout over its bound; none is {side} the line.",
        note="Layouts are simulated in the order of their bounds, until no other can be one of the"
        f" best {len(answer.ranked)}.",
        contents="bounds and replays",
        x=Axis(f"bound of {name}", unit),
        y=Axis(f"{name} of the replay", unit),
        series=tuple(one for one in bars if one.x),
    )


def front_title(front: Sequence[FoundService]) -> str:
    """Return the ends of a front of services in words, the slowest user first."""
    ends = [front[0]] if len(front) == 1 else [front[0], front[-1]]
    pairs = [tuple(format_number(end.measures[name], 3) for name in (RATE, SPEED)) for end in ends]
    rate, speed = pairs[0]
    other = "".join(f", or {fast} at {quick}" for fast, quick in pairs[1:])
    return f"{rate} tokens/s for each device at {speed} for each user{other}"


def service_front(services: Sequence[FoundService]) -> list[FoundService]:
    """Return the services that no other one beats in both speed and rate, the slowest first."""
    front: list[FoundService] = []
    most = 0.0
    for each in sorted(services, key=lambda s: (-s.measures[SPEED], -s.measures[RATE])):
        if each.measures[RATE] > most:
            most = each.measures[RATE]
            front.append(each)
    return front[::-1]


def _split(found: Sequence[FoundService]) -> tuple[list[FoundService], list[FoundService]]:
    """Return the layouts within the limits, and those that miss one."""
    within = [one for one in found if one.missed is None]
    return within, [one for one in found if one.missed is not None]


def _speeds(
    name: str,
    found: Sequence[FoundService],
    colour: str,
    marker: str = "circle",
    stroke: Stroke = "none",
) -> Series:
    return Series(
        name,
        tuple(one.measures[SPEED] for one in found),
        tuple(one.measures[RATE] for one in found),
        colour,
        marker,
        stroke,
        hover=_hover(found),
    )


def _bounds(
    name: str,
    found: Sequence[FoundService],
    by: str,
    factor: float,
    colour: str,
    marker: str = "circle",
) -> Series:
    return Series(
        name,
        tuple(factor * (one.bound or 0.0) for one in found),
        tuple(factor * one.measures[by] for one in found),
        colour,
        marker,
        "none",
        hover=_hover(found),
    )


def _hover(found: Sequence[FoundService]) -> tuple[str, ...]:
    """Return the layouts in words, with the limits that they miss."""
    return tuple(
        found_text(one) + ("" if one.missed is None else f"\n{one.missed}") for one in found
    )
