"""What was computed about a machine: the latest results are kept for the next layouts on it.

Layouts of a sweep have few different groups of devices; their routes, the load of their collectives
and the links between their members follow from the devices alone.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar

T = TypeVar("T")

MOST: Final = 1 << 17
"""Devices of all results that are kept, which takes some 200 B for each."""

LARGEST: Final = MOST >> 3
"""Devices of a result that is kept at most: a larger one would replace all others."""


class Kept:
    """The latest results by key, the total of their devices bounded."""

    def __init__(self, most: int = MOST, largest: int = LARGEST) -> None:
        self._most, self._largest = most, largest
        self._found: dict[Hashable, tuple[int, Any]] = {}
        self._devices = 0

    def get(self, key: Hashable, devices: int, compute: Callable[[], T]) -> T:
        """Return a result, computed unless it is kept.

        Parameters
        ----------
        key : what is computed and all that it depends on, apart from the machine
        devices : that it is about [count]
        """
        known = self._found.pop(key, None)
        if known is None:
            known = devices, compute()
            if devices > self._largest:
                return known[1]
            self._devices += devices
        self._found[key] = known  # the latest is the last
        while self._devices > self._most:
            oldest, _ = self._found.pop(next(iter(self._found)))
            self._devices -= oldest
        result: T = known[1]
        return result


__all__ = ["Kept"]
