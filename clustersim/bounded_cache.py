"""A cache of the latest results, up to a size in total.

Layouts of a sweep have few different orders of steps and few different groups of devices.
"""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")


class BoundedCache:
    """The latest results by key.

    Parameters
    ----------
    most : total size of all results, in the unit of their sizes
    largest : size of a cached result at most; a larger one would replace many others
    """

    def __init__(self, most: int, largest: int) -> None:
        self._most, self._largest = most, largest
        self._results: dict[Hashable, tuple[int, Any]] = {}
        self._total = 0
        self._lock = Lock()  # a Dask worker runs tasks in threads

    def get(self, key: Hashable, size: int, compute: Callable[[], T]) -> T:
        """Return a result, computed unless it is cached.

        Parameters
        ----------
        key : what is computed and all that it depends on
        size : of the result
        """
        with self._lock:
            if key in self._results:
                cached: T = self._latest(key)
                return cached
        result = compute()
        if size <= self._largest:
            self.add(key, size, result)
        return result

    def known(self, key: Hashable) -> Any:
        """Return a cached result; None without one."""
        with self._lock:
            return self._latest(key) if key in self._results else None

    def _latest(self, key: Hashable) -> Any:
        self._results[key] = self._results.pop(key)  # the latest is the last
        return self._results[key][1]

    def add(self, key: Hashable, size: int, result: object) -> None:
        """Cache a result of some size in place of the oldest ones."""
        with self._lock:
            before, _ = self._results.pop(key, (0, None))
            self._results[key] = size, result
            self._total += size - before
            while self._total > self._most:
                oldest, _ = self._results.pop(next(iter(self._results)))
                self._total -= oldest
