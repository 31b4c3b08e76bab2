"""The file that is imported: read with limits, and able to say where something is wrong in it."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from clustersim.catalog.reading import Place, shown
from clustersim.errors import CatalogError

MOST_BYTES: Final = 16 * 1000**2
"""Largest file that is read [B]; a dump of a node is below 1 MB, of a large fabric a few."""

MOST_LINES: Final = 1_000_000
_MOST_LETTERS: Final = 300


@dataclass(frozen=True)
class Source:
    """A text file as the user named it.

    Attributes
    ----------
    file : the path as an error message shows it
    text : everything in it
    """

    file: str
    text: str

    @cached_property
    def lines(self) -> list[tuple[int, str]]:
        """The lines with their numbers, from 1."""
        return [(number, line.rstrip("\r")) for number, line in enumerate(self.text.split("\n"), 1)]

    def wrong(self, line: int | None, problem: str) -> CatalogError:
        """Return the complaint about a line of the file, itself one line whatever it quotes."""
        plain = "".join(letter if letter.isprintable() else "?" for letter in problem)
        short = plain if len(plain) <= _MOST_LETTERS else f"{plain[:_MOST_LETTERS]}..."
        return CatalogError(f"{Place(self.file, line)}: {short}")


def read_source(path: Path) -> Source:
    """Read a text file of at most `MOST_BYTES`.

    Raises
    ------
    CatalogError
        when it is not there, too large, empty, or not text.
    """
    file = shown(path)
    try:
        with path.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except OSError as problem:
        raise CatalogError(f"{file}: cannot be read ({problem.strerror})") from None
    except ValueError:
        raise CatalogError(f"{file!r}: is not the name of a file") from None
    return as_source(file, content)


def as_source(file: str, content: bytes) -> Source:
    """Return the bytes of a file as text; errors as in `read_source`."""
    if len(content) > MOST_BYTES:
        raise CatalogError(f"{file}: is larger than {MOST_BYTES // 1000**2} MB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise CatalogError(f"{Place(file, line)}: is not UTF-8 text") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise CatalogError(f"{Place(file, line)}: is binary, not text")
    if text.count("\n") > MOST_LINES:
        raise CatalogError(f"{file}: has more than {MOST_LINES:,} lines")
    if not text.strip():
        raise CatalogError(f"{file}: is empty")
    return Source(file, text)
