"""Files to import: text with size limits and located errors, and XML without entities.

Expat expands what a document type declares, which is how a file of a kilobyte becomes gigabytes or
reads other files.  Topology files need none of it, so the first such declaration is an error.
"""

import re
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Final, NoReturn
from xml.parsers import expat

from clustersim.catalog.files import read_bytes, shown
from clustersim.catalog.reading import Place
from clustersim.errors import CatalogError
from clustersim.records import dataclass

MOST_BYTES: Final = 16 * 1000**2
"""Size limit of a file [B]; a dump of a node is below 1 MB, of a large fabric a few MB."""

MOST_LINES: Final = 1_000_000
_MOST_LETTERS: Final = 300


@dataclass(frozen=True)
class Source:
    """A text file.

    Attributes
    ----------
    file : the path as shown in error messages
    text : its content
    """

    file: str
    text: str

    @cached_property
    def lines(self) -> list[tuple[int, str]]:
        """The lines with their numbers, from 1."""
        return [(number, line.rstrip("\r")) for number, line in enumerate(self.text.split("\n"), 1)]

    def wrong(self, line: int | None, problem: str) -> CatalogError:
        """Return the error about a line of the file, as one line of limited length."""
        plain = "".join(letter if letter.isprintable() else "?" for letter in problem)
        short = plain if len(plain) <= _MOST_LETTERS else f"{plain[:_MOST_LETTERS]}..."
        return CatalogError(f"{Place(self.file, line)}: {short}")


def read_source(path: Path) -> Source:
    """Read a text file of at most `MOST_BYTES`.

    Raises
    ------
    CatalogError
        when it is missing, too large, empty, or not text.
    """
    return as_source(shown(path), read_bytes(path, CatalogError, most=MOST_BYTES))


def named_source(source: Source, name: str) -> Source | None:
    """Return the file that another one names, next to it or in the working folder, if it exists.

    Raises
    ------
    CatalogError
        as `read_source`, when it exists.
    """
    paths = (Path(source.file).parent / name, Path(name))
    path = next((path for path in paths if path.is_file()), None)
    return None if path is None else read_source(path)


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


MOST_DEPTH: Final = 64
MOST_ELEMENTS: Final = 100_000


@dataclass
class Element:
    """An XML element: its name, line, attributes, child elements and pieces of text."""

    tag: str
    line: int
    attributes: dict[str, str]
    children: list["Element"] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    def get(self, name: str, otherwise: str = "") -> str:
        """Return an attribute without surrounding white space."""
        return self.attributes.get(name, otherwise).strip()

    def all(self, tag: str) -> list["Element"]:
        """Return the child elements of this name."""
        return [child for child in self.children if child.tag == tag]

    def words(self) -> list[str]:
        """Return the words of its text."""
        return "".join(self.pieces).split()


class _Builder:
    """Builds the tree from expat's events and stops at the first error."""

    def __init__(self, source: Source, *, doctype: bool) -> None:
        self.source = source
        self.doctype = doctype
        # The text is UTF-8 regardless of the encoding in its declaration.
        self.parser = expat.ParserCreate("utf-8")
        self.open: list[Element] = []
        self.root: Element | None = None
        self.count = 0
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.text
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self.declare
        self.parser.EntityDeclHandler = self.reject
        self.parser.ExternalEntityRefHandler = self.reject

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        self.count += 1
        if self.count > MOST_ELEMENTS:
            raise self.source.wrong(line, f"has more than {MOST_ELEMENTS:,} elements")
        if len(self.open) >= MOST_DEPTH:
            raise self.source.wrong(line, f"<{tag}> is nested more than {MOST_DEPTH} levels deep")
        element = Element(tag, line, attributes)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def end(self, tag: str) -> None:
        self.open.pop()

    def text(self, piece: str) -> None:
        self.open[-1].pieces.append(piece)

    def declare(self, name: str, system: str | None, public: str | None, inside: bool) -> None:
        """Reject a document type unless the format has one; a file that it names is not read."""
        if inside or not self.doctype:
            self.reject()

    def reject(self, *declaration: object) -> NoReturn:
        raise self.source.wrong(
            self.parser.CurrentLineNumber,
            "declares a document type or an entity, which is not allowed (remove these lines)",
        )


def parse_xml(source: Source, *, doctype: bool = False) -> Element:
    """Return the root element of an XML file.

    Parameters
    ----------
    doctype : whether the file may name a document type; it may never contain one

    Raises
    ------
    CatalogError
        with the line, when it is not XML, truncated, too deep or too large, or declares entities.
    """
    builder = _Builder(source, doctype=doctype)
    try:
        builder.parser.Parse(source.text.encode("utf-8"), True)
    except expat.ExpatError as problem:
        reason = expat.ErrorString(problem.code)
        inside = f" (inside <{builder.open[-1].tag}>)" if builder.open else ""
        raise source.wrong(problem.lineno, f"is not valid XML: {reason}{inside}") from None
    assert builder.root is not None
    return builder.root


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts names by the numbers in them.

    >>> sorted(["mlx5_10", "mlx5_2"], key=natural)
    ['mlx5_2', 'mlx5_10']
    """
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(int(part[:18]), "") if part[0] in "0123456789" else (-1, part) for part in parts]
