"""Grids of routers: numbering, shortest directions, cuts, closed walks and links by number.

    0 1 2     routers are numbered row by row, the last axis fastest; slab 1 of the first axis
    3 4 5     holds routers 3, 4 and 5

    +-> -> -> -+        a closed walk through a rectangle: row 0 away from the lane (column 0) ...
    ^          v
    ^  +- <- <-+        row 1 back towards it ...
    ^  v
    ^  +-> -> -+        the last row ends next to the lane, which leads back to the start: this
    ^          v        takes an even number of rows, a rectangle of width two, or rows that are
    +- <- <- <-+        rings

Two axes of a torus joined by such a walk form one ring: the virtual axes of Tofu (Ajima, Sumimoto
and Shimizu 2009, doi:10.1109/MC.2009.370).
"""

import re
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from clustersim.arrays import Floats, Integers, ranges
from clustersim.topology.fabrics.fabric import NumberedLinks
from clustersim.topology.links import Hop
from clustersim.topology.routes import Walks, joined


def number_of(position: Sequence[int], lengths: Sequence[int]) -> int:
    """Return the number of a position in a block.

    >>> number_of((1, 2), (2, 3))
    5
    """
    number = 0
    for at, length in zip(position, lengths, strict=True):
        assert 0 <= at < length
        number = number * length + at
    return number


def coordinates(number: int, lengths: Sequence[int]) -> tuple[int, ...]:
    """Return the position of a number.

    >>> coordinates(5, (2, 3))
    (1, 2)
    """
    position = []
    for length in reversed(lengths):
        number, at = divmod(number, length)
        position.append(at)
    assert number == 0
    return tuple(position[::-1])


def cut_links(axes: Sequence[tuple[int, bool]], first: int) -> int:
    """Return the links between the first positions of a block and the others.

    Slabs of the first axis contain nested sets of them, so the cut links along it are the excess of
    the first slab over the last, twice if these two are joined as well.

    Parameters
    ----------
    axes : length of each, and whether its ends are joined
    """
    if not axes or first == 0:
        return 0
    (length, ring), rest = axes[0], axes[1:]
    slab = prod(other for other, _ in rest)
    more = min(first, slab) - max(first - (length - 1) * slab, 0)
    return (2 if ring else 1) * more + cut_links(rest, first % slab)


class Circuit(NamedTuple):
    """Positions in the order of the walk, each a neighbour of the previous one.

    Attributes
    ----------
    cells : (row coordinate, column coordinate) of each step
    closed : whether the last position is a neighbour of the first, with at least three positions
    """

    cells: tuple[tuple[int, int], ...]
    closed: bool


def circuit(lengths: tuple[int, int], rings: tuple[bool, bool]) -> Circuit:
    """Return a walk through a rectangle, closed if possible.

    With both lengths above 1, a closed walk does not exist only if both are odd and neither axis is
    a ring: each step changes the colour of a chessboard that has more squares of one colour.

    Parameters
    ----------
    lengths : of the two axes
    rings : whether the ends of each axis are neighbours
    """
    a, b = lengths
    if min(a, b) == 1:
        cells = tuple((x, y) for x in range(a) for y in range(b))
        return Circuit(cells, max(a, b) > 2 and rings[0 if a > 1 else 1])
    if b % 2 == 0 or a == 2 or rings[0]:
        return Circuit(_by_lane(a, b), closed=True)
    if a % 2 == 0 or b == 2 or rings[1]:
        return Circuit(tuple((x, y) for y, x in _by_lane(b, a)), closed=True)
    return Circuit(_back_and_forth(range(a), b), closed=False)


def _by_lane(width: int, rows: int) -> tuple[tuple[int, int], ...]:
    back = tuple((0, row) for row in range(rows - 1, 0, -1))
    return ((0, 0), *_back_and_forth(range(1, width), rows), *back)


def _back_and_forth(columns: range, rows: int) -> tuple[tuple[int, int], ...]:
    return tuple(
        (column, row)
        for row in range(rows)
        for column in (columns if row % 2 == 0 else reversed(columns))
    )


