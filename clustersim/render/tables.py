"""Answers as text: lines with labels, tables with columns, numbers, settings and metrics."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from clustersim.escaping import escaped

if TYPE_CHECKING:
    from rich.table import Table


WARNING, CAUTION = "bold red", "bold yellow"
"""Styles of highlighted texts on a terminal."""


class Row(NamedTuple):
    """One line of an answer; a `warning` is highlighted, and a `caution` in another colour."""

    label: str
    text: str
    warning: bool = False
    caution: bool = False


LABEL: Final = 12
"""Width of the column of labels, which a longer one widens."""


def _label_width(lines: Sequence[Row]) -> int:
    return max([LABEL, *(len(escaped(row.label)) for row in lines)])


def plain(lines: Sequence[Row]) -> list[str]:
    """Return rows as text, their labels in one column.

    >>> plain([Row("slowest kernel", "attention")])
    ['slowest kernel  attention']
    """
    width = _label_width(lines)
    return [f"{escaped(row.label):<{width}}  {escaped(row.text)}" for row in lines]


def labelled(lines: Sequence[Row]) -> list[tuple[str, str]]:
    """Return labels and texts, those of lines without a label joined to the line above.

    >>> labelled([Row("best", "tensor 2"), Row("", "MFU 38 %")])
    [('best', 'tensor 2; MFU 38 %')]
    """
    joined: list[tuple[str, str]] = []
    for row in lines:
        if row.label or not joined:
            joined.append((row.label, row.text))
        else:
            label, text = joined[-1]
            joined[-1] = label, f"{text}; {row.text}"
    return joined


def table(lines: Sequence[Row]) -> "Table":
    """Return rows for a terminal, which wraps long ones next to their labels."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    grid.add_column(style="bold", no_wrap=True, min_width=_label_width(lines) + 1)
    grid.add_column(overflow="fold")
    for row in lines:
        look = WARNING if row.warning else CAUTION if row.caution else ""
        grid.add_row(escaped(row.label), Text(escaped(row.text), style=look))
    return grid


def files(place: Path, names: Sequence[str]) -> Row:
    """Return the line with the folder of the files, and the names of the page and the figures.

    >>> files(Path("runs/a-whatif"), ["summary.json", "report.html", "waterfall.png"]).text
    'runs/a-whatif/: report.html, waterfall.png and more'
    """
    shown = [name for name in names if name.endswith((".html", ".png"))]
    more = " and more" if len(shown) < len(names) else ""
    return Row("files", f"{place}/: {', '.join(shown)}{more}")


# --- tables with columns --------------------------------------------------------------------------

Cells = Sequence[Sequence[str]]
"""A table: its headings, then its rows."""

Rows = Iterator[tuple[str, ...]]
"""The rows of a table, without its headings."""


class ResultTable(NamedTuple):
    """A table of an answer: its title, its headings (``>`` before those of numbers), its rows."""

    title: str
    headings: tuple[str, ...]
    rows: Callable[[Any], Rows]


def aligned(cells: Cells, words: Collection[str] = ()) -> list[str]:
    """Return a table as lines of text, numbers aligned to the right.

    Parameters
    ----------
    words : headings of the columns that are aligned to the left

    >>> aligned([["step", "link"], ["216 s", "nic"], ["3 s", "xgmi"]], words=["link"])
    [' step  link', '216 s  nic', '  3 s  xgmi']
    """
    if not cells:
        return []
    cells = _escaped(cells)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    columns = [*zip(cells[0], widths, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if name in words else cell.rjust(width)
            for cell, (name, width) in zip(line, columns, strict=True)
        ).rstrip()
        for line in cells
    ]


def _escaped(cells: Cells) -> list[list[str]]:
    return [[escaped(cell) for cell in line] for line in cells]


PIECE: Final = 12
"""Letters of a cell of words up to which it is not wrapped."""


def columned(
    cells: Cells, words: Collection[str] = (), styles: Mapping[str, str] = MappingProxyType({})
) -> "Table":
    """Return a table for a terminal, which wraps words where it is narrow, not numbers.

    Parameters
    ----------
    words : headings of the columns that are aligned to the left
    styles : of cells that are highlighted, by their text
    """
    from rich.table import Table
    from rich.text import Text

    cells, words = _escaped(cells), [*map(escaped, words)]
    made = Table(box=None, padding=(0, 1), pad_edge=False)
    for name in cells[0]:
        left = name in words
        whole = bool(words) and not left
        side: Literal["left", "right"] = "left" if left else "right"
        made.add_column(Text(name), justify=side, no_wrap=whole, overflow="fold")
    for line in cells[1:]:
        looks = [styles.get(cell, "") for cell in line]
        made.add_row(*map(Text, line, looks))
    return made


