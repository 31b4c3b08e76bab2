"""Lines with points over two axes, and points with the front that no other point beats."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple

from clustersim.answers import built_from
from clustersim.records import dataclass
from clustersim.render.charts.picture import Axis, Cell, Picture

FREE: Final = 0.04
"""Share of an axis at each of its ends where no curve is: one on the frame cannot be seen."""

Stroke = Literal["solid", "dashed", "dotted", "steps", "none"]

MARKERS: Final = (
    "circle", "square", "triangle-up", "diamond", "triangle-down",
    "triangle-left", "triangle-right", "cross", "pentagon", "hexagon",
)  # fmt: skip
"""Of series, in the order of the colours ``series-0`` and so on; further ones repeat."""


@dataclass(frozen=True)
class Series:
    """Points of one colour and marker, joined by a line.

    Attributes
    ----------
    name : in the legend; without it the series is not listed
    marker : one of `MARKERS`, ``"x"`` or ``"star"``; none where it is empty
    stroke : of the line; ``"steps"`` keeps a value until the next point
    hollow : measured or published points, as opposed to predicted ones
    thin : a line for reference, such as ideal scaling, which is no data
    hover : a text for each point; made of its values where there is none
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    colour: str = "series-0"
    marker: str = "circle"
    stroke: Stroke = "solid"
    hollow: bool = False
    thin: bool = False
    hover: tuple[str, ...] = ()


def colour_at(place: int) -> str:
    """Return the colour of a series by its place."""
    return f"series-{place % len(MARKERS)}"


def marker_at(place: int) -> str:
    """Return the marker of a series by its place."""
    return MARKERS[place % len(MARKERS)]


def reference(name: str, x: Sequence[float], y: Sequence[float]) -> Series:
    """Return a thin line that data are compared with."""
    return Series(name, tuple(x), tuple(y), "quiet", marker="", thin=True)


class Band(NamedTuple):
    """A pale area between two lines."""

    x: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Lines(Picture):
    """Series over two axes.

    Attributes
    ----------
    remarks : texts at the right edge, each at a value of the upright axis
    """

    x: Axis
    y: Axis
    series: tuple[Series, ...]
    bands: tuple[Band, ...] = ()
    remarks: tuple[tuple[float, str], ...] = ()

    def framed(self) -> "Lines":
        """Return the same with limits on both axes that leave room around all curves."""
        x = [value for one in self.series for value in one.x]
        y = [value for one in self.series for value in one.y]
        for band in self.bands:
            x += band.x
            y += (*band.low, *band.high)
        return replace(self, x=roomy(self.x, x), y=roomy(self.y, y))

    def rows(self) -> Iterator[Sequence[Cell]]:
        """Yield each point of the series, reference lines apart; rows that have names by these."""
        yield ["series", self.x.title, self.y.title or "row"]
        names = dict(self.y.ticks)
        for series in self.series:
            if not series.thin:
                for x, y in zip(series.x, series.y, strict=True):
                    yield [series.name, x, names.get(y, y)]


def roomy(axis: Axis, values: Sequence[float]) -> Axis:
    """Return an axis that ends beyond some values, unless its limits are given.

    A logarithmic one of less than a decade has ticks at round numbers, as a linear one has;
    it has no place for values that are not above zero.

    >>> roomy(Axis("share", "%", zero=True), [0.5, 50.0]).limits
    (-2.0, 52.0)
    >>> roomy(Axis("rate", log=10), [100.0, 400.0]).ticks[0]
    (100.0, '100')
    """
    if axis.log:
        values = [value for value in values if value > 0.0]
    if axis.limits is not None or not values:
        return axis
    low, high = min(values), max(values)
    if axis.log:
        free = (high / low) ** FREE if high > low else 2.0
        ticks = axis.ticks or (tuple(_round_ticks(low, high)) if high < 10 * low else ())
        return replace(axis, limits=(low / free, high * free), ticks=ticks)
    base = min(low, 0.0) if axis.zero else low
    free = FREE * ((high - base) or abs(high) or 1.0)
    begin = 0.0 if axis.zero and low > free else base - free
    return replace(axis, limits=(begin, high + free))


def _round_ticks(low: float, high: float) -> Iterator[tuple[float, str]]:
    """Yield round numbers from below `low` to above `high`, about five of them."""
    rough = (high - low or high) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    for i in range(max(1, math.floor(low / step)), math.ceil(high / step) + 1):
        yield i * step, f"{i * step:,.10g}"


class Point(NamedTuple):
    """A point with its text."""

    x: float
    y: float
    hover: str


@dataclass(frozen=True, kw_only=True)
class ScatterWithFront(Picture):
    """Points, and as steps the front of those that no other point beats in both.

    Attributes
    ----------
    front : places of its points, from left to right
    best : place of the point that is marked
    names : of all points, of the front and of the best one
    """

    x: Axis
    y: Axis
    points: tuple[Point, ...]
    front: tuple[int, ...]
    best: int
    names: tuple[str, str, str]

    def lines(self) -> Lines:
        """Return the same as lines, which is how it is drawn."""
        front, best = [self.points[i] for i in self.front], [self.points[self.best]]
        every, on_front, marked = self.names
        series = (
            _series(every, self.points, "idle", "circle", "none"),
            _series(on_front, front, "compute", "circle", "steps"),
            _series(marked, best, "warning", "star", "none"),
        )
        return built_from(Lines, self, series=series)

    def rows(self) -> Iterator[Sequence[Cell]]:
        """Yield each point of the front, the only ones that are of interest one by one."""
        yield ["layout", self.x.title, self.y.title]
        for i in self.front:
            point = self.points[i]
            yield [point.hover.replace("\n", ", "), point.x, point.y]


def _series(name: str, points: Sequence[Point], colour: str, marker: str, stroke: Stroke) -> Series:
    x, y, hover = (tuple(column) for column in zip(*points, strict=True))
    return Series(name, x, y, colour, marker, stroke, hover=hover)
