"""A page as plain data, and the file that it becomes.

    Page -- Section -- Cards      numbers in large letters
                    -- Table      with a text box that filters its rows, if it is long
                    -- Chart      a plotly figure as a plain dict, with words and a table for it
                    -- Drawing    boxes and lines, with the same
                    -- Folds      tables that the reader opens, with a text box for all of them
                    -- Listing    text as it stands in a file

Every text is plain text: the template escapes it, and `label` what plotly would interpret.
The file may load nothing and run nothing but the two scripts whose hashes its policy names.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from clustersim import __version__
from clustersim.escaping import escaped
from clustersim.records import dataclass
from clustersim.render.charts.picture import Table
from clustersim.render.palette import DARK, LIGHT

if TYPE_CHECKING:
    from jinja2 import BytecodeCache, Environment

HERE: Final = Path(__file__).parent

LONG_KEY: Final = 20
"""Letters of a key that may take several lines."""

LONG_WORD: Final = 30
"""Letters of a word within a text that may take several lines."""

WIDE: Final = 12
"""Columns of a table that is set closely, to fit the screen or a sheet of paper."""

FILTERED: Final = 10
"""Rows from which a table has its text box; fewer are seen at once."""

LEGIBLE: Final = 10.0
"""Size of the smallest letters of a drawing [px]."""


class Card(NamedTuple):
    """A number in large letters, with its label and a remark.

    A `warning` is highlighted, and so is, in a colour of its own, a `caution`.
    """

    label: str
    value: str
    note: str = ""
    warning: bool = False
    caution: bool = False


class Swatch(NamedTuple):
    """A colour of a chart, as the palette names it, and what it means; a dashed one is a line."""

    name: str
    colour: str
    style: str = "filled"


@dataclass(frozen=True)
class Cards:
    """Numbers side by side, the first of them the answer; `equal` ones have the same size."""

    kind: ClassVar = "cards"
    cards: tuple[Card, ...]
    equal: bool = False


@dataclass(frozen=True)
class Chart:
    """A plotly figure with its alternative text and the table of its values.

    Attributes
    ----------
    title : the finding
    figure : ``data`` and ``layout``; colours are ``var(--name)`` of the palette
    description : what a person hears who does not see it
    height : in sixteenths of the height of a letter, which grow with the window
    swatches : the legend
    note : below it: what is drawn of how much
    zoom : whether time runs across and can be zoomed into
    """

    kind: ClassVar = "chart"
    title: str
    figure: dict[str, Any]
    description: str
    table: Table
    height: int
    swatches: tuple[Swatch, ...] = ()
    note: str = ""
    zoom: bool = False


class Shape(NamedTuple):
    """A rectangle around `x`, `y` with a name [px, down]."""

    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]
    size: float
    colour: str


class Line(NamedTuple):
    """A line along points ``x,y x,y`` [px], with a text for the pointer."""

    points: str
    width: float
    colour: str
    text: str


class Word(NamedTuple):
    """Words on a drawing; `anchor` is start, middle or end."""

    x: float
    y: float
    text: str
    size: float
    anchor: str = "middle"
    bold: bool = False


@dataclass(frozen=True)
class Drawing:
    """Boxes and lines with their alternative text and the table of their values.

    Attributes
    ----------
    extent : left, top, width and height of what is shown [px]
    """

    kind: ClassVar = "drawing"
    title: str
    description: str
    extent: tuple[float, float, float, float]
    lines: tuple[Line, ...]
    shapes: tuple[Shape, ...]
    words: tuple[Word, ...]
    table: Table
    swatches: tuple[Swatch, ...] = ()
    note: str = ""

    @property
    def legible(self) -> float:
        """The least width at which all words can be read; a smaller window scrolls it [px]."""
        sizes = [*(word.size for word in self.words), *(shape.size for shape in self.shapes)]
        return self.extent[2] * min(1.0, LEGIBLE / min(sizes, default=LEGIBLE))


@dataclass(frozen=True)
class Listing:
    """The text of a file, folded until the reader opens it."""

    kind: ClassVar = "listing"
    title: str
    text: str


@dataclass(frozen=True)
class Folds:
    """Tables behind their captions; `filter` labels the text box that finds rows in all of them."""

    kind: ClassVar = "folds"
    filter: str
    tables: tuple[Table, ...]


Block = Cards | Table | Chart | Drawing | Folds | Listing


@dataclass(frozen=True)
class Section:
    """A part of a page that the contents list names; `id` is its anchor."""

    heading: str
    id: str
    prose: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Page:
    """All that a file shows; `command` made it.  A section without contents is left out."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    command: str = ""

    def __post_init__(self) -> None:
        """Leave out sections of which only the heading would be seen."""
        sections = tuple(each for each in self.sections if each.prose or each.blocks)
        object.__setattr__(self, "sections", sections)


