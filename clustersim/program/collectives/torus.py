"""Rings along every axis of a torus at once.

    part 0:  axis x, then y, then z        a buffer cut in parts that start on each axis in turn,
    part 1:  axis y, then z, then x        twice as many on a closed ring as on a line, so that
    part 2:  axis z, then x, then y        all links are busy

Along an axis of length k a part of s bytes is reduce-scattered both ways round, (k - 1) / k s / 2
on every link, and s / k continues on the next axis.  An axis without its closing link is used as a
folded ring (0 2 4 5 3 1), at half the rate.  Over all axes that tends to (p - 1) / p S / (2 d B).
"""

from collections.abc import Iterator, Sequence
from itertools import product

from clustersim.cost.closed_form import Box, GroupSpan, StepCounts, passes
from clustersim.program.collectives.algorithm import HALVES, Algorithm, Edge, Need, neighbours
from clustersim.topology.cluster import Cluster
from clustersim.topology.fabrics.torus import TorusFabric


def box(cluster: Cluster, group: Sequence[int]) -> Box | None:
    """Return the box of a torus that a group fills, or None."""
    fabric = cluster.fabric
    if not isinstance(fabric, TorusFabric) or cluster.node.devices != 1:
        return None
    positions = [fabric.coordinates(device) for device in group]
    sides = tuple([tuple(sorted(set(axis))) for axis in zip(*positions, strict=True)])
    whole = 1
    for side in sides:
        whole *= len(side)
        if side[-1] - side[0] != len(side) - 1:
            return None
    return sides if whole == len(group) == len(set(group)) else None


def torus_edges(cluster: Cluster, group: Sequence[int], operation: str) -> Iterator[Edge]:
    """Yield what is sent along the axes, in both directions, for each byte of the buffer."""
    fabric, sides = cluster.fabric, box(cluster, group)
    assert isinstance(fabric, TorusFabric)
    assert sides is not None
    closed = [
        fabric.rings[axis] and len(side) == fabric.lengths[axis] for axis, side in enumerate(sides)
    ]
    for axis, share in _along_axes(sides, closed, passes(operation)).items():
        cycle = axis_ring(sides[axis], closed=closed[axis])
        others = [side[:1] if a == axis else side for a, side in enumerate(sides)]
        for corner in product(*others):
            line = [fabric.node((*corner[:axis], at, *corner[axis + 1 :])) for at in cycle]
            for a, b in neighbours(line):
                yield a, b, share
                yield b, a, share


def starting_axes(lengths: Sequence[int], closed: Sequence[bool]) -> list[int]:
    """Return the axis on which each part starts: closed rings twice.

    >>> starting_axes((4, 1, 4), (True, False, False))
    [0, 0, 2]
    """
    axes = [axis for axis, length in enumerate(lengths) if length > 1]
    return [axis for axis in axes for _ in range(2 if closed[axis] and lengths[axis] > 2 else 1)]


def _along_axes(sides: Box, closed: Sequence[bool], times: int) -> dict[int, float]:
    """Return the load of each link in one direction, by axis, of all parts together."""
    lengths = [len(side) for side in sides]
    axes = [axis for axis, length in enumerate(lengths) if length > 1]
    carried = dict.fromkeys(axes, 0.0)
    parts = starting_axes(lengths, closed)
    for first in parts:
        remaining, turn = times / len(parts), axes.index(first)
        for axis in [*axes[turn:], *axes[:turn]]:
            carried[axis] += remaining * (lengths[axis] - 1) / lengths[axis] / 2
            remaining /= lengths[axis]
    return carried


def axis_ring(side: Sequence[int], *, closed: bool) -> list[int]:
    """Return the places of an axis in the order of a ring: ascending, or folded.

    >>> axis_ring(range(6), closed=False)
    [0, 2, 4, 5, 3, 1]
    """
    positions = list(side)
    if closed or len(positions) < 3:
        return positions
    return [*positions[::2], *reversed(positions[1::2])]


def _steps(operation: str, span: GroupSpan) -> StepCounts:
    """Return the sequential steps: half of each ring's length, as both directions are used."""
    assert span.box is not None
    half = sum(len(side) // 2 for side in span.box)
    return StepCounts(0, passes(operation) * half)


TORUS = Algorithm(
    "torus",
    HALVES,
    _steps,
    torus_edges,
    need=Need("a group that fills a box of a torus", lambda groups: groups.boxes),
    doubled=True,
)
