"""Figures with a title, axes at computed places and a caption, the same bytes on every run."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from clustersim.render.charts.picture import Entry
from clustersim.render.palette import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOTS: Final = 110
"""Resolution of the PNG [dots per inch]."""

STYLE: Final[Any] = {
    "font.size": 9,
    "svg.hashsalt": "clustersim",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # TrueType, which publishers require and editors can change
}

OPTIONS: Final[dict[str, Any]] = {
    "png": {"pil_kwargs": {"compress_level": 3}},
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"CreationDate": None}},
}
"""Options of each format."""

FORMATS: Final = (*OPTIONS,)


GAP: Final = 0.85
"""Between two plots [in]: the axis of one and the title of the next."""


TITLE: Final = 0.3
"""Height of the title of the first plot, where the figure has another one [in]."""


class Room(NamedTuple):
    """The inches that a plot needs: of its axes, around them, and of the whole figure."""

    height: float
    left: float = 0.75
    right: float = 0.15
    above: float = 0.0
    below: float = 0.0
    width: float = 8.4

    @property
    def plot(self) -> float:
        """The width of the axes."""
        return self.width - self.left - self.right


def paint(name: str) -> str:
    """Return the value of a colour of the palette."""
    return LIGHT[name]


def text_width(texts: Iterable[str], size: float = 9.0) -> float:
    """Return about how wide the widest of some texts is [in]; lines are counted one by one."""
    longest = max((len(line) for text in texts for line in text.split("\n")), default=0)
    return 0.0083 * size * longest


def panels(
    headline: str,
    titles: Sequence[str],
    caption: str,
    rooms: Sequence[Room],
    entries: Sequence[Entry] = (),
) -> "tuple[Figure, list[Axes]]":
    """Return a figure with axes one above the other, their titles, its legend and its caption.

    An empty title is that of the figure, and takes no room.
    """
    from matplotlib.figure import Figure

    width = max(room.width for room in rooms)
    headline = "\n".join(wrap(headline, int(9.6 * width)))
    words = "\n".join(wrap(caption, int(18 * width)))
    lines = headline.count("\n") + 1
    columns = legend_columns([entry.name for entry in entries], width)
    rows = -(-len(entries) // columns)
    top = 0.22 + 0.21 * lines + 0.18 * rows + 0.1
    bottom = 0.62 + 0.13 * (words.count("\n") + 1)
    heights = [room.above + room.height + room.below for room in rooms]
    total = top + sum(heights) + GAP * (len(rooms) - 1) + bottom
    figure = Figure(figsize=(width, total))
    figure.text(0.12 / width, 1 - 0.14 / total, headline, size=12, weight="bold", va="top")
    figure.text(0.12 / width, 0.1 / total, words, size=7.5, color=paint("quiet"), va="bottom")
    if entries:
        _explain(figure, entries, columns, 0.2 + 0.21 * lines)
    return figure, _place_axes(figure, titles, rooms, top)


def _explain(figure: "Figure", entries: Sequence[Entry], columns: int, above: float) -> None:
    """Draw the legend of a figure below its title."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    white, edge, pale = map(paint, ("ground", "edge", "idle"))
    looks: dict[str, Callable[[str], dict[str, Any]]] = {
        "filled": lambda colour: {"facecolor": colour, "edgecolor": edge, "linewidth": 0.4},
        "framed": lambda colour: {"facecolor": white, "edgecolor": colour, "linewidth": 1.6},
        "hatched": lambda _: {"facecolor": white, "edgecolor": pale, "hatch": "////"},
    }
    handles = [
        Line2D([], [], color=paint(e.colour), linestyle="--", linewidth=1, label=e.name)
        if e.style == "dashed"
        else Patch(label=e.name, **looks[e.style](paint(e.colour)))
        for e in entries
    ]
    width, total = figure.get_size_inches()
    figure.legend(
        handles=handles, loc="upper left", ncols=columns, frameon=False, fontsize=8,
        bbox_to_anchor=(0.12 / width, 1 - above / total),
        borderpad=0, borderaxespad=0, handlelength=1.2, columnspacing=1.2,
    )  # fmt: skip


def _place_axes(
    figure: "Figure", titles: Sequence[str], rooms: Sequence[Room], above: float
) -> "list[Axes]":
    """Return axes from the top down, each below its title, if it has one."""
    width, total = figure.get_size_inches()
    left, right = max(room.left for room in rooms), max(room.right for room in rooms)
    span = width - left - right
    axes: list[Axes] = []
    for title, room in zip(titles, rooms, strict=True):
        if title:
            below = above if axes else above + TITLE  # a gap has room for a title
            place = 0.12 / width, 1 - (below - 0.08) / total
            figure.text(*place, title, size=9.5, weight="bold", va="bottom")
        above += room.above + room.height
        corner = left / width, 1 - above / total
        axes.append(figure.add_axes((*corner, span / width, room.height / total)))
        above += room.below + GAP
        # Places given here are not computed from every tick, at each drawing.
        axes[-1].set_title("", y=1.0)
        axes[-1].xaxis.set_label_coords(0.5, -(0.32 + room.below) / room.height)
        axes[-1].yaxis.set_label_coords(-(left - 0.2) / span, 0.5)
    return axes


def legend_columns(labels: Sequence[str], width: float) -> int:
    """Return how many entries of a legend are next to each other."""
    widths = [text_width([label], 8) + 0.45 for label in labels]
    if sum(widths) <= width - 0.2:
        return max(1, len(labels))
    return max(1, int((width - 0.2) / max(widths)))


def names_below(names: Sequence[str], width: float) -> float:
    """Return the extra room for names of columns: none where they fit next to each other [in]."""
    longest = text_width(names)
    return 0.0 if longest + 0.1 <= width / max(1, len(names)) else longest


def name_columns(axes: "Axes", names: Sequence[str]) -> None:
    """Name columns at 0, 1, 2 and so on; upright where the names are wider than the columns."""
    upright = names_below(names, plot_width(axes)) > 0
    axes.set_xticks(range(len(names)), names, rotation=90 if upright else 0)


def plot_width(axes: "Axes") -> float:
    """Return the width of axes [in]."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return float(figure.get_size_inches()[0] * axes.get_position().width)


def fitting_size(texts: Iterable[str], width: float, largest: float = 8.0) -> float:
    """Return the size at which the widest text fits into a width [in], between 4 and `largest`."""
    return max(4.0, min(largest, largest * width / (text_width(texts, largest) or width)))


def save(figure: "Figure", stem: Path, formats: Sequence[str]) -> None:
    """Write a figure without the date, so that the same picture gives the same bytes."""
    for name in formats:
        figure.savefig(stem.with_suffix(f".{name}"), dpi=DOTS, **OPTIONS[name])


def as_png(figure: "Figure") -> bytes:
    """Return a figure as the bytes of a PNG file."""
    import io

    from matplotlib import rc_context

    content = io.BytesIO()
    with rc_context(STYLE):
        figure.savefig(content, format="png", dpi=DOTS)
    return content.getvalue()


def warm_up() -> None:
    """Import what drawing needs and load the font, before there is anything to draw."""
    import io

    from matplotlib import rc_context

    with rc_context(STYLE):
        figure, _ = panels("0", [""], "0", [Room(1.0, width=2.0)])
        figure.savefig(io.BytesIO(), format="png", dpi=10)
        figure.savefig(io.BytesIO(), format="svg")
