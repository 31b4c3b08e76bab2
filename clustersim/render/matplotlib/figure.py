"""Figures with a title, axes at computed places and a caption, the same bytes on every run."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from clustersim.render.palette import LIGHT, Colour

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK: Final = (0.15, 0.15, 0.15)

DOTS: Final = 110
"""Resolution of the PNG [dots per inch]."""

STYLE: Final[Any] = {
    "font.size": 9,
    "svg.hashsalt": "clustersim",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # TrueType, which publishers require and editors can change
}

OPTIONS: Final[dict[str, Any]] = {
    ".png": {"pil_kwargs": {"compress_level": 3}},
    ".svg": {"metadata": {"Date": None}},
    ".pdf": {"metadata": {"CreationDate": None}},
}
USUAL: Final = (".png", ".svg")
"""Formats for the screen; a PDF takes longer than both, as its fonts are cut to what is used."""


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
    titles: Sequence[str], caption: str, rooms: Sequence[Room], handles: "Sequence[Artist]" = ()
) -> "tuple[Figure, list[Axes]]":
    """Return a figure with axes one above the other, their titles, its legend and its caption."""
    from matplotlib.figure import Figure

    width = max(room.width for room in rooms)
    headline = "\n".join(wrap(titles[0], int(9.6 * width)))
    words = "\n".join(wrap(caption, int(18 * width)))
    lines, gap = headline.count("\n") + 1, 0.85
    columns = legend_columns([str(handle.get_label()) for handle in handles], width)
    rows = -(-len(handles) // columns) if handles else 0
    top = 0.22 + 0.21 * lines + 0.18 * rows + 0.1
    bottom = 0.62 + 0.13 * (words.count("\n") + 1)
    total = top + sum(room.above + room.height + room.below + gap for room in rooms) - gap + bottom
    figure = Figure(figsize=(width, total))
    figure.text(0.12 / width, 1 - 0.14 / total, headline, size=12, weight="bold", va="top")
    figure.text(0.12 / width, 0.1 / total, words, size=7.5, color=paint("quiet"), va="bottom")
    if handles:
        figure.legend(
            handles=handles, loc="upper left", ncols=columns, frameon=False, fontsize=8,
            bbox_to_anchor=(0.12 / width, 1 - (0.2 + 0.21 * lines) / total),
            borderpad=0, borderaxespad=0, handlelength=1.2, columnspacing=1.2,
        )  # fmt: skip
    axes: list[Axes] = []
    above = top
    left, right = max(room.left for room in rooms), max(room.right for room in rooms)
    for title, room in zip(titles, rooms, strict=True):
        if axes:
            place = 0.12 / width, 1 - (above - 0.08) / total
            figure.text(*place, title, size=9.5, weight="bold", va="bottom")
        above += room.above + room.height
        span = width - left - right
        corner = left / width, 1 - above / total
        axes.append(figure.add_axes((*corner, span / width, room.height / total)))
        above += room.below + gap
        # Places given here are not computed from every tick, at each drawing.
        axes[-1].set_title("", y=1.0)
        axes[-1].xaxis.set_label_coords(0.5, -(0.32 + room.below) / room.height)
        axes[-1].yaxis.set_label_coords(-(left - 0.2) / span, 0.5)
    return figure, axes


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


@contextmanager
def plots(
    title: str,
    caption: str,
    width: float,
    rows: int,
    height: float,
    *,
    left: float = 0.6,
    beside: bool = False,
) -> "Iterator[tuple[Figure, list[Axes]]]":
    """Give a figure with `rows` plots of `height` inches, or two side by side, placed by hand."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    top, gap, bottom = 0.72 if rows == 1 else 0.82, 0.5, 0.78
    total = top + rows * height + (rows - 1) * gap + bottom
    with rc_context(STYLE):
        figure = Figure(figsize=(width, total))
        figure.text(0.12 / width, 1 - 0.26 / total, title, size=12, weight="bold", va="center")
        figure.text(0.12 / width, 0.14 / total, caption, size=7.5, color="0.35", va="center")
        spans = [(left, 6.6), (7.3, width - 0.15)] if beside else [(left, width - 0.15)] * rows
        axes = []
        for row, (begin, end) in enumerate(spans):
            above = top + (0 if beside else row * (height + gap)) + height
            place = (begin / width, 1 - above / total, (end - begin) / width, height / total)
            axes.append(figure.add_axes(place))
            # Places given here are not looked for around every tick, at each drawing.
            axes[-1].set_title("", y=1.0)
            axes[-1].xaxis.set_label_coords(0.5, -0.3 / height)
            axes[-1].yaxis.set_label_coords(-(left - 0.26) / (end - begin), 0.5)
        yield figure, axes


def legend(figure: "Figure", colours: dict[str, Colour]) -> None:
    """Explain colours in a line under the title."""
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=c, edgecolor=INK, linewidth=0.4, label=n) for n, c in colours.items()
    ]
    width, height = figure.get_size_inches()
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.12 / width, 1 - 0.38 / height),
        borderpad=0,
        borderaxespad=0,
        ncols=len(handles),
        frameon=False,
        fontsize=8,
        handlelength=1.2,
        columnspacing=1.2,
    )


def save(figure: "Figure", stem: Path, formats: Sequence[str] = USUAL) -> None:
    """Write a figure without the date, so that the same picture gives the same bytes."""
    for ending in formats:
        figure.savefig(stem.with_suffix(ending), dpi=DOTS, **OPTIONS[ending])


def warm_up() -> None:
    """Import what drawing needs and load the font, before there is anything to draw."""
    import io

    with plots("0", "0", 1.0, 1, 1.0) as (figure, _):
        figure.savefig(io.BytesIO(), format="png", dpi=10)
        figure.savefig(io.BytesIO(), format="svg")