def render(page: Page) -> str:
    """Return a page as one HTML file that needs nothing else; the same page, the same bytes."""
    from markupsafe import Markup

    scripts = _scripts()
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            version=__version__,
            light=LIGHT,
            dark=DARK,
            style=Markup(_text("page.css")),
            scripts=[Markup(each.text) for each in scripts],
            hashes=[each.hash for each in scripts],
        )
    )


def render_sections(page: Page) -> str:
    """Return the sections of a page as HTML, for a document that has its style and scripts."""
    return str(environment().get_template("blocks.html.j2").module.sections(page))  # type: ignore[attr-defined]


def page_style() -> str:
    """Return the style of all pages, with the colours of the palette."""
    palette = environment().get_template("blocks.html.j2").module.palette(LIGHT, DARK)  # type: ignore[attr-defined]
    return f"{palette}{_text('page.css')}"


def page_scripts() -> tuple[str, ...]:
    """Return the scripts of all pages: the library that draws, and what runs their controls."""
    return tuple(script.text for script in _scripts())


def summary_html(page: Page, charts: Sequence[str], tables: Sequence[str]) -> str:
    """Return the first section of a page for a notebook, with the names of charts and tables."""
    template = environment().get_template("notebook.html.j2")
    return template.render(page=page, charts=charts, tables=tables)


def write_page(page: Page, stem: Path) -> None:
    """Write a page as ``stem.html``."""
    stem.with_suffix(".html").write_text(render(page), encoding="utf-8")


@cache
def environment(folder: Path = HERE) -> "Environment":
    """Return the templates of pages and those of a folder; all that is put in is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([folder, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
        bytecode_cache=_compiled_templates(),
    )
    environment.filters |= {"units": with_units, "key": _breakable, "words": _breakable_words}
    environment.globals |= {"wide": WIDE, "filtered": FILTERED}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment


def _compiled_templates() -> "BytecodeCache | None":
    """Return where compiled templates are kept, by their text: the user's temporary folder.

    Without it, or where others may write to it, they are compiled each time, which takes 60 ms.
    """
    from jinja2 import FileSystemBytecodeCache

    try:
        return FileSystemBytecodeCache()
    except (OSError, RuntimeError):
        return None


_UNIT: Final = re.compile(
    r"(?<=\d) (?=(?:%|[kMGTPE]?i?B(?:/s)?|[mnu]?s|min|[hd]|[kMG]?[WJ]|[TP]FLOP/s|tokens/s)(?!\w))"
)
"""The space between a number and its unit."""


def with_units(text: str) -> str:
    r"""Return a text in which no line ends between a number and its unit; commands stay as typed.

    >>> with_units("4.0 % of 80 GiB") == "4.0\xa0% of 80\xa0GiB"
    True
    """
    return text if "--" in text else _UNIT.sub("\xa0", text)


def _breakable(key: str) -> str:
    """Return a key, which if it is long may be broken where its words end, never within one."""
    from markupsafe import Markup, escape

    if len(key) <= LONG_KEY:
        return key
    parts = re.split(r"(?<=[._/\[>])(?=\w)", str(_printable(key)))
    return Markup("<wbr>").join(map(escape, parts))


def _breakable_words(text: str) -> str:
    """Return a text whose long words may be broken as keys.

    A name of 70 letters is wider than a narrow screen, and takes all lines of its column off it.
    """
    from markupsafe import Markup

    words = text.split(" ")
    if all(len(word) <= LONG_WORD for word in words):
        return text
    parts = (_breakable(word) if len(word) > LONG_WORD else word for word in words)
    return Markup(" ").join(parts)


def _printable(value: object) -> object:
    """Return a text that is put into the page with its control characters as escapes."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return escaped(value, keep="\n\t")


class Script(NamedTuple):
    """A script, and what a content security policy calls it by."""

    text: str
    hash: str


@cache
def _scripts() -> tuple[Script, ...]:
    """Return the library that draws, its lines ended as a browser ends them, and our own."""
    from plotly.offline import get_plotlyjs

    library = str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")
    return tuple(Script(text, _hash(text)) for text in (library, _text("page.js")))


def _text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    assert "</script" not in script
    assert "<!--" not in script
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
