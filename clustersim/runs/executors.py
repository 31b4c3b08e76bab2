"""Where tasks run: in this process, in a pool of processes, or in a process of their own."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, parent_process
from multiprocessing.connection import wait
from typing import Any, TypeVar

Argument = TypeVar("Argument")
Returned = TypeVar("Returned")


class InProcess(Executor):
    """Runs each task immediately, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the task and return a future that is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class _Pool(Executor):
    """A pool of processes, which is replaced when one of them has died."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool = self._new()

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._jobs, initializer=_follow_parent)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a task to the pool."""
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
    """Return an executor of as many processes; one job runs in this process.

    The processes end with the context, at once if it is interrupted or if this process ends.
    """
    if jobs == 1:
        yield InProcess()
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


def run_alone(fn: Callable[[Argument], Returned], argument: Argument) -> Returned:
    """Run a task in a process of its own.

    Raises
    ------
    BrokenExecutor
        when that process dies.
    """
    with ProcessPoolExecutor(1, initializer=_follow_parent) as executor:
        return executor.submit(fn, argument).result()


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _follow_parent() -> None:
    """Ignore interrupts, which the parent process handles, and end when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the parent may have another handler
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_exit_with, args=(parent.sentinel,), daemon=True).start()


def _exit_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
