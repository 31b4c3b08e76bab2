"""A table of measurements, as JSON and as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Value = str | int | float | None


@dataclass(frozen=True)
class Table:
    """Measurements with a heading.

    Attributes
    ----------
    name : its key in the JSON
    columns : headings, with the unit in brackets
    rows : a value for each column; None where there is none
    note : how it was measured, one sentence a line
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Value]]
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the table as an object: each row by the names of the columns."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"name": self.name, "title": self.title, "note": self.note, "rows": rows}

    def to_markdown(self) -> str:
        """Return the table with its heading and its note."""
        numeric = [all(not isinstance(row[i], str) for row in self.rows) for i in self._places]
        lines = [
            self.columns,
            ["---:" if right else "---" for right in numeric],
            *([text_of(value) for value in row] for row in self.rows),
        ]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n\n".join(filter(None, [f"## {self.title}", self.note, table]))

    @property
    def _places(self) -> range:
        return range(len(self.columns))


def text_of(value: Value) -> str:
    """Return a value with three significant digits, and whole numbers with all.

    >>> text_of(0.012345), text_of(131072), text_of(98765.4), text_of(None)
    ('0.0123', '131,072', '98,800', '')
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, int) or value == 0:
        return f"{value:,}"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"
