"""What shells send at a TAB, and what they read: a candidate a line, with its help after a tab.

bash sends the line up to the cursor, because it splits words at `=` and `:`, and replaces only the
part after the last of these; zsh and fish send words.
"""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from clustersim.completion.candidates import candidates
from clustersim.escaping import escaped

SPECIAL: Final = re.compile(r"([\s\\\"'`$&|;<>()*?\[\]#!{}])")
"""Characters of file names that bash would interpret."""


def script(shell: str) -> str:
    """Return the script that a shell reads; `shell` is one of `SHELLS`."""
    path = os.path.join(os.path.dirname(__file__), f"clustersim.{shell}")
    with open(path, encoding="utf-8") as file:
        return file.read()


def main(arguments: Sequence[str]) -> None:
    """Print the candidates that a script requests; nothing for a request of another form."""
    shell, *request = [*arguments, ""]
    lines = SHELLS[shell](request[:-1]) if shell in SHELLS else []
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _of_words(words: Sequence[str]) -> list[str]:
    """Return the lines for a shell that sends words."""
    return [
        f"{escaped(text)}\t{help}" if help else escaped(text)
        for text, help in (candidates(words) if words else ())
    ]


def _of_line(request: Sequence[str]) -> list[str]:
    """Return the lines for bash: what replaces the part of a word that it completes.

    Parameters
    ----------
    request : the command line up to the cursor, and the characters at which bash splits words
    """
    line, breaks = [*request, "", ""][:2]
    words, quote = split(line)
    if len(words) < 2:
        return []
    kept = max((words[-1].rfind(mark) + 1 for mark in "=:" if mark in breaks), default=0)
    replies = (escaped(text)[kept:] for text, _ in candidates(words[1:]))
    return [reply if quote else SPECIAL.sub(r"\\\1", reply) for reply in replies]


def split(line: str) -> tuple[list[str], str]:
    r"""Return the words of a command line, and the quote that its last word lacks, if any.

    >>> split("clustersim run 'my f"), split("clustersim run "), split(r"run my\ f")
    ((['clustersim', 'run', 'my f'], "'"), (['clustersim', 'run', ''], ''), (['run', 'my f'], ''))
    """
    import shlex

    for quote in ("", "'", '"'):
        try:
            words = shlex.split(f"{line}{quote}")
        except ValueError:
            continue
        return [*words, ""] if not quote and line[-1:].isspace() else words, quote
    return [], ""


SHELLS: Final[Mapping[str, Callable[[Sequence[str]], list[str]]]] = {
    "bash": _of_line,
    "zsh": _of_words,
    "fish": _of_words,
}
"""Shells, and the function that answers a request of each."""
