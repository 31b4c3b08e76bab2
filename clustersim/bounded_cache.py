"""A cache of the latest results, up to a size in total.

Layouts of a sweep have few different orders of steps and few different groups of devices.
"""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")


class _Entry:
    """A result with its size, and whether it was used since it was last the oldest."""

    __slots__ = "result", "size", "used"

    def __init__(self, size: int, result: Any) -> None:
        self.size, self.result, self.used = size, result, False


class BoundedCache:
    """Results by key; the oldest that were not used for long give way to new ones.

    One that was used since it was last the oldest becomes the latest instead (the clock algorithm),
    so that a look-up changes no order and hashes its key one time.

    Parameters
    ----------
    most : total size of all results, in the unit of their sizes
    largest : size of a cached result at most; a larger one would replace many others
    """

    def __init__(self, most: int, largest: int) -> None:
        self._most, self._largest = most, largest
        self._results: dict[Hashable, _Entry] = {}
        self._total = 0
        self._lock = Lock()  # a Dask worker runs tasks in threads

    def get(self, key: Hashable, size: int, compute: Callable[[], T]) -> T:
        """Return a result, computed unless it is cached.

        Parameters
        ----------
        key : what is computed and all that it depends on
        size : of the result
        """
        if (entry := self._results.get(key)) is not None:
            entry.used = True
            cached: T = entry.result
            return cached
        result = compute()
        if size <= self._largest:
            self.add(key, size, result)
        return result

    def known(self, key: Hashable) -> Any:
        """Return a cached result; None without one."""
        if (entry := self._results.get(key)) is None:
            return None
        entry.used = True
        return entry.result

    def add(self, key: Hashable, size: int, result: object) -> None:
        """Cache a result of some size in place of old ones."""
        with self._lock:
            if (before := self._results.pop(key, None)) is not None:
                self._total -= before.size
            while self._results and self._total + size > self._most:
                oldest = next(iter(self._results))
                entry = self._results.pop(oldest)
                if entry.used:
                    entry.used = False
                    self._results[oldest] = entry
                else:
                    self._total -= entry.size
            self._results[key] = _Entry(size, result)
            self._total += size
