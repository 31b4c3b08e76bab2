"""Bars, and the waterfall: how the components of a difference lead from one number to another.

    before ███████████████████
    part 1              ░░░░░░      saves
    part 2              ██          adds
    after  ██████████████

Every bar but the two totals begins where the one above ends, so a gap would be a part left out.

Stacked layers add up to a total as well: areas over time, and a bar for each of several things.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustersim.records import dataclass
from clustersim.render.charts.picture import Axis, Cell, Entry, Picture, Table, table_of
from clustersim.render.tables import percent


class Bar(NamedTuple):
    """One bar: its name, its length, its colour; `text` is at its end, or in its place."""

    name: str
    value: float | None
    text: str
    colour: str = "compute"
    hover: str = ""


@dataclass(frozen=True, kw_only=True)
class Bars(Picture):
    """Upright bars next to each other.

    Attributes
    ----------
    names : what the names of the bars are
    measure : the axis of their lengths
    """

    names: str
    measure: Axis
    bars: tuple[Bar, ...]

    def rows(self) -> Iterator[Sequence[Cell]]:
        """Yield each bar with its value and its text."""
        yield [self.names, self.measure.title, "text"]
        for bar in self.bars:
            yield [bar.name, bar.value, bar.text]


# --- the waterfall --------------------------------------------------------------------------------

NEGLIGIBLE: Final = 0.002
"""Share of the larger total; smaller changes are one bar, the last."""


class Step(NamedTuple):
    """One change on the way: its name, its kind (a colour of the palette), and what it adds."""

    label: str
    kind: str
    change: float


class Fall(NamedTuple):
    """A bar of a waterfall as drawn: its name, ends and kind; `text` gives its number."""

    label: str
    begin: float
    end: float
    kind: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Waterfall(Picture):
    """Bars that lead from one total to another.

    Attributes
    ----------
    measure : the axis of all numbers
    first, last : names of the two totals; the first one has no bar where it has no name
    start : the first total
    steps : that lead to the last total
    kinds : kinds of steps with other names in the legend
    """

    measure: Axis
    first: str
    last: str
    start: float
    steps: tuple[Step, ...]
    kinds: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> float:
        """The larger total."""
        return max(abs(self.start), abs(self.end))

    @property
    def scale(self) -> float:
        """What numbers are given to a thousandth of: the larger total, less for small changes."""
        largest = max((abs(step.change) for step in self.steps), default=0.0)
        return min(self.size, 100 * largest) or self.size

    @property
    def end(self) -> float:
        """The last total."""
        return self.start + sum(step.change for step in self.steps)

    def in_unit(self) -> "Waterfall":
        """Return a waterfall of seconds in the unit in which they are read best."""
        factor, unit = time_unit(self.size)
        steps = tuple(step._replace(change=factor * step.change) for step in self.steps)
        measure = replace(self.measure, unit=unit)
        return replace(self, start=factor * self.start, steps=steps, measure=measure)

    def levels(self) -> list[float]:
        """Return the first total, and the level after each step."""
        levels = [self.start]
        for step in self.steps:
            levels.append(levels[-1] + step.change)
        return levels

    def falls(self) -> list[Fall]:
        """Return the bars from top to bottom."""
        levels, unit = self.levels(), self.measure.unit
        first = Fall(
            self.first, 0.0, self.start, "quiet", f"{to_thousandths(self.start, self.scale)} {unit}"
        )
        steps = [
            Fall(step.label, begin, end, step.kind, self._text(step))
            for step, begin, end in zip(self.steps, levels, levels[1:], strict=False)
        ]
        change = percent(self.end / self.start - 1, "+") if self.start and unit != "%" else ""
        total = f"{to_thousandths(self.end, self.scale)} {unit}"
        last = Fall(self.last, 0.0, self.end, "quiet", f"{total}, {change}" if change else total)
        return [*([first] if self.first else []), *steps, last]

    def _text(self, step: Step) -> str:
        change = to_thousandths(step.change, self.scale, "+" if self.start else "")
        text = f"{change} {self.measure.unit}"
        return text if self.measure.unit == "%" else f"{text}, {self.share(step)}"

    def share(self, step: Step) -> str:
        """Return a change in percent of the first total, of the last where it starts at 0."""
        total = self.start or self.end
        share = step.change / total if total else 0.0
        if abs(share) >= 5e-4:
            return percent(share, "+" if self.start else "")
        return f"{100 * share:+.2g} %" if self.scale < self.size and abs(share) > 1e-6 else "0.0 %"

    def window(self) -> tuple[float, float]:
        """Return the visible ends of the axis: from 0, or from below small changes."""
        levels = self.levels()
        low, high = min(levels), max(levels)
        moved = high - low
        if moved > 0.25 * self.size or moved <= 0:
            return min(0.0, low), high
        return max(0.0, low - 0.5 * moved), high

    @property
    def axis_title(self) -> str:
        """The title of the axis, which states where the axis does not begin at 0."""
        return f"{self.measure.title}{', truncated axis' if self.window()[0] else ''}"

    def legend(self) -> list[Entry]:
        """Return the kinds of steps."""
        kinds = dict.fromkeys(step.kind for step in self.steps)
        names = dict(self.kinds)
        return [Entry(names.get(kind, kind), kind) for kind in kinds if kind != "other"]

    def rows(self) -> Iterator[Sequence[Cell]]:
        """Yield each component, its change and the level after it."""
        unit = self.measure.unit
        yield ["part", "kind", "change", "level", "unit"]
        if self.first:
            yield [self.first, "total", None, self.start, unit]
        for step, level in zip(self.steps, self.levels()[1:], strict=True):
            yield [step.label, step.kind, step.change, level, unit]
        yield [self.last, "total", None, self.end, unit]


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the unit in which a time is read best, after the number of them in a second.

    >>> time_unit(792.0), time_unit(0.004)
    ((1.0, 's'), (1000.0, 'ms'))
    """
    units = ((1.0, "s"), (1e3, "ms"))
    return next((unit for unit in units if unit[0] * seconds >= 1), (1e6, "us"))


