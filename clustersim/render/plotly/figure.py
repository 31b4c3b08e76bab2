"""Pictures as figures of plotly for a notebook: one above the other, with title, legend, caption.

On a page the words stand around the chart, and its script gives it the colours of light or dark;
here all of them are in the figure, in the light colours.
"""

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from clustersim import __version__
from clustersim.render.charts.picture import Entry, Picture, Stacked, printable
from clustersim.render.palette import LIGHT
from clustersim.render.plotly import plot_of
from clustersim.render.plotly.pieces import Figure, Plot, colour, label

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as PlotlyFigure

LETTERS: Final = 100
"""Letters of a line of a title."""

LINE, GAP, BOTTOM = 20, 80, 90
"""Height of a line of words, between two charts, and of the last axis and the caption [px]."""

WIDTH, LETTER, SAMPLE = 860, 7, 60
"""Width that a legend may count on, of a letter, and of a sample of a colour with its gaps [px]."""


def shown_figure(drawn: Stacked) -> "PlotlyFigure":
    """Return pictures as one figure, one above the other.

    Without a headline the title of the first picture is that of the figure.
    """
    from plotly.graph_objects import Figure as PlotlyFigure  # a second to import

    pictures, headline = printable(drawn.pictures), printable(drawn.headline)
    plots = [plot_of(picture) for picture in pictures]
    title = "<br>".join(wrap(label(headline or pictures[0].title), LETTERS))
    data = [*map(_legend_line, _entries(pictures, plots))]
    for number, plot in enumerate(plots, 1):
        data += [*_placed_data(plot, number)]
    top = 34 + LINE * (bool(headline) + title.count("<br>") + 1 + _legend_lines(data))
    height = sum(plot.height for plot in plots) + GAP * (len(plots) - 1)
    layout: Figure = {
        "title": {"text": title, "x": 0.01, "y": 1, "yanchor": "top", "pad": {"t": 14}},
        "height": top + height + BOTTOM,
        "margin": {"l": 10, "r": max(map(_right, plots)), "t": top, "b": BOTTOM},
        "showlegend": True,
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1 + bool(headline) * LINE / height,
            "yanchor": "bottom",
        },
        "paper_bgcolor": colour("ground"),
        "plot_bgcolor": colour("ground"),
        "font": {"color": colour("ink"), "size": 12},
        "annotations": [_caption(pictures, height)],
        "shapes": [],
    }
    bottom = height
    for number, (picture, plot) in enumerate(zip(pictures, plots, strict=True), 1):
        place = (bottom - plot.height) / height, bottom / height
        _add(layout, plot, number, place)
        if number > 1 or headline:
            layout["annotations"].append(_heading(picture, place[1]))
        bottom -= plot.height + GAP
    return PlotlyFigure(_coloured({"data": data, "layout": layout}))


def _legend_lines(data: Sequence[Figure]) -> int:
    """Return the lines of the legend, whose columns are as wide as its longest name."""
    names = [trace["name"] for trace in data if trace.get("showlegend", True)]
    longest = max(map(len, names), default=0)
    return -(-len(names) // max(1, WIDTH // (LETTER * longest + SAMPLE)))


def _right(plot: Plot) -> int:
    """Return the room at the right of a chart [px]."""
    return int(plot.layout["margin"]["r"])


def _coloured(value: Any) -> Any:
    """Return values with the light colours in place of their names."""
    if isinstance(value, str):
        return LIGHT[value[6:-1]] if value.startswith("var(--") else value
    if isinstance(value, list):
        return [_coloured(item) for item in value]
    if isinstance(value, dict):
        return {key: _coloured(item) for key, item in value.items()}
    return value


def _placed_data(plot: Plot, number: int) -> Iterator[Figure]:
    """Yield the data of a chart, bound to its axes; the legend has what has a name of its own."""
    for trace in plot.data:
        yield {"showlegend": False, **trace, "xaxis": f"x{number}", "yaxis": f"y{number}"}


def _add(layout: Figure, plot: Plot, number: int, place: tuple[float, float]) -> None:
    """Add the layout of a chart at its place, from bottom to top of the figure."""
    grid = {"gridcolor": colour("grid"), "zerolinecolor": colour("grid"), "automargin": True}
    given = dict(plot.layout)
    across, down = given.pop("xaxis"), given.pop("yaxis")
    layout[f"xaxis{number}"] = {**grid, **across, "anchor": f"y{number}", "fixedrange": False}
    layout[f"yaxis{number}"] = {**grid, **down, "anchor": f"x{number}", "domain": [*place]}
    for kind in ("annotations", "shapes"):
        layout[kind] += [_placed(item, number) for item in given.pop(kind, ())]
    for taken in ("margin", "legend", "showlegend", "dragmode"):
        given.pop(taken, None)
    layout |= given


def _placed(item: Figure, number: int) -> Figure:
    """Return a note or a shape of a chart at its axes; what spans the paper spans the chart."""
    ends = {name: " domain" * (item.get(f"{name}ref") == "paper") for name in "xy"}
    place = str(number) if number > 1 else ""
    return {**item, **{f"{name}ref": f"{name}{place}{end}" for name, end in ends.items()}}


def _entries(pictures: Sequence[Picture], plots: Sequence[Plot]) -> list[Entry]:
    """Return the entries of the legend, each once."""
    legends = zip(pictures, plots, strict=True)
    return [
        *dict.fromkeys(
            entry
            for picture, plot in legends
            for entry in (picture.legend() if plot.legend is None else plot.legend)
        )
    ]


def _legend_line(entry: Entry) -> Figure:
    """Return a trace without points that is an entry of the legend."""
    paint = colour(entry.colour)
    shown: Figure = {"type": "scatter", "x": [None], "y": [None], "name": label(entry.name)}
    if entry.style == "dashed":
        return {**shown, "mode": "lines", "line": {"color": paint, "dash": "dash"}}
    symbol = "square" if entry.style == "filled" else "square-open"
    return {**shown, "mode": "markers", "marker": {"color": paint, "symbol": symbol, "size": 11}}


def _caption(pictures: Sequence[Picture], height: int) -> Figure:
    """Return the conditions and how the pictures are read, below them."""
    captions = dict.fromkeys(filter(None, (picture.caption for picture in pictures)))
    notes = dict.fromkeys(filter(None, (picture.note.rstrip(".") for picture in pictures)))
    text = "; ".join([*captions, f"clustersim {__version__}", *notes])
    lines = "<br>".join(wrap(label(text), int(1.4 * LETTERS)))
    return {
        "text": lines, "xref": "paper", "yref": "paper", "x": 0, "y": 0, "yshift": -45,
        "xanchor": "left", "yanchor": "top", "align": "left", "showarrow": False,
        "font": {"size": 10, "color": colour("quiet")},
    }  # fmt: skip


def _heading(picture: Picture, top: float) -> Figure:
    """Return the title of a picture below the first one."""
    return {
        "text": f"<b>{label(picture.title)}</b>", "xref": "paper", "yref": "paper",
        "x": 0, "y": top, "xanchor": "left", "yanchor": "bottom", "showarrow": False,
    }  # fmt: skip
