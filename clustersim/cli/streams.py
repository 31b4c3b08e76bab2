"""Standard output that outlives its reader: `clustersim run NAME | head -3` leaves all its files.

What cannot be encoded for the reader is shown as a question mark, and one who is not there at all
is no reason to stop either.  A disk that is full is.
"""

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Outliving(io.FileIO):
    """A file that takes what nobody reads any more."""

    def write(self, data: "ReadableBuffer") -> int:
        """Write, and count as written what the reader has gone away from."""
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes


def outlive_readers() -> None:
    """Make standard output and errors of this process take whatever is written."""
    sys.stdout = _there(sys.stdout, 1)
    sys.stderr = _there(sys.stderr, 2)


def _there(stream: TextIO | None, number: int) -> TextIO:
    if stream is None:  # closed by the shell: the number may be that of another file by now
        return open(os.devnull, "w", encoding="utf-8")
    if stream.isatty():
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(_Outliving(number, "wb", closefd=False)),
        encoding=stream.encoding,
        errors="replace",
        line_buffering=bool(stream.line_buffering),
    )


__all__ = ["outlive_readers"]
