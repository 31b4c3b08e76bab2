"""Processes that compute answers: a limit on their number, a queue, progress, and an end to each.

request --waits for a free worker--> progress, progress, ... answer
               `--too many wait--> declined     `--too long, or the reader has gone--> worker ended
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from queue import Empty, Queue
from typing import Any, Final, NamedTuple

from clustersim.errors import ClustersimError
from clustersim.records import dataclass
from clustersim.runs.executors import follow_parent

WAITING: Final = 64
"""Requests that may wait for a worker."""

PATIENCE: Final = 60.0
"""Time that a request waits for a worker [s]."""

LONGEST: Final = 180.0
"""Time of an answer, after which its worker is ended [s]."""

LOOK: Final = 0.5
"""Time between two words to the reader, at which one that has gone is noticed [s]."""

PREPARED: Final = (
    "clustersim.explore.choices",
    "clustersim.reports.step.files",
    "clustersim.reports.step.page",
    "clustersim.simulation.step.simulate",
)
"""Modules of the usual answer."""

Task = Callable[[Callable[[str], None], Callable[[], bool]], Any]
"""Computes an answer; takes what reports progress, and whether it is to end."""


class Message(NamedTuple):
    """What a request yields: `progress` in words, then one `answer`, `problem` or `fault`."""

    kind: str
    value: Any


def _work(connection: Connection, stop: Event) -> None:
    """Compute tasks until the connection ends; what they import is imported before the first."""
    follow_parent()
    for name in PREPARED:
        import_module(name)
    while True:
        try:
            task: Task = connection.recv()
        except EOFError:
            return
        connection.send(_result(task, connection, stop))


def _result(task: Task, connection: Connection, stop: Event) -> Message:
    try:
        return Message(
            "answer", task(lambda words: connection.send(Message("progress", words)), stop.is_set)
        )
    except ClustersimError as problem:
        return Message("problem", str(problem))
    except Exception as fault:  # a fault of clustersim, which the page reports as such
        return Message("fault", f"{type(fault).__name__}: {fault}")


@dataclass(eq=False)
class Worker:
    """A process with its connection, which computes one task at a time.

    Attributes
    ----------
    busy : whether it has not finished its task
    """

    process: BaseProcess
    connection: Connection
    stop: Event
    busy: bool = False

    @classmethod
    def started(cls, context: SpawnContext) -> "Worker":
        """Start a process."""
        ours, theirs = context.Pipe()
        stop = context.Event()
        process = context.Process(target=_work, args=(theirs, stop))
        process.start()
        theirs.close()
        return cls(process, ours, stop)

    def messages(self, task: Task, longest: float) -> Iterator[Message]:
        """Yield what a task reports, with an empty word in each `LOOK`, and then its end."""
        self.stop.clear()
        self.busy = True
        end = time.monotonic() + longest
        try:
            self.connection.send(task)
            while time.monotonic() < end:
                if not self.connection.poll(LOOK):
                    yield Message("progress", "")
                    continue
                message: Message = self.connection.recv()
                self.busy = message.kind == "progress"
                yield message
                if not self.busy:
                    return
        except (EOFError, ConnectionError):
            yield Message("fault", "the process that computed the answer died")
            return
        yield Message("problem", f"this took longer than {longest:g} s and was ended")

    def end(self) -> None:
        """End the process, whatever it computes."""
        self.process.terminate()
        self.connection.close()
        self.process.join()


@dataclass
class Pool:
    """Workers that answer requests, each for one of them at a time.

    Attributes
    ----------
    jobs : number of processes
    longest : time of an answer, after which it is ended [s]
    waiting : requests that may wait for a worker
    """

    jobs: int
    longest: float = LONGEST
    waiting: int = WAITING
    _free: "Queue[Worker]" = field(default_factory=Queue)
    _context: SpawnContext = field(default_factory=lambda: get_context("spawn"))
    _places: threading.Semaphore = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _workers: set[Worker] = field(default_factory=set)
    _running: dict[str, Worker] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Start the workers."""
        self._places = threading.Semaphore(self.jobs + self.waiting)
        for _ in range(self.jobs):
            self._free.put(self._started())

    def _started(self) -> Worker:
        worker = Worker.started(self._context)
        self._workers.add(worker)
        return worker

    def messages(self, task: Task, name: str = "") -> Iterator[Message]:
        """Yield the messages of a task; `name` is that by which it can be stopped."""
        if not self._places.acquire(blocking=False):
            yield BUSY
            return
        try:
            with self._worker() as worker:
                if worker is None:
                    yield BUSY
                    return
                self._name(name, worker)
                yield from worker.messages(task, self.longest)
        finally:
            self._name(name, None)
            self._places.release()

    def _name(self, name: str, worker: Worker | None) -> None:
        with self._lock:
            if worker is None:
                self._running.pop(name, None)
            elif name:
                self._running[name] = worker

    def stop(self, name: str) -> bool:
        """End a task with what it has so far; return whether it was running."""
        with self._lock:
            worker = self._running.get(name)
            if worker is not None:
                worker.stop.set()
        return worker is not None

    @contextmanager
    def _worker(self) -> Iterator[Worker | None]:
        """Have a worker, None after a long wait; one that is busy at the end is replaced."""
        try:
            worker = self._free.get(timeout=PATIENCE)
        except Empty:
            yield None
            return
        try:
            yield worker
        finally:
            if worker.busy:
                worker.end()
                self._workers.discard(worker)
            self._free.put(self._started() if worker.busy else worker)

    def close(self) -> None:
        """End all workers."""
        for worker in [*self._workers]:
            worker.end()


BUSY: Final = Message("problem", "too many answers are being computed: try again in a minute")
