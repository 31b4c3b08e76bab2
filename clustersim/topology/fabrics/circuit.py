"""A walk through every place of a rectangle, back to its start where the rectangle has a way.

    +-> -> -> -+        row 0: out from the lane (column 0) ...
    ^          v
    ^  +- <- <-+        row 1: ... and towards it
    ^  v
    ^  +-> -> -+        the last row ends beside the lane, which leads back: an even number of rows,
    ^          v        a rectangle two wide, or rows that are rings
    +- <- <- <-+

Two axes of a torus joined by such a walk are one ring: the virtual axes of Tofu (Ajima, Sumimoto
and Shimizu 2009, doi:10.1109/MC.2009.370).
"""

from typing import NamedTuple


class Circuit(NamedTuple):
    """Places in the order of the walk, each a neighbour of the one before.

    Attributes
    ----------
    places : (row coordinate, column coordinate) of each step
    closed : whether the last place is a neighbour of the first, and not the second itself
    """

    places: tuple[tuple[int, int], ...]
    closed: bool


def circuit(lengths: tuple[int, int], rings: tuple[bool, bool]) -> Circuit:
    """Return a walk through a rectangle, closed wherever one can be.

    Of two lengths above 1 it cannot be closed only where both are odd and neither axis is a ring:
    each step then changes between the squares of a chessboard, which has more of one colour.

    Parameters
    ----------
    lengths : of the two axes
    rings : whether the ends of each axis are neighbours
    """
    a, b = lengths
    if min(a, b) == 1:
        places = tuple((x, y) for x in range(a) for y in range(b))
        return Circuit(places, max(a, b) > 2 and rings[0 if a > 1 else 1])
    if b % 2 == 0 or a == 2 or rings[0]:
        return Circuit(_by_lane(a, b), closed=True)
    if a % 2 == 0 or b == 2 or rings[1]:
        return Circuit(tuple((x, y) for y, x in _by_lane(b, a)), closed=True)
    return Circuit(_to_and_fro(range(a), b), closed=False)


def _by_lane(width: int, rows: int) -> tuple[tuple[int, int], ...]:
    back = tuple((0, row) for row in range(rows - 1, 0, -1))
    return ((0, 0), *_to_and_fro(range(1, width), rows), *back)


def _to_and_fro(columns: range, rows: int) -> tuple[tuple[int, int], ...]:
    return tuple(
        (column, row)
        for row in range(rows)
        for column in (columns if row % 2 == 0 else reversed(columns))
    )
