"""A process that is told to end tidies up: no half-written folder, no claims left in a store."""

import signal
from types import FrameType
from typing import Final

ENDINGS: Final = ("SIGTERM", "SIGHUP")
"""What asks a process to end beside an interrupt: of these a system has some."""


def end_in_order() -> None:
    """Make requests to end unwind this process, unless whoever started it has them ignored."""
    for name in ENDINGS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)  # as shells tell it of a process that a signal ended


__all__ = ["end_in_order"]
