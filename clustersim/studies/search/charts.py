"""Charts of a search: why the best layout wins, fronts of two measures, replays over bounds."""

from typing import Final

from clustersim.render.charts import Axis, Lines, Point, ScatterWithFront, Series, Waterfall
from clustersim.render.charts.bars import time_unit
from clustersim.render.charts.lines import reference
from clustersim.render.tables import percent
from clustersim.reports.measures import waterfall
from clustersim.simulation.measures import Account, Measure, measures_of
from clustersim.studies.search.answer import (
    FrontOfLayouts,
    LayoutDifference,
    RankedLayout,
    SearchAnswer,
)
from clustersim.studies.search.text import format_layout_values
from clustersim.units import GIB, counted

OTHERS: Final = {"second": "second layout", "scenario": "layout of the scenario"}

LEAST: Final = 2
"""Points of a chart that is worth drawing."""


def layout_waterfall(one: LayoutDifference) -> Waterfall | None:
    """Return the changes of the account from another layout to the best one, if it is known."""
    if one.account is None or one.before is None or not one.parts:
        return None
    total = Account(one.account, one.label, "d" if one.account == "run" else "s", {"": one.before})
    return waterfall((OTHERS[one.against], "best layout"), total, one.parts)


def layout_front(answer: SearchAnswer, front: FrontOfLayouts) -> ScatterWithFront:
    """Return the layouts that were replayed and fit, and those on a front."""
    cost, gain = measures_of(answer.kinds)[front.against], answer.measure
    return ScatterWithFront(
        title=_finding(answer, front, cost),
        caption=f"{answer.title}; {len(answer.ranked):,} layouts that were replayed and fit",
        description=f"{len(answer.ranked):,} layouts; {len(front.positions):,} of them have the"
        f" best {gain.label} for their {cost.label}.",
        contents="layouts on the Pareto front",
        x=_axis(cost),
        y=_axis(gain),
        points=tuple(
            Point(
                _scaled(cost, one.measures[cost.name]),
                _scaled(gain, one.value),
                format_layout_values(one.set_),
            )
            for one in answer.ranked
        ),
        front=front.positions,
        best=0,
        names=("replayed", "Pareto front", "best layout"),
    )


def _axis(measure: Measure) -> Axis:
    return Axis(measure.label, "GiB" if measure.unit == "B" else measure.unit)


def _scaled(measure: Measure, value: float) -> float:
    return value / GIB if measure.unit == "B" else value


def _finding(answer: SearchAnswer, front: FrontOfLayouts, cost: Measure) -> str:
    """Return the share of the best objective that the cheapest layout has, as a title."""
    cheapest, best, gain = answer.ranked[front.positions[0]], answer.ranked[0], answer.measure
    if cheapest == best:
        return f"The layout with the best {gain.label} has the best {cost.label}"
    share = percent(gain.gain(best.value, cheapest.value) or 0.0)
    spent, most = (cost.text(one.measures[cost.name]) for one in (cheapest, best))
    return f"{share} of the best {gain.label} at {cost.label} {spent} instead of {most}"


def bound_chart(answer: SearchAnswer) -> Lines | None:
    """Return the objective of each replayed layout over its bound; None with fewer than two."""
    every = [one for one in (*answer.ranked, *answer.missed) if one.bound]
    if len(every) < LEAST or answer.tightness is None:
        return None
    measure = answer.measure
    ends = [value for one in every for value in (one.bound or 0.0, one.value)]
    factor, unit = time_unit(max(ends)) if measure.unit == "s" else (1.0, measure.unit)
    line = factor * min(ends), factor * max(ends)
    side = "above" if measure.more_is_better else "below"
    series = [
        _bounds("within the limits" if answer.limits else "replayed", every, factor, "compute"),
        _bounds("misses a limit", [one for one in every if one.missed], factor, "quiet", "x"),
        reference("bound", line, line),
    ]
    if answer.ranked:
        series.append(_bounds("best", [answer.ranked[0]], factor, "warning", "star"))
    return Lines(
        title=f"Bounds are {percent(answer.tightness)} of the replays (median)",
        caption=f"{answer.title}; {counted(len(every), 'replayed layout')}",
        description=f"The {measure.label} of each replayed layout over its bound; none is {side}"
        " the line.",
        note="Layouts are replayed in the order of their bounds, until no other can be one of the"
        f" best {answer.proven}.",
        contents="bounds and replays",
        x=Axis(f"bound of the {measure.label}", unit),
        y=Axis(f"{measure.label} of the replay", unit),
        series=tuple(one for one in series if one.x),
    )


def _bounds(
    name: str, found: list[RankedLayout], factor: float, colour: str, marker: str = "circle"
) -> Series:
    shown = [one for one in found if name == "best" or marker == "x" or one.missed is None]
    return Series(
        name,
        tuple(factor * (one.bound or 0.0) for one in shown),
        tuple(factor * one.value for one in shown),
        colour,
        marker,
        "none",
        hover=tuple("\n".join(filter(None, (format_layout_values(one.set_), one.missed)))
                    for one in shown),
    )  # fmt: skip
