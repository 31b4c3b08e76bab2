"""Paper: figures with a title, plots placed by hand and a caption, saved the same on every run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Colour = tuple[float, float, float]

INK: Final = (0.15, 0.15, 0.15)

DOTS: Final = 110
"""Resolution of the PNG [dots per inch]."""

STYLE: Final[Any] = {
    "font.size": 9,
    "svg.hashsalt": "clustersim",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # TrueType, which publishers ask for and editors can change
}

OPTIONS: Final[dict[str, Any]] = {
    ".png": {"pil_kwargs": {"compress_level": 3}},
    ".svg": {"metadata": {"Date": None}},
    ".pdf": {"metadata": {"CreationDate": None}},
}
USUAL: Final = (".png", ".svg")
"""Formats for the screen; a PDF takes longer than both, as its fonts are cut to what is used."""


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
    """Write a figure without the date, so that the same picture gives the same bytes.

    A `stem` that ends with a format is a file of that format alone.
    """
    if stem.suffix in OPTIONS:
        stem, formats = stem.with_suffix(""), [stem.suffix]
    for ending in formats:
        figure.savefig(stem.with_suffix(ending), dpi=DOTS, **OPTIONS[ending])


def warm_up() -> None:
    """Import what drawing needs and load the font, before there is anything to draw."""
    import io

    with plots("0", "0", 1.0, 1, 1.0) as (figure, _):
        figure.savefig(io.BytesIO(), format="png", dpi=10)
        figure.savefig(io.BytesIO(), format="svg")
