"""XML read without trust: no entities, no document type, bounded depth and number of elements.

Expat expands what a document type declares, which is how a file of a kilobyte becomes gigabytes or
reads other files.  Topology files need none of it, so the first such declaration is refused.
"""

from dataclasses import dataclass, field
from typing import Final, NoReturn
from xml.parsers import expat

from clustersim.topology.importers.source import Source

MOST_DEPTH: Final = 64
MOST_ELEMENTS: Final = 100_000


@dataclass
class Element:
    """An XML element: its name, attributes, the line it begins on, and the elements inside."""

    tag: str
    line: int
    attributes: dict[str, str]
    children: list["Element"] = field(default_factory=list)

    def get(self, name: str, otherwise: str = "") -> str:
        """Return an attribute without white space around it."""
        return self.attributes.get(name, otherwise).strip()

    def all(self, tag: str) -> list["Element"]:
        """Return the elements directly inside that have this name."""
        return [child for child in self.children if child.tag == tag]


class _Builder:
    """Builds the tree from expat's events and stops at the first thing that is not allowed."""

    def __init__(self, source: Source) -> None:
        self.source = source
        # The text is UTF-8 by now, whatever the first line declares.
        self.parser = expat.ParserCreate("utf-8")
        self.open: list[Element] = []
        self.root: Element | None = None
        self.count = 0
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.StartDoctypeDeclHandler = self.refuse
        self.parser.EntityDeclHandler = self.refuse
        self.parser.ExternalEntityRefHandler = self.refuse

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

    def refuse(self, *declaration: object) -> NoReturn:
        raise self.source.wrong(
            self.parser.CurrentLineNumber,
            "declares a document type or an entity, which is not allowed (take the lines out)",
        )


def parse_xml(source: Source) -> Element:
    """Return the root element of an XML file.

    Raises
    ------
    CatalogError
        with the line, when it is no XML, cut off, too deep or too large, or declares entities.
    """
    builder = _Builder(source)
    try:
        builder.parser.Parse(source.text.encode("utf-8"), True)
    except expat.ExpatError as problem:
        reason = expat.ErrorString(problem.code)
        inside = f" (inside <{builder.open[-1].tag}>)" if builder.open else ""
        raise source.wrong(problem.lineno, f"is not valid XML: {reason}{inside}") from None
    assert builder.root is not None
    return builder.root
