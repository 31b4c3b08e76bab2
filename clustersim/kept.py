"""Results that are kept for whoever needs them next: the latest ones, up to a size in total.

Layouts of a sweep have few different orders of steps and few different groups of devices.
"""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")


class Kept:
    """The latest results by key.

    Parameters
    ----------
    most : total size of all results, in the unit of their sizes
    largest : size of a result that is kept at most; a larger one would replace many others
    """

    def __init__(self, most: int, largest: int) -> None:
        self._most, self._largest = most, largest
        self._found: dict[Hashable, tuple[int, Any]] = {}
        self._total = 0
        self._lock = Lock()  # a Dask worker runs tasks in threads

    def get(self, key: Hashable, size: int, compute: Callable[[], T]) -> T:
        """Return a result, computed unless it is kept.

        Parameters
        ----------
        key : what is computed and all that it depends on
        size : of the result
        """
        with self._lock:
            known = self._found.get(key)
            if known is not None:
                self._found[key] = self._found.pop(key)  # the latest is the last
                found: T = known[1]
                return found
        result = compute()
        if size <= self._largest:
            self._keep(key, size, result)
        return result

    def _keep(self, key: Hashable, size: int, result: object) -> None:
        with self._lock:
            before, _ = self._found.pop(key, (0, None))
            self._found[key] = size, result
            self._total += size - before
            while self._total > self._most:
                oldest, _ = self._found.pop(next(iter(self._found)))
                self._total -= oldest
