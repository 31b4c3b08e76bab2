"""Where tasks run: in this process, in local processes, or on the workers of a Dask cluster."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from clustersim.errors import ScenarioError
from clustersim.runs.workers import InProcess, Workers

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

Argument = TypeVar("Argument")
Returned = TypeVar("Returned")


MANY: Final = 2**31
"""More tasks than any study has."""


class _Pool(Workers):
    """A pool of processes, which is replaced when one of them has died."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool = self._new()

    @property
    def capacity(self) -> int:
        """One task more than processes."""
        return self._jobs + 1

    def _new(self) -> "ProcessPoolExecutor":
        return _processes(self._jobs)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a task to the pool."""
        try:
            return self._pool.submit(fn, *args, **kwargs)
        except BrokenExecutor:
            self._pool.shutdown()
            self._pool = self._new()
            return self._pool.submit(fn, *args, **kwargs)

    def abandon(self) -> None:
        """End the tasks that are running, with their processes."""
        for process in list(self._pool._processes.values()):
            process.terminate()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes."""
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


def _processes(jobs: int) -> "ProcessPoolExecutor":
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(jobs, initializer=follow_parent)


def _has_processes() -> bool:
    """Return whether this Python can start processes, which in a browser it cannot."""
    try:
        from concurrent.futures import ProcessPoolExecutor  # noqa: F401
    except ImportError:
        return False
    return True


@contextmanager
def workers(
    jobs: int | None = None,
    *,
    tasks: int = MANY,
    executor: str | None = None,
    endable: bool = False,
) -> Iterator[Workers]:
    """Return the workers of a study, which end with the context.

    Local processes end at once if the context is interrupted or if this process ends.

    Parameters
    ----------
    jobs : number of local processes, of which one is this process; one per core if None, and this
        process alone where Python has no others
    tasks : their number, beyond which no process is started
    executor : address of a Dask cluster, instead of local processes
    endable : whether no task runs in this process, so that `abandon` can end all of them

    Raises
    ------
    ScenarioError
        when there is no such cluster, or its workers have another version of clustersim; when
        several processes are requested where Python has none.
    """
    if executor is not None:
        from clustersim.runs.dask_cluster import dask_workers

        if jobs is not None:
            raise ScenarioError("executor: excludes a number of jobs (leave out one or the other)")
        with dask_workers(executor) as cluster:
            yield cluster
        return
    if not _has_processes():
        if jobs is not None and jobs > 1:
            raise ScenarioError(f"jobs: {jobs}: this Python cannot start processes (leave it out)")
        jobs, endable = 1, False
    jobs = min(jobs or cores(), max(tasks, 1))
    if jobs == 1 and not endable:
        yield InProcess()
        return
    pool = _Pool(jobs)
    try:
        yield pool
    except BaseException:
        pool.abandon()
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def run_alone(fn: Callable[[Argument], Returned], argument: Argument) -> Returned:
    """Run a task in a process of its own.

    Raises
    ------
    BrokenExecutor
        when that process dies.
    """
    with _processes(1) as executor:
        return executor.submit(fn, argument).result()


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def follow_parent() -> None:
    """Ignore interrupts, which the parent process handles, and end when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the parent may have another handler
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_exit_with, args=(parent.sentinel,), daemon=True).start()


def _exit_with(sentinel: int) -> None:
    from multiprocessing.connection import wait

    wait([sentinel])
    os._exit(1)
