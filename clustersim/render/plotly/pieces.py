"""Pieces of plotly figures as plain dicts; plotly's own classes take a second to import and check.

The script of the page adds what depends on light or dark: letters, grid and hover labels.
"""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from clustersim.render.charts.picture import Axis, Entry

if TYPE_CHECKING:
    from numpy.typing import NDArray

Figure = dict[str, Any]


class Plot(NamedTuple):
    """A plotly figure, its height in sixteenths of a line; `zoom` into time.

    `legend` is given where it is not that of the picture.
    """

    data: list[Figure]
    layout: Figure
    height: int
    zoom: bool = False
    legend: tuple[Entry, ...] | None = None


_INTERPRETED: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": "<br>"})


def label(text: str) -> str:
    """Return a text so that plotly shows it as it is: it reads a little HTML in its labels.

    A line break stays one.

    >>> label("a <b>bold</b> name")
    'a &lt;b&gt;bold&lt;/b&gt; name'
    """
    return text.translate(_INTERPRETED)


def colour(name: str) -> str:
    """Return how a chart names a colour of the page."""
    return f"var(--{name})"


def rounded(values: "Iterable[float] | NDArray[Any]", scale: float) -> list[float]:
    """Return numbers to a hundred-thousandth of `scale`: more cannot be seen, and takes room.

    >>> rounded([1.23456789, 2.0], scale=10)
    [1.2346, 2.0]
    """
    digits = 5 - math.ceil(math.log10(scale)) if scale > 0 else 0
    return [round(float(value), digits) for value in values]


def framed_axis(described: Axis, **more: Any) -> Figure:
    """Return a described axis, which cannot be dragged."""
    ticks: Figure = {"separatethousands": True}
    if described.ticks:
        values, names = zip(*described.ticks, strict=True)
        ticks = {"tickvals": [*values], "ticktext": [label(name) for name in names]}
    elif described.log:
        ticks = {"dtick": "D2", "tickformat": ",~r"}
    if described.log:
        ticks["type"] = "log"
    if described.limits is not None:
        limits = described.limits
        ticks["range"] = [math.log10(end) for end in limits] if described.log else [*limits]
    elif described.zero:
        ticks["rangemode"] = "tozero"
    return axis(label(described.title), **{"fixedrange": True, **ticks, **more})


def layout(across: dict[str, Any], down: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a layout with an axis across and one down."""
    return {
        "margin": {"l": 10, "r": 16, "t": 8, "b": 10},
        "showlegend": False,
        "dragmode": False,
        "xaxis": {"automargin": True, **across},
        "yaxis": {"automargin": True, **down},
        **more,
    }


def axis(title: str, **more: Any) -> dict[str, Any]:
    """Return an axis with its title, which begins with a small letter and ends with the unit."""
    return {"title": {"text": title, "standoff": 12}, **more}


OUTLINE: Final = {"color": "var(--edge)", "width": 0.5}
"""Around bars, so that pale ones are seen and all can be read in grey."""
