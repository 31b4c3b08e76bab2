"""A second process that draws, so that importing matplotlib happens during the replay.

    this process    start ---- import, load, replay ---- send ---- write tables ---- wait
    render process     `-- import matplotlib, warm up ... wait ...`-- draw --------'

Without a second core, or if the second process cannot start or fails, this process draws.

It is one spawned process with a pipe.  A pool of `concurrent.futures` sends from a thread, which
waits for the interpreter whenever this process computes; a fork server keeps standard output open
while it imports, also after a command has ended with an error.
"""

import gc
import io
import os
import pickle
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess


class Drawing(NamedTuple):
    """A file to write: the function that draws, the value that is drawn, the path."""

    draw: Callable[[Any, Path], None]
    value: Any
    path: Path

    def make(self) -> None:
        """Draw it."""
        self.draw(self.value, self.path)


class RenderProcess:
    """Draws files in a second process; a context manager, which leaves no process running.

    Parameters
    ----------
    warm_up : called in the second process while it waits: slow imports, fonts, templates
    """

    def __init__(self, *warm_up: Callable[[], None]) -> None:
        self._process: BaseProcess | None = None
        self._drawings: Sequence[Drawing] = ()
        if _cores() > 1:
            with suppress(OSError):  # no further process is allowed
                self._connection, self._process = _start(warm_up)

    def begin(self, drawings: Sequence[Drawing]) -> None:
        """Send the drawings to the second process, without waiting for the files."""
        self._drawings = drawings
        if self._process is not None:
            with suppress(OSError):  # a process that has died is noticed by `finish`
                self._connection.send_bytes(pickle.dumps(drawings, pickle.HIGHEST_PROTOCOL))

    def finish(self) -> None:
        """Wait until all files are written; write them here if the second process could not."""
        if not self._has_drawn():
            for drawing in self._drawings:
                drawing.make()

    def _has_drawn(self) -> bool:
        if self._process is None:
            return False
        try:
            return bool(self._connection.recv())
        except (EOFError, OSError):
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.kill()  # ending normally would take longer
            self._process.join()
            self._connection.close()


def _start(warm_up: Sequence[Callable[[], None]]) -> "tuple[Connection, BaseProcess]":
    """Start the second process, which ignores interrupts: they are for this process."""
    import multiprocessing  # not in a browser, where no figure needs a second process

    context = multiprocessing.get_context("spawn")
    connection, other_end = context.Pipe()
    process = context.Process(target=_work, args=(other_end, warm_up), daemon=True)
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, handler)
    other_end.close()
    return connection, process


def _cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _work(connection: "Connection", warm_up: Sequence[Callable[[], None]]) -> None:
    """Draw what arrives on a connection, and send whether that succeeded.

    The connection is read in a thread from the start, so that the sender never waits for the
    warm-up.  Errors are not printed: the sender repeats what failed, and reports it.
    """
    gc.disable()
    with redirect_stderr(io.StringIO()), ThreadPoolExecutor(1) as reader:
        message = reader.submit(connection.recv_bytes)
        try:
            for prepare in warm_up:
                prepare()
            for drawing in pickle.loads(message.result()):
                drawing.make()
        except Exception:
            connection.send(False)
        else:
            connection.send(True)
