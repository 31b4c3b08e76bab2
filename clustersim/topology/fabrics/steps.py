"""The links of a torus, each made when the first message takes it and kept.

A machine of 158,976 routers has 1.4 million links, and a message across it takes twenty: looking
them up by number is several times as fast as naming them each time.
"""

from collections.abc import Sequence
from math import prod

from clustersim.topology.fabrics.grid import shorter_way
from clustersim.topology.links import Hop


class Names(dict[int, str]):
    """The name of each router: that of its row, and its place in the row."""

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__()
        *rows, self._length = shape
        self._rows = Names(rows) if rows else None

    def __missing__(self, router: int) -> str:
        row, at = divmod(router, self._length)
        name = self[router] = f"r{at}" if self._rows is None else f"{self._rows[row]}.{at}"
        return name


class Steps(dict[int, Hop]):
    """The link from a router to its neighbour along an axis, by the number of that step.

    Steps are numbered router by router, axis by axis, the positive direction first.
    """

    def __init__(
        self, shape: Sequence[int], wraps: Sequence[bool], axes: Sequence[str], cable: Hop
    ) -> None:
        super().__init__()
        self._shape, self._wraps, self._cable = shape, wraps, cable
        self._kinds = [f"axis {name}" for name in axes]
        self._axes = [(prod(shape[axis + 1 :]), length) for axis, length in enumerate(shape)]
        self._each = 2 * len(shape)
        self.names = Names(shape)

    def route(self, a: int, b: int) -> list[Hop]:
        """Return the links from router `a` to router `b`, axis by axis."""
        hops: list[Hop] = []
        for axis, (stride, length) in enumerate(self._axes):
            start, end = a // stride, b // stride  # slabs of this axis, in all of the machine
            if start != end:
                for numbers in self._along(axis, a, start % length, end % length):
                    hops += map(self.__getitem__, numbers)
                a += (end - start) * stride
        return hops

    def _along(self, axis: int, router: int, start: int, end: int) -> tuple[range, ...]:
        """Return the numbers of the steps along one axis, up to the seam of a ring and after it."""
        stride, length = self._axes[axis]
        step, count = shorter_way(start, end, length, self._wraps[axis])
        apart = step * stride * self._each
        first = router * self._each + 2 * axis + (step < 0)
        before = length - start if step > 0 else start + 1
        if count <= before:
            return (range(first, first + count * apart, apart),)
        seam, again = first + before * apart, first + (before - length) * apart
        return range(first, seam, apart), range(again, again + (count - before) * apart, apart)

    def __missing__(self, number: int) -> Hop:
        router, step = divmod(number, self._each)
        axis, backwards = divmod(step, 2)
        stride, length = self._axes[axis]
        here = router // stride % length
        there = (here - 1 if backwards else here + 1) % length
        name = f"{self.names[router]}>{self.names[router + (there - here) * stride]}"
        hop = Hop(name, self._cable.bandwidth, self._cable.latency, self._kinds[axis])
        self[number] = hop
        return hop
