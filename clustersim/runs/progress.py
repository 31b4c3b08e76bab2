"""Progress of many runs in words: how many, how fast, how long it will take.

On a terminal a bar shows it; elsewhere a line a minute does.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

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
