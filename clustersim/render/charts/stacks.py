"""Stacked layers that add up to a total: areas over time, and a bar for each of several things."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clustersim.render.charts.picture import Axis, Cell, Entry, Picture, Table, table_of


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
