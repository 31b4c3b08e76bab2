"""Arithmetic of a block of places: its numbers, its ways round, its cuts.

0 1 2     places are numbered row by row, the last axis fastest; slab 1 of the first axis
3 4 5     holds places 3, 4 and 5
"""

from collections.abc import Sequence
from math import prod


def number_of(place: Sequence[int], lengths: Sequence[int]) -> int:
    """Return the number of a place in a block.

    >>> number_of((1, 2), (2, 3))
    5
    """
    number = 0
    for at, length in zip(place, lengths, strict=True):
        assert 0 <= at < length
        number = number * length + at
    return number


def place_of(number: int, lengths: Sequence[int]) -> tuple[int, ...]:
    """Return the place that has a number.

    >>> place_of(5, (2, 3))
    (1, 2)
    """
    place = []
    for length in reversed(lengths):
        number, at = divmod(number, length)
        place.append(at)
    assert number == 0
    return tuple(place[::-1])


def shorter_way(start: int, end: int, length: int, ring: bool) -> tuple[int, int]:
    """Return the direction, 1 or -1, and the steps along an axis; of two equal ways the positive.

    >>> shorter_way(0, 3, 4, ring=True), shorter_way(0, 2, 4, ring=True)
    ((-1, 1), (1, 2))
    """
    forward = (end - start) % length
    if ring:
        return (1, forward) if 2 * forward <= length else (-1, length - forward)
    return (1, forward) if end > start else (-1, start - end)


def cut_links(axes: Sequence[tuple[int, bool]], first: int) -> int:
    """Return the links between the first places of a block and the others.

    Slabs of the first axis hold nested sets of them, so the links along it add up to what its
    first slab has more than its last, twice where these two are joined as well.

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
