"""Output of a command, through which all text is printed, and the process that prints it.

A process that is terminated tidies up: no half-written folder, no claims in a run cache.  With
`clustersim run NAME | head -3` all files are written although the reader of the pipe has ended.
"""

import io
import os
import platform
import re
import shlex
import signal
import sys
import traceback
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Final, TextIO

from clustersim.escaping import escaped

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from clustersim.render.tables import ResultTable

WIDTH: Final = 160
"""Columns of tables in a file or a pipe, which have no width."""


def echo(*texts: object, sep: str = " ", end: str = "\n", file: TextIO | None = None) -> None:
    """Print texts, with control characters other than line breaks as escapes."""
    print(escaped(sep.join(map(str, texts)), keep="\n\t"), end=end, file=file or sys.stdout)


def message_of(error: Exception, words: Sequence[str]) -> str:
    r"""Return a message in which no word of the command line begins a line of its own.

    >>> print(message_of(ValueError("no\nsuch: no file"), ["run", "no\nsuch"]))
    no\nsuch: no file
    """
    message = escaped(str(error), keep="\n")
    for word in words:
        for part in (word, word.partition("=")[2]):
            if "\n" in part:
                message = message.replace(escaped(part, keep="\n"), escaped(part))
    return message


def printable_options(words: Sequence[str]) -> list[str]:
    """Return a command line whose options, which errors of usage repeat, are printable."""
    return [escaped(word, keep="\n\t") if word.startswith("-") else word for word in words]


VALUE_PROBLEMS: Final = {
    r"Input should be a valid integer.*": "must be a whole number",
    r"Input should be a valid number.*": "must be a number",
    r"Input should be greater than or equal to": "must be at least",
    r"Input should be less than or equal to": "must be at most",
}
"""Beginnings of messages of the library that reads command lines, and ours."""


def value_problem(names: Sequence[str], words: Sequence[str], message: str) -> str:
    """Return why the value of an option is invalid, in a line.

    >>> problem = "Input should be greater than or equal to 1"
    >>> value_problem(["--nodes"], ["run", "a", "--nodes", "0"], problem)
    '--nodes 0: must be at least 1'
    """
    both = [*zip(words, [*words[1:], ""], strict=True)]
    joined = (word.split("=", 1) for word in words if "=" in word)
    value = next((value for name, value in (*both, *joined) if name in names), "")
    for theirs, ours in VALUE_PROBLEMS.items():
        message = re.sub(theirs, ours, message)
    return f"{names[-1]} {value}: {message}"


def print_tables(tables: "Iterable[tuple[ResultTable, list[tuple[str, ...]]]]") -> None:
    """Print tables, as wide as the terminal or a page."""
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    for table, rows in tables:
        grid = Table(title=table.title, title_justify="left")
        for heading in table.headings:
            number = heading.startswith(">")
            grid.add_column(heading.lstrip(">"), justify="right" if number else "left")
        for row in rows:
            grid.add_row(*map(escaped, row))
        console.print(grid)


# --- the process ---------------------------------------------------------------------------------

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


VERBOSE: Final = ("-v", "--verbose")
"""Options that show the traceback of a fault, at any place of a command line."""

TRACEBACK: Final = "CLUSTERSIM_TRACEBACK"
"""Environment variable with the same effect, if it is not empty."""

MOST_LETTERS: Final = 1_000
"""Maximum length of the command and of the description of a fault."""


def without_verbose(arguments: Sequence[str]) -> list[str]:
    """Return a command line without the options `VERBOSE`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [word for word in arguments[:end] if word not in VERBOSE]
    return [*kept, *arguments[end:]]


def describe(fault: BaseException, arguments: Sequence[str], *, verbose: bool) -> str:
    """Return the message of a fault, after its traceback where `verbose` requests it.

    >>> print(describe(ValueError("x"), ["run", "a"], verbose=False).partition(" (")[0])
    internal error: ValueError: x
    """
    from clustersim import __version__

    trace = traceback.format_exception(fault) if verbose or os.environ.get(TRACEBACK) else []
    text = " ".join(str(fault).split())
    versions = f"clustersim {__version__}, Python {platform.python_version()}, {sys.platform}"
    hint = "" if trace else "; -v shows the traceback"
    return (
        f"{''.join(trace)}internal error: {_cut(f'{type(fault).__name__}: {text}')}"
        f" (please report it with {versions} and the command{hint})\n"
        f"command: {_cut(shlex.join(['clustersim', *arguments]))}"
    )


def _cut(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}..."
