"""Where cases run: in this process, in as many as are asked for, or in one of their own."""

from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any, TypeVar

Given = TypeVar("Given")
Found = TypeVar("Found")


class Here(Executor):
    """Runs each task at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the task and return a future that is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def workers(jobs: int) -> Executor:
    """Return where cases run: here, or in as many processes."""
    return Here() if jobs == 1 else ProcessPoolExecutor(jobs)


def alone(fn: Callable[[Given], Found], given: Given) -> Found:
    """Run a task in a process of its own.

    Raises
    ------
    BrokenExecutor
        when that process dies.
    """
    with ProcessPoolExecutor(1) as own:
        return own.submit(fn, given).result()
