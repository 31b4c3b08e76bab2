"""Progress of many runs in words: how many, how fast, how long it will take.

On a terminal a bar shows it, in a notebook a bar in the output of the cell; elsewhere a line a
minute does.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import field
from html import escape
from typing import Any, Final

from clustersim.records import dataclass
from clustersim.units import format_seconds

EVERY: Final = 60.0
"""Time between two lines where there is no terminal [s]."""


@dataclass
class Pace:
    """The pace of runs since it was made.

    Attributes
    ----------
    verb : of the study
    things : that are counted
    clock : the present time [s]
    """

    verb: str
    things: str = "runs"
    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)
    _printed: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self._printed = self.clock()

    def rate(self, completed: int) -> float:
        """Return the completed runs of a second [1/s]."""
        elapsed = self.clock() - self._began
        return completed / elapsed if elapsed > 0 else 0.0

    def line(self, completed: int, total: int, note: str = "") -> str:
        """Return the progress in a line.

        >>> pace = Pace("sweep", clock=iter([0.0, 60.0]).__next__)
        >>> pace.line(30, 90)
        'sweep: 30 of 90 runs, 0.5 runs/s, 120 s left'
        """
        rate, things = self.rate(completed), self.things
        left = f", {format_seconds((total - completed) / rate, 3)} left" if rate else ""
        count = f"{completed:,} of {total:,} {things}"
        return f"{self.verb}: {count}, {rate:,.1f} {things}/s{left}{note}"

    def due(self) -> bool:
        """Return whether a line is due, which is then printed: one each `EVERY` seconds."""
        now = self.clock()
        if now - self._printed < EVERY:
            return False
        self._printed = now
        return True


def ignore_progress(completed: int, total: int) -> None:
    """Do nothing."""


def usual_progress(verb: str) -> Callable[[int, int], None]:
    """Return what shows the progress of a study that is called without a function for it.

    That is a bar in a notebook, and nothing elsewhere.
    """
    return NotebookBar(Pace(verb)).update if _in_notebook() else ignore_progress


def _in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")


OFTEN: Final = 0.2
"""Time between two changes of a bar in a notebook [s]."""


@dataclass
class NotebookBar:
    """A bar in the output of a cell, which becomes a line at the end.

    Attributes
    ----------
    pace : of the runs, with their names
    """

    pace: Pace
    _handle: Any = field(default=None, init=False)
    _shown: float = field(default=0.0, init=False)

    def update(self, completed: int, total: int, note: str = "") -> None:
        """Show the progress, at most every `OFTEN` seconds and at the end."""
        now = self.pace.clock()
        if completed < total and self._handle is not None and now - self._shown < OFTEN:
            return
        self._shown = now
        line = self.pace.line(completed, total, note)
        if completed >= total:
            line = f"{self.pace.verb}: {total:,} {self.pace.things}{note}"
        bar = f'<progress value="{completed}" max="{total}"></progress> ' * (completed < total)
        self._show({"text/plain": line, "text/html": f"<div>{bar}{escape(line)}</div>"})

    def _show(self, content: dict[str, str]) -> None:
        from IPython.display import display  # of the notebook; clustersim does not need it

        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(content, raw=True)