def narrowest(cells: Cells, words: Collection[str] = ()) -> int:
    """Return the width that a table needs on a terminal: words may be broken, numbers may not.

    >>> narrowest([["step", "link"], ["216 s", "n0.nic0>leaf0"]], words=["link"])
    19
    """
    cells = _escaped(cells)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    needed = [
        min(width, PIECE) if name in words else width
        for name, width in zip(cells[0], widths, strict=True)
    ]
    return sum(needed) + 2 * (len(needed) - 1)


# --- words ----------------------------------------------------------------------------------------


def kind_of(component: str) -> str:
    """Return the kind of a component: compute, communication, optimiser, imbalance or bubble.

    >>> [kind_of(component) for component in ("matmul", "data_communication", "bubble_fill")]
    ['compute', 'communication', 'bubble']
    """
    if component.endswith("communication") or component in ("synchronisation", "host_transfer"):
        return "communication"
    uneven = component in ("disturbance", "waiting_for_slowest")
    kind = "imbalance" if uneven else component.partition("_")[0]
    return kind if kind in ("bubble", "imbalance", "optimiser") else "compute"


_NAMES: Final = {
    "waiting_for_slowest": "waiting for the slowest",
    "bubble_fill": "fill bubble",
    "bubble_steady": "steady-state bubble",
    "bubble_drain": "drain bubble",
}


def words(component: str) -> str:
    """Return the name of a component in words.

    >>> words("pipeline_communication"), words("bubble_fill")
    ('pipeline communication', 'fill bubble')
    """
    return _NAMES.get(component, component.replace("_", " "))


def percent(share: float, sign: str = "") -> str:
    """Return a share in percent, with its sign where `sign` is ``"+"``.

    >>> percent(0.091), percent(0.091, "+"), percent(-1e-5, "+")
    ('9.1 %', '+9.1 %', '0.0 %')
    """
    text = f"{100 * share:{sign}.1f}"
    return f"{text if float(text) else '0.0'} %"


def verdict(fits: float) -> str:
    """Return in words whether a job fits its devices, which is 1 or 0."""
    return "fits" if fits else "does not fit"


def short_keys(keys: Sequence[str]) -> list[str]:
    """Return keys by their last word, in full where two have the same, or it means another thing.

    >>> short_keys(["plan.tensor", "cluster.name"]), short_keys(["a.size", "b.size"])
    (['tensor', 'cluster'], ['a.size', 'b.size'])
    """
    last = [_last_words(key) for key in keys]
    return [word if last.count(word) == 1 else key for key, word in zip(keys, last, strict=True)]


def _last_words(key: str) -> str:
    """Return the last word of a key; of what a host holds also the word before it.

    A name is of what the key in front of it is.
    """
    words = key if key.startswith("offload.") else key.removesuffix(".name").rpartition(".")[2]
    return words.replace("_", " ").replace(".", " ")


def format_setting(value: object) -> str:
    """Return a value as it is written in a scenario.

    >>> format_setting({"tensor": 8, "shard": None, "zero": True}), format_setting(None)
    ('{tensor: 8, shard: null, zero: true}', '-')
    """
    if value is None:
        return "-"
    return _flow(value) if isinstance(value, bool | dict | list) else str(value)


# --- values of catalogue files ----------------------------------------------------------------

LONGEST: Final = 120
"""Characters of a value in a table; a list of cables may have thousands."""


def format_value(value: Any) -> str:
    """Return a plain value as its file has it, shortened where it is long.

    >>> format_value([[0, 1, 4], [0, 2]]), format_value(True), format_value("25 GB/s")
    ('[0, 1, 4], [0, 2]', 'true', '25 GB/s')
    """
    text = ", ".join(map(_flow, value)) if isinstance(value, list) else _flow(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4].rpartition(',')[0]}, ..."


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


UNMASKED: Final = (
    "counts attention without its causal mask, as published numbers do; HFU counts executed FLOPs,"
    " recomputed ones included and masked ones not"
)
"""Convention of MFU, printed where it exceeds HFU or 100 % without a word on masked attention."""
