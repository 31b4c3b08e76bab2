"""A second process that draws, so that importing matplotlib happens beside the replay.

    this process   start ---- import, load, replay ---- hand over ---- write tables ---- wait
    the artist            `-- import matplotlib, warm up ... wait ... `-- draw the first --'
    a copy of it                                                      `-- draw the second -'

It is a plain child that reads the name of a pickle from its standard input.  A pool of
`concurrent.futures` would import the command line again in the child; a pipe for the pickle itself
would stand still whenever this process computes.  Where no second process can be had, or it fails,
the drawing is done here.
"""

import gc
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self


class Drawing(NamedTuple):
    """A figure or table to be made: by which function, of what, into which files."""

    draw: Callable[[Any, Path], None]
    picture: Any
    stem: Path

    def make(self) -> None:
        """Draw it."""
        self.draw(self.picture, self.stem)


class Artist:
    """Draws figures in a process of its own; a context, which leaves no process behind."""

    def __init__(self) -> None:
        self._child = _start()
        self._drawings: Sequence[Drawing] = ()
        self._order: Path | None = None

    def begin(self, drawings: Sequence[Drawing]) -> None:
        """Hand over what is to be drawn, without waiting for it."""
        assert self._order is None, "an artist draws once"
        self._drawings = drawings
        if self._child is not None:
            number, name = tempfile.mkstemp(prefix="clustersim-", suffix=".pickle")
            self._order = Path(name)
            with open(number, "wb") as file:
                pickle.dump([*drawings], file, protocol=pickle.HIGHEST_PROTOCOL)
            self._say(name)

    def finish(self) -> None:
        """Wait until all is drawn; draw it here if the other process could not."""
        if self._child is not None and self._child.wait() == 0:
            return
        for drawing in self._drawings:
            drawing.make()

    def _say(self, text: str) -> None:
        """Write to the child and close its input; one that is gone has already failed."""
        assert self._child is not None
        assert self._child.stdin is not None
        with suppress(BrokenPipeError), self._child.stdin as stdin:
            stdin.write(text.encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._child is not None:
            if self._child.returncode is None:
                self._child.kill()
            self._child.communicate()
        if self._order is not None:
            self._order.unlink(missing_ok=True)


def _start() -> "subprocess.Popen[bytes] | None":
    """Start the other process; return None where there is no core for it, or no Python."""
    if not sys.executable or _cores() < 2:
        return None
    package = Path(__file__).resolve().parents[2]
    paths = [str(package.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {__name__} import work; work()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # what goes wrong is done again here, and said here
            env=environment,
            start_new_session=True,  # an interrupt is for the parent, which ends this process
        )
    except OSError:
        return None


def _cores() -> int:
    """Return how many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def work() -> None:
    """Draw what standard input names; it names nothing where the parent gave up."""
    gc.disable()  # this process is over before there is garbage to speak of
    from clustersim.render import frames  # what draws
    from clustersim.render.matplotlib import figure as paper
    from clustersim.studies.run import page as of_run

    paper.warm_up()
    frames.warm_up()
    of_run.warm_up()
    if name := sys.stdin.read():
        drawings = pickle.loads(Path(name).read_bytes())
        cores = min(_cores(), len(drawings))  # more copies than cores only get in each other's way
        own, *others = [drawings[first::cores] for first in range(cores)]
        helpers = [_beside(share) for share in others]
        _make(own)
        if any(os.waitpid(helper, 0)[1] for helper in helpers if helper):
            sys.exit(1)


def _beside(drawings: Sequence[Drawing]) -> int | None:
    """Draw in a copy of this process, which has all imports done; return its number.

    Where a process cannot be copied, draw here.
    """
    helper = os.fork() if hasattr(os, "fork") else None
    if helper:
        return helper
    _make(drawings)
    if helper is None:
        return None
    os._exit(0)


def _make(drawings: Sequence[Drawing]) -> None:
    for drawing in drawings:
        drawing.make()


__all__ = ["Artist", "Drawing", "work"]
