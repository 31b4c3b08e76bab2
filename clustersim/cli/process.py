"""The process of a command: it ends in order, and its output outlives the reader.

A process that is terminated tidies up: no half-written folder, no claims in a run cache.  With
`clustersim run NAME | head -3` all files are written although the reader of the pipe has ended.
"""

import io
import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

TERMINATIONS: Final = ("SIGTERM", "SIGHUP")
"""Signals other than an interrupt that terminate a process, where the system has them."""


def end_in_order() -> None:
    """Make terminating signals unwind this process, unless the parent process ignores them."""
    for name in TERMINATIONS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _exit)


def _exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)  # the exit code that shells give a process ended by a signal


def outlive_readers() -> None:
    """Make standard output and error of this process accept writes without a reader.

    Characters that cannot be encoded are written as question marks.  A full disk is an error.
    """
    sys.stdout = _outliving(sys.stdout, 1)
    sys.stderr = _outliving(sys.stderr, 2)


class _OutlivingFile(io.FileIO):
    """A file that drops what is written after its reader has ended."""

    def write(self, data: "ReadableBuffer") -> int:
        """Write, and count bytes without a reader as written."""
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes


def _outliving(stream: TextIO | None, number: int) -> TextIO:
    if stream is None:  # closed by the shell: the number may be that of another file by now
        return open(os.devnull, "w", encoding="utf-8")
    if stream.isatty():
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(_OutlivingFile(number, "wb", closefd=False)),
        encoding=stream.encoding,
        errors="replace",
        line_buffering=bool(stream.line_buffering),
    )
