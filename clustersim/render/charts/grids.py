"""Pictures of combinations: a heat map over two axes, parallel coordinates over more."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from clustersim.records import dataclass
from clustersim.render.charts.picture import Axis, Cell, Entry, Picture
from clustersim.render.palette import SERIES


class Field(NamedTuple):
    """A field of a heat map.

    Attributes
    ----------
    value : that its colour shows; None where there is none
    hatched : whether it is drawn hatched, as one that exceeds a limit
    """

    value: float | None
    text: str
    hover: str = ""
    hatched: bool = False


@dataclass(frozen=True, kw_only=True)
class HeatMap(Picture):
    """A field for each combination of two axes, the darker the better.

    Attributes
    ----------
    x, y : axes with a tick at each column and row
    measure : the values
    fields : by row and column
    best : row and column of the best field, which has a frame
    hatched, empty : what hatched fields and those without a value mean
    """

    x: Axis
    y: Axis
    measure: Axis
    fields: Mapping[tuple[int, int], Field]
    more_is_better: bool = True
    best: tuple[int, int] | None = None
    hatched: str = ""
    empty: str = ""

    def legend(self) -> list[Entry]:
        """Return what filled, framed, hatched and empty fields mean."""
        fields = self.fields.values()
        entries = [Entry(self.measure.title, "scale-3")]
        if self.best is not None:
            entries.append(Entry("best", "warning", "framed"))
        if any(field.hatched for field in fields):
            entries.append(Entry(self.hatched, "raised", "hatched"))
        if any(field.value is None and not field.hatched for field in fields):
            entries.append(Entry(self.empty, "ground"))
        return entries

    def rows(self) -> Iterator[Sequence[Cell]]:
        """Yield each field with the values of its axes."""
        yield [self.y.label, self.x.label, self.measure.title, "text"]
        for (row, column), field in sorted(self.fields.items()):
            names = self.y.ticks[row][1], self.x.ticks[column][1]
            yield [*names, field.value, field.text]


@dataclass(frozen=True, kw_only=True)
class ShareMap(Picture):
    """Shares in rows of cells, in the colours of one scale from 0 to 100 %.

    Attributes
    ----------
    cells : what the cells of a row are
    names : of the rows
    measure : the shares [%]
    shares : by row and column, from 0 to 1
    hover : the words about each
    """

    cells: str
    names: tuple[str, ...]
    measure: Axis
    shares: tuple[tuple[float, ...], ...]
    hover: tuple[tuple[str, ...], ...]

    def rows(self) -> Iterator[Sequence[Cell]]:
        """Yield the highest share of each row, with its words."""
        yield ["row", f"highest {self.measure.title}", "where"]
        for name, shares, words in zip(self.names, self.shares, self.hover, strict=True):
            highest = max(range(len(shares)), key=shares.__getitem__)
            yield [name, 100 * shares[highest], words[highest]]


class Owned(NamedTuple):
    """A cell of a map of owners: the number of its owner, -1 of none."""

    owner: int
    hover: str


@dataclass(frozen=True, kw_only=True)
class OwnerMap(Picture):
    """Cells in rows, each in the colour of its owner.

    Attributes
    ----------
    measure : what a cell is
    names : of the rows
    owners : names of the owners, in the order of their numbers
    grid : cells by row; None where there is a gap
    free : what cells without an owner are
    """

    measure: Axis
    names: tuple[str, ...]
    owners: tuple[str, ...]
    grid: tuple[tuple[Owned | None, ...], ...]
    free: str

    @property
    def colours(self) -> tuple[str, ...]:
        """The colour of each owner, and of none; owners of many share some."""
        return (*(f"series-{n % len(SERIES)}" for n in range(len(self.owners))), "idle")

    @property
    def counts(self) -> list[int]:
        """Cells of each owner, and of none."""
        every = [cell.owner for row in self.grid for cell in row if cell is not None]
        return [every.count(n) for n in (*range(len(self.owners)), -1)]

    def legend(self) -> list[Entry]:
        """Return the owners of each colour, and cells without an owner."""
        shared: dict[str, list[str]] = {}
        for name, colour in zip(self.owners, self.colours, strict=False):
            shared.setdefault(colour, []).append(name)
        entries = [
            Entry(", ".join(names[:3]) + (", ..." if names[3:] else ""), colour)
            for colour, names in shared.items()
        ]
        return [*entries, *([Entry(self.free, "idle")] if self.counts[-1] else [])]

    def rows(self) -> Iterator[Sequence[Cell]]:
        """Yield the number of cells of each owner."""
        yield ["job", self.measure.title]
        yield from zip((*self.owners, self.free), self.counts, strict=True)


class Combination(NamedTuple):
    """A line of parallel coordinates: its place on each axis, and its value."""

    places: tuple[int, ...]
    value: float
    hover: str = ""


@dataclass(frozen=True, kw_only=True)
class ParallelCoordinates(Picture):
    """A line for each combination, from axis to axis, to its value.

    Attributes
    ----------
    axes : each with its ticks
    measure : the values
    combinations : the best first
    names : in the legend, of all lines and of the best one
    """

    axes: tuple[Axis, ...]
    measure: Axis
    combinations: tuple[Combination, ...]
    names: tuple[str, str] = ("combination", "best")
    more_is_better: bool = True

    def legend(self) -> list[Entry]:
        """Return what all lines and the best one are."""
        every, best = self.names
        return [Entry(every, "compute"), Entry(best, "warning")]

    def rows(self) -> Iterator[Sequence[Cell]]:
        """Yield each combination with its value."""
        yield [*(axis.label for axis in self.axes), self.measure.title]
        for line in self.combinations:
            names = (axis.ticks[i][1] for axis, i in zip(self.axes, line.places, strict=True))
            yield [*names, line.value]

    def heights(self, count: int) -> list[list[float]]:
        """Return the heights of the first lines on all axes, the measure last, from 0 to 1."""
        low, high = sorted(self.ends()) if self.combinations else (0.0, 0.0)
        sizes = [len(axis.ticks) for axis in self.axes]
        return [
            [
                *map(height, line.places, sizes),
                share_of(line.value, low, high, self.more_is_better),
            ]
            for line in self.combinations[:count]
        ]

    def ends(self) -> tuple[float, float]:
        """Return the worst and the best value."""
        values = [line.value for line in self.combinations]
        low, high = min(values), max(values)
        return (low, high) if self.more_is_better else (high, low)


def height(place: int, size: int) -> float:
    """Return the height of one of `size` places on an axis from 0 to 1."""
    return place / (size - 1) if size > 1 else 0.5


def share_of(value: float, low: float, high: float, more_is_better: bool) -> float:
    """Return where a value is between the worst, 0, and the best, 1."""
    share = (value - low) / (high - low) if high > low else 1.0
    return share if more_is_better or high <= low else 1 - share
