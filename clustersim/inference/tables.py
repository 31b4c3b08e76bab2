"""Tables of times between which steps are interpolated: a step costs microseconds to look up.

Knots grow geometrically, so that times that grow with a power of their argument are met within the
square of the distance between knots.
"""

from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise
from typing import Final

import numpy as np

from clustersim.arrays import Floats

DENSE_UP_TO: Final = 16
"""Up to here each whole number is a knot: kernels of few tokens differ in tiles, not in size."""

KNOTS_AN_OCTAVE: Final = 8
"""Knots for each doubling above."""


TILE: Final = 64
"""Rows of the smallest tile: times of products step after each multiple of it."""

TILES: Final = 32
"""Multiples of a tile that are knots, each with the number after it."""


def knots(most: float, octave: int = KNOTS_AN_OCTAVE, tile: float = TILE) -> list[float]:
    """Return whole numbers from 1 up to at least `most`, each a knot of a table.

    `tile` is the number of tokens that fill another tile of a product.
    """
    found = [float(n) for n in range(1, DENSE_UP_TO + 1)]
    while found[-1] < most:
        found.append(float(np.ceil(found[-1] * 2 ** (1 / octave))))
    edges = {tile * n + after for n in range(1, TILES + 1) for after in (0.0, 1.0)}
    return sorted({*found, *(edge for edge in edges if edge < most)})


def tabulate(at: list[float], function: Callable[[Floats], Floats]) -> "Line":
    """Return the table of a function of one number."""
    return Line(at, function(np.array(at)).tolist())


class Line:
    """A function of one number, linear between knots and beyond the last."""

    def __init__(self, at: list[float], values: list[float]) -> None:
        self._at, self._values = at, values
        pairs = zip(pairwise(values), pairwise(at), strict=True)
        self._slopes = [(b - a) / (y - x) for (a, b), (x, y) in pairs]
        self._last = len(at) - 2

    def __call__(self, x: float) -> float:
        """Return the value at a number."""
        place = bisect_right(self._at, x) - 1
        place = 0 if place < 0 else min(place, self._last)
        return self._values[place] + self._slopes[place] * (x - self._at[place])


class Plane:
    """A function of two numbers, linear in each between knots."""

    def __init__(
        self, rows: list[float], columns: list[float], function: Callable[[Floats, Floats], Floats]
    ) -> None:
        self._rows = rows
        a, b = np.meshgrid(np.array(rows), np.array(columns), indexing="ij")
        values = function(a.ravel(), b.ravel()).reshape(a.shape)
        self._lines = [Line(columns, row) for row in values.tolist()]

    def __call__(self, x: float, y: float) -> float:
        """Return the value at a row and a column."""
        place = bisect_right(self._rows, x) - 1
        place = 0 if place < 0 else min(place, len(self._rows) - 2)
        low, high = self._rows[place], self._rows[place + 1]
        share = (x - low) / (high - low)
        return (1 - share) * self._lines[place](y) + share * self._lines[place + 1](y)
