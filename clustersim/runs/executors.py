"""Where cases run: in this process, in as many as are asked for, or in one of their own."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, parent_process
from multiprocessing.connection import wait
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


class _Pool(Executor):
    """As many processes; where one of them has died, the next task begins with new ones."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool = self._new()

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._jobs, initializer=_follow)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Hand a task to one of the processes."""
        try:
            return self._pool.submit(fn, *args, **kwargs)
        except BrokenExecutor:
            self._pool.shutdown()
            self._pool = self._new()
            return self._pool.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes."""
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


@contextmanager
def workers(jobs: int) -> Iterator[Executor]:
    """Give a place where cases run: here, or in as many processes, which end with the context.

    An interrupt ends them at once, whatever they are at; so does the end of this process.
    """
    if jobs == 1:
        yield Here()
        return
    executor = _Pool(jobs)
    try:
        yield executor
    except BaseException:
        for process in active_children():
            process.terminate()
        executor.shutdown(cancel_futures=True)
        raise
    executor.shutdown()


def alone(fn: Callable[[Given], Found], given: Given) -> Found:
    """Run a task in a process of its own.

    Raises
    ------
    BrokenExecutor
        when that process dies.
    """
    with ProcessPoolExecutor(1, initializer=_follow) as own:
        return own.submit(fn, given).result()


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _follow() -> None:
    """Leave interrupts to the parent process, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # of which the parent may make something else
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
