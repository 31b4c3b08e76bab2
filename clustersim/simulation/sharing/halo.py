"""The halo exchange of a code on a grid: each device sends a face to both neighbours on each axis.

d0 <-> d1 <-> d2 <->      all faces of all devices are sent at once, and end together
 ^      ^      ^
 v      v      v
d3 <-> d4 <-> d5 <->      at the ends of an axis only where it is periodic
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from clustersim.arrays import Integers


def faces(lengths: Sequence[int], *, periodic: bool) -> tuple[Integers, Integers]:
    """Return the devices that send faces and those that receive them, numbered along the grid.

    An axis of one device has no faces; along a periodic one of two both go to the same neighbour.

    Parameters
    ----------
    lengths : of the axes, the last one fastest

    >>> sources, targets = faces([1, 3], periodic=False)
    >>> sources.tolist(), targets.tolist()
    ([0, 1, 1, 2], [1, 2, 0, 1])
    """
    grid = np.arange(prod(lengths)).reshape(*lengths)
    sources, targets = [grid[:0].ravel()], [grid[:0].ravel()]
    for axis, length in enumerate(lengths):
        for step in (1, -1):
            kept = np.arange(length)
            if not periodic:
                kept = kept[:-1] if step > 0 else kept[1:]
            if length > 1:
                sources.append(grid.take(kept, axis).ravel())
                targets.append(grid.take((kept + step) % length, axis).ravel())
    return np.concatenate(sources), np.concatenate(targets)
