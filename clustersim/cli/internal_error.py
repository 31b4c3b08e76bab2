"""Faults of clustersim itself: one message to report, with versions and the command."""

import os
import platform
import shlex
import sys
import traceback
from collections.abc import Sequence
from typing import Final

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
