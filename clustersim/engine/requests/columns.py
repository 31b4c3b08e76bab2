"""Numbers in columns that grow: a replay has millions of steps and of requests."""

from collections.abc import Iterable, Mapping, Sequence
from mmap import mmap
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clustersim.arrays import Booleans

ROOM: Final = 1_024
"""Numbers that a column has room for, if it is not known how many there will be."""

SEPARATE: Final = 2**21
"""Size of a column that has memory of its own [B]."""


def _empty(room: int, kind: np.dtype[Any]) -> NDArray[Any]:
    """Return room for numbers, which takes memory page by page as it is filled.

    NumPy requests pages of 2 MiB for large arrays: 1,000,000 requests took 20 MB more.
    """
    nbytes = room * kind.itemsize
    return np.empty(room, kind) if nbytes < SEPARATE else np.frombuffer(mmap(-1, nbytes), kind)


class Columns:
    """Columns of one length.

    Room that is not filled takes no memory.

    Parameters
    ----------
    types : of the numbers of each column, by its name
    room : numbers that they have room for at first; it is doubled when it is filled

    >>> columns = Columns({"end": "d", "blocks": "i"})
    >>> columns.extend([("end", (0.5, 1.5)), ("blocks", (3, 4))])
    >>> columns.choose(np.array([False, True]))
    >>> {name: values.tolist() for name, values in columns.filled().items()}
    {'end': [1.5], 'blocks': [4]}
    """

    def __init__(self, types: Mapping[str, str], room: int = ROOM) -> None:
        self._room, self._length = max(1, room), 0
        self._columns: dict[str, NDArray[Any]] = {
            name: _empty(self._room, np.dtype(kind)) for name, kind in types.items()
        }

    def __len__(self) -> int:
        return self._length

    def extend(self, values: Iterable[tuple[str, Sequence[float] | NDArray[Any]]]) -> None:
        """Append equally many numbers to all columns."""
        length = self._length
        for name, more in values:
            length = self._length + len(more)
            if length > self._room:
                self._grow(length)
            column = self._columns[name]
            if not isinstance(more, np.ndarray):
                more = np.fromiter(more, column.dtype, len(more))
            column[self._length : length] = more
        self._length = length

    def _grow(self, length: int) -> None:
        while self._room < length:
            self._room *= 2
        for name, filled in self.filled().items():
            self._columns[name] = _empty(self._room, filled.dtype)
            self._columns[name][: self._length] = filled

    def choose(self, chosen: Booleans) -> None:
        """Remove all numbers but those that a mask chooses."""
        self._length, length = int(np.count_nonzero(chosen)), self._length
        for name, column in self._columns.items():
            self._columns[name] = remaining = _empty(self._room, column.dtype)
            np.compress(chosen, column[:length], out=remaining[: self._length])

    def filled(self) -> dict[str, NDArray[Any]]:
        """Return the numbers of each column."""
        return {name: column[: self._length] for name, column in self._columns.items()}
