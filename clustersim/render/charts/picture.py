"""What all pictures have: a title that states the finding, words, axes, the values behind them."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import ClassVar, Final, Literal, NamedTuple, TypeVar, cast

from clustersim.escaping import escaped
from clustersim.records import dataclass

Value = TypeVar("Value")

MAXIMUM: Final = 1_000
"""Rows of the table behind a chart."""

SENTENCE: Final = 32
"""Letters of a cell that is a sentence, which a narrow column would make a tower of words."""

WORD: Final = 22
"""Letters of a cell that is not broken where there is room."""

PHRASE: Final = 16
"""The same of a cell of several words."""

Cell = str | float | None
"""A value of a picture: a number or a word; None where there is none."""


class Column(NamedTuple):
    """A column of a table; numbers are aligned to the right."""

    name: str
    number: bool = False


@dataclass(frozen=True)
class Table:
    """A table of a page; the first cell of a row names the row.

    Attributes
    ----------
    filter : label of the text box that filters the rows; no box without it
    sorts : whether the headings sort the rows, as they do next to a text box
    """

    kind: ClassVar = "table"
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    filter: str = ""
    sorts: bool = False

    @property
    def sortable(self) -> bool:
        """Whether the headings sort the rows."""
        return self.sorts or bool(self.filter)

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def styles(self) -> tuple[str, ...]:
        """How each column is set: numbers, sentences, or words that stay on one line."""
        if not self.rows:
            return ("",) * len(self.columns)
        return tuple(
            "number" if column.number else _style(cells)
            for column, cells in zip(self.columns, zip(*self.rows, strict=True), strict=True)
        )


def _style(cells: Sequence[str]) -> str:
    longest = max(map(len, cells))
    if longest > SENTENCE:
        return "text"
    phrase = any(" " in cell and len(cell) > PHRASE for cell in cells)
    return "word" if longest <= WORD and not phrase else ""


def text_table(
    caption: str, names: Sequence[str], rows: Iterable[Sequence[str]], filter: str = ""
) -> Table:
    """Return a table of texts without empty columns; ``>`` is before the name of one of numbers."""
    lines = [*rows]
    used = [i for i in range(len(names)) if not lines or any(line[i] for line in lines)]
    columns = tuple(Column(names[i].removeprefix(">"), names[i].startswith(">")) for i in used)
    return Table(caption, columns, tuple(tuple(line[i] for i in used) for line in lines), filter)


@dataclass(frozen=True)
class Axis:
    """One axis of a picture.

    Attributes
    ----------
    log : base of a logarithmic axis; 0 where it is linear
    ticks : places with their labels; chosen by the back end where there are none
    limits : first and last value that are visible; chosen by the back end where there are none
    zero : whether the axis begins at 0
    """

    label: str
    unit: str = ""
    log: int = 0
    ticks: tuple[tuple[float, str], ...] = ()
    limits: tuple[float, float] | None = None
    zero: bool = False

    @property
    def title(self) -> str:
        """The label with its unit: ``'time of a step [s]'``."""
        return f"{self.label} [{self.unit}]" if self.unit else self.label


def named_places(label: str, names: Sequence[str]) -> Axis:
    """Return an axis with a name at each of 0, 1, 2 and so on."""
    return Axis(label, ticks=tuple((float(i), name) for i, name in enumerate(names)))


Style = Literal["filled", "framed", "hatched", "dashed"]
"""How an entry of a legend is drawn; a dashed one is a line."""


class Entry(NamedTuple):
    """An entry of a legend: a colour of the palette and its meaning."""

    name: str
    colour: str
    style: Style = "filled"


@dataclass(frozen=True, kw_only=True)
class Picture:
    """What a chart shows; each kind adds its values.

    Attributes
    ----------
    title : the finding, as a sentence without a full stop
    caption : the scenario and the conditions; a figure adds the version
    description : the alternative text, for readers who do not see the picture
    note : how the picture is read, as a sentence
    contents : caption of the table of its values
    """

    title: str
    caption: str = ""
    description: str = ""
    note: str = ""
    contents: str = "values of the chart"

    @abstractmethod
    def rows(self) -> Iterator[Sequence[Cell]]:
        """Yield the values behind the picture line by line, their headings first."""

    def legend(self) -> list[Entry]:
        """Return what the colours mean; lines explain themselves next to their names."""
        return []

    def table(self) -> Table:
        """Return the values as a table of a page."""
        return table_of(self.contents, self.rows())


class Stacked(NamedTuple):
    """Pictures of one figure, one above the other, below the headline of the figure."""

    headline: str
    pictures: tuple[Picture, ...]


Drawn = Picture | Sequence[Picture] | Stacked
"""What a figure shows: a picture, or several one above the other."""


def stacked(drawn: Drawn) -> Stacked:
    """Return what a figure shows as pictures one above the other."""
    if isinstance(drawn, Stacked):
        return drawn
    return Stacked("", (drawn,) if isinstance(drawn, Picture) else (*drawn,))


def printable(value: Value) -> Value:
    """Return a picture, or a part of one, whose texts have control characters as escapes."""
    if isinstance(value, str):
        return cast("Value", escaped(value, keep="\n"))
    if isinstance(value, list):
        return cast("Value", [printable(item) for item in value])
    if isinstance(value, tuple):
        items = [printable(item) for item in value]
        return cast("Value", type(value)(*items) if hasattr(value, "_fields") else tuple(items))
    if isinstance(value, dict):
        return cast("Value", {printable(key): printable(value[key]) for key in value})
    if is_dataclass(value) and not isinstance(value, type):
        texts = {field.name: printable(getattr(value, field.name)) for field in fields(value)}
        return replace(value, **texts)
    return value


def table_of(caption: str, rows: Iterable[Sequence[Cell]]) -> Table:
    """Return lines of cells as a table of a page, their headings first.

    Numbers have six digits, and a long table is cut short.
    """
    head, *lines = rows
    cut = f", {MAXIMUM:,} of {len(lines):,}" if len(lines) > MAXIMUM else ""
    lines = lines[:MAXIMUM]
    numbers = [
        bool(lines) and not any(isinstance(cell, str) for cell in column)
        for column in zip(*lines, strict=True)
    ] or [False] * len(head)
    columns = tuple(Column(str(name), number) for name, number in zip(head, numbers, strict=True))
    return Table(f"{caption}{cut}", columns, tuple(tuple(map(format_cell, line)) for line in lines))


def format_cell(cell: Cell) -> str:
    """Return a cell as text: counts with commas, other numbers to six digits.

    >>> format_cell(1024), format_cell(0.12345678), format_cell(None)
    ('1,024', '0.123457', '')
    """
    if cell is None or isinstance(cell, str):
        return cell or ""
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:,.6g}"