class Names(dict[int, str]):
    """The name of each router: the name of its row, and its position in the row."""

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__()
        *rows, self._length = shape
        self._rows = Names(rows) if rows else None

    def __missing__(self, router: int) -> str:
        row, at = divmod(router, self._length)
        name = self[router] = f"r{at}" if self._rows is None else f"{self._rows[row]}.{at}"
        return name


_ROUTER = re.compile(r"r(\d+(?:\.\d+)*)")


class Steps(NumberedLinks):
    """The link from a router to its neighbour along an axis, by the number of that step.

    Steps are numbered router by router, axis by axis, the positive direction first. They are named
    on demand: a machine of 158,976 routers has 1.4 million links, and a message crosses twenty.
    """

    def __init__(
        self, shape: Sequence[int], wraps: Sequence[bool], axes: Sequence[str], cable: Hop
    ) -> None:
        self._shape, self._wraps, self._cable = tuple(shape), wraps, cable
        self._kinds = [f"axis {name}" for name in axes]
        self._axes = [(prod(shape[axis + 1 :]), length) for axis, length in enumerate(shape)]
        self.each = 2 * len(shape)
        self._length = prod(shape) * self.each
        self.names = Names(shape)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, number: int, /) -> Hop:
        router, step = divmod(number, self.each)
        name = f"{self.names[router]}>{self.names[self._neighbour(number)]}"
        return Hop(name, self._cable.bandwidth, self._cable.latency, self._kinds[step // 2])

    def bandwidths(self) -> Floats:
        """Return the payload bandwidth of each link, all equal [B/s]."""
        return np.full(len(self), self._cable.bandwidth)

    def alike(self, numbers: Integers) -> Integers:
        """Return a number for each link, equal for the same direction at all routers."""
        return numbers % self.each

    def number(self, name: str) -> int | None:
        """Return the number of a link by its name; None for another link."""
        ends = [_ROUTER.fullmatch(end) for end in name.split(">")]
        if None in ends:
            return None
        positions = [tuple(map(int, end[1].split("."))) for end in ends if end is not None]
        router, neighbour = (number_of(position, self._shape) for position in positions)
        first = router * self.each
        numbers = filter(self._is_joined, range(first, first + self.each))
        return next((i for i in numbers if self._neighbour(i) == neighbour), None)

    def _is_joined(self, number: int) -> bool:
        """Return whether a step has a link: at the end of a line there is none."""
        router, step = divmod(number, self.each)
        axis, backwards = divmod(step, 2)
        stride, length = self._axes[axis]
        last = 0 if backwards else length - 1
        return self._wraps[axis] or router // stride % length != last

    def _neighbour(self, number: int) -> int:
        """Return the router to which a step leads."""
        router, step = divmod(number, self.each)
        axis, backwards = divmod(step, 2)
        stride, length = self._axes[axis]
        here = router // stride % length
        return router + ((here - 1 if backwards else here + 1) % length - here) * stride

    def step(self, router: int, axis: int, *, backwards: bool) -> Hop:
        """Return the link from a router to its neighbour along an axis."""
        return self[router * self.each + 2 * axis + backwards]

    def walks(self, a: Integers, b: Integers) -> Walks:
        """Return the steps from routers `a` to routers `b`, axis by axis, the shorter way each."""
        along: list[tuple[Integers, Integers]] = []
        here = a
        for axis, (stride, length) in enumerate(self._axes):
            start, end = here // stride % length, b // stride % length
            forward = (end - start) % length
            if self._wraps[axis]:
                backwards = 2 * forward > length
                counts = np.where(backwards, length - forward, forward)
            else:
                backwards = end < start
                counts = np.abs(end - start)
            step = np.where(backwards, -1, 1)
            before: Integers = ranges(np.zeros_like(counts), counts)  # steps taken along the axis
            positions = (np.repeat(start, counts) + np.repeat(step, counts) * before) % length
            routers = np.repeat(here - start * stride, counts) + positions * stride
            numbers = routers * self.each + 2 * axis + np.repeat(backwards, counts)
            along.append((counts, numbers.astype(np.int64, copy=False)))
            here = here + (end - start) * stride
        total, steps = joined(along)
        waits = np.zeros(int(total.max(initial=0)) + 1)
        waits[1:] = np.cumsum(np.full(len(waits) - 1, self._cable.latency))
        return total, steps, waits[total]
