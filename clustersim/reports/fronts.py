"""Pareto fronts of layouts against a second measure: of the points of a sweep, and of a search."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from clustersim.render.charts.lines import Point, ScatterWithFront
from clustersim.render.charts.picture import Axis
from clustersim.render.tables import percent
from clustersim.simulation.measures import Measure
from clustersim.units import GIB

NEAR: Final = 0.95
"""Share of the best value whose cost is in the title of a front."""


class FrontLayout(NamedTuple):
    """A layout with its measures, and its values in words."""

    measures: Mapping[str, float]
    words: str


def front_chart(
    layouts: Sequence[FrontLayout],
    front: Sequence[int],
    by: Measure,
    cost: Measure,
    *,
    title: str,
    best: str,
) -> ScatterWithFront:
    """Return layouts whose two measures are known, and those on the front.

    Parameters
    ----------
    layouts : the best first
    front : their positions, the cheapest first
    title : of the study
    best : the best layout in words
    """
    return ScatterWithFront(
        title=_finding([layouts[at].measures for at in front], by, cost),
        caption=f"{title}; {len(layouts):,} layouts that fit",
        description=f"{len(layouts):,} layouts that fit; {len(front):,} of them have the best"
        f" {by.label} for their {cost.label}.",
        contents="layouts on the Pareto front",
        x=axis_of(cost),
        y=axis_of(by),
        points=tuple(
            Point(drawn(cost, measures), drawn(by, measures), words) for measures, words in layouts
        ),
        front=tuple(front),
        best=0,
        names=("fits", "Pareto front", best),
    )


def axis_of(measure: Measure) -> Axis:
    """Return the axis of a measure in the unit in which it is read best."""
    return Axis(measure.label, "GiB" if measure.unit == "B" else measure.unit)


def drawn(measure: Measure, numbers: Mapping[str, float]) -> float:
    """Return the value of a measure in the unit of its axis."""
    return float(numbers[measure.name] / (GIB if measure.unit == "B" else 1))


def _finding(front: Sequence[Mapping[str, float]], by: Measure, cost: Measure) -> str:
    """Return the cost of a value near the best one, as a title."""
    best, label = front[-1], by.label
    if len(front) == 1:
        return f"One layout has the best {label} and the best {cost.label}"
    shares = [_share(by, each, best) for each in front]
    at = min(next(at for at, share in enumerate(shares) if share >= NEAR), len(front) - 2)
    near_cost, most = (cost.text(each[cost.name]) for each in (front[at], best))
    if not best[by.name]:
        near, least = (by.text(each[by.name]) for each in (front[at], best))
        text = f"{near} at {cost.label} {near_cost} instead of {least} at {cost.label} {most}"
        return f"{label[:1].upper()}{label[1:]} {text}"
    share = percent(shares[at])
    return f"{share} of the best {label} at {cost.label} {near_cost} instead of {most}"


def _share(by: Measure, numbers: Mapping[str, float], best: Mapping[str, float]) -> float:
    """Return a value as a share of the best one; none of a best one of 0."""
    if not best[by.name]:
        return float(numbers is best)
    ratio = float(numbers[by.name] / best[by.name])
    return ratio if ratio <= 1 else 1 / ratio
