"""Output of the command line: all text that is printed goes through here."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, TextIO

from clustersim.escaping import escaped

if TYPE_CHECKING:
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