def to_thousandths(value: float, size: float, sign: str = "") -> str:
    """Return a number to a thousandth of `size`, so that all of a column can be compared.

    >>> (
    ...     to_thousandths(792.55128, 792.0),
    ...     to_thousandths(-2.8789, 792.0, "+"),
    ...     to_thousandths(0.00123, 792.0, "+"),
    ...     to_thousandths(6168.41, 6168.0),
    ... )
    ('792.6', '-2.9', '0.0', '6,168.4')
    """
    text = f"{value:{sign},.{_decimals(size)}f}"
    return text if text.strip("+-0.") else text.lstrip("+-")


def _decimals(size: float) -> int:
    decimals = 1
    while size < 100 and decimals < 9:
        size, decimals = 10 * size, decimals + 1
    return decimals


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer of a stack: its name, its colour, its height at each place."""

    name: str
    colour: str
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Level:
    """A dashed line at a height, with its meaning."""

    value: float
    text: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Stack(Picture):
    """Layers on top of each other, the first at the bottom.

    Attributes
    ----------
    x, measure : the axes
    limit : a line that the total is compared with
    """

    x: Axis
    measure: Axis
    layers: tuple[Layer, ...]
    limit: Level | None = None

    @property
    def total(self) -> NDArray[np.float64]:
        """The height of the stack at each place."""
        total: NDArray[np.float64] = np.sum([layer.values for layer in self.layers], axis=0)
        return total

    @property
    def top(self) -> float:
        """The highest value that is visible."""
        return max(float(self.total.max()), self.limit.value if self.limit else 0.0)

    @abstractmethod
    def places(self) -> Sequence[Cell]:
        """Return the places on the axis across."""

    def legend(self) -> list[Entry]:
        """Return the layers, and the limit, whose name would lie on the layers above it."""
        layers = [Entry(layer.name, layer.colour) for layer in self.layers]
        return [*layers, *([Entry(self.limit.text, "ink", "dashed")] if self.limit else [])]

    def rows(self) -> Iterator[Sequence[Cell]]:
        """Yield the height of each layer and of the stack at each place."""
        heads = [f"{layer.name} [{self.measure.unit}]" for layer in self.layers]
        yield [self.x.title, *heads, f"total [{self.measure.unit}]"]
        heights = [*(layer.values for layer in self.layers), self.total]
        for place, *row in zip(
            self.places(), *(values.tolist() for values in heights), strict=True
        ):
            yield [place, *row]


@dataclass(frozen=True, kw_only=True, eq=False)
class StackedAreas(Stack):
    """Areas over time; a level lasts until the next one begins.

    Attributes
    ----------
    begins : when each level begins
    end : when the last level ends
    """

    begins: NDArray[np.float64]
    end: float

    def places(self) -> Sequence[Cell]:
        """Return when each level begins."""
        return [float(begin) for begin in self.begins]

    def table(self) -> Table:
        """Return the lowest and the highest value of each layer."""
        unit = self.measure.unit
        rows: list[Sequence[Cell]] = [["layer", f"minimum [{unit}]", f"maximum [{unit}]"]]
        for layer in self.layers:
            rows.append([layer.name, float(layer.values.min()), float(layer.values.max())])
        return table_of(self.contents, rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class StackedBars(Stack):
    """A bar for each of several things, which are numbered from 0."""

    def places(self) -> Sequence[Cell]:
        """Return the numbers of the bars."""
        return [*range(len(self.total))]
