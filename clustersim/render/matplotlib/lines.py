"""Lines with points, and points with a front, as figures."""

from typing import TYPE_CHECKING, Any, Final

from clustersim.render.charts.lines import Lines, ScatterWithFront, Series
from clustersim.render.charts.picture import Axis
from clustersim.render.matplotlib.figure import Room, legend_columns, paint, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis as DrawnAxis

SYMBOLS: Final = {
    "circle": "o", "square": "s", "triangle-up": "^", "diamond": "D", "triangle-down": "v",
    "triangle-left": "<", "triangle-right": ">", "cross": "P", "pentagon": "p", "hexagon": "h",
    "x": "x", "star": "*", "": "",
}  # fmt: skip
STROKES: Final = {"solid": "-", "dashed": "--", "dotted": ":", "steps": "-", "none": "none"}
ROW: Final = 0.21
"""Height of a row of points that has a name [in]."""


def lines_room(picture: Lines) -> Room:
    """Return the room of lines: a row for each name, a square for two equal axes."""
    names = [name for _, name in picture.y.ticks]
    left = 0.3 + max(0.65, text_width(names))
    right = 0.15 + text_width((text for _, text in picture.remarks), 8)
    width = 10.0 if picture.remarks else 8.4
    labels = _labels(picture)
    above = 0.17 * -(-len(labels) // legend_columns(labels, width - left))
    if picture.x.limits is not None and picture.x.limits == picture.y.limits:
        return Room(6.2, left, right, above)
    return Room(max(2.6, ROW * len(names)), left, right, above, width=width)


def _labels(picture: Lines) -> list[str]:
    """Return what the legend lists."""
    return [_shortened(series.name) for series in picture.series if series.name]


def scatter_room(picture: ScatterWithFront) -> Room:
    """Return the room of points with a front."""
    return lines_room(picture.lines())._replace(height=3.6)


def draw_scatter_with_front(axes: "Axes", picture: ScatterWithFront) -> None:
    """Draw all points, the front as steps, and the best point as a star."""
    draw_lines(axes, picture.lines())


def draw_lines(axes: "Axes", picture: Lines) -> None:
    """Draw bands, then series in their order."""
    room, picture = lines_room(picture), picture.framed()
    for band in picture.bands:
        axes.fill_between(band.x, band.low, band.high, color=paint("grid"), linewidth=0)
    for series in picture.series:
        _draw(axes, series)
    for place, text in picture.remarks:
        aside = axes.get_yaxis_transform()
        axes.text(1.01, place, text, transform=aside, va="center", size=8)
    _set_axis(axes, picture.x, upright=False)
    _set_axis(axes, picture.y, upright=True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=paint("grid"), linewidth=0.6)
    axes.set_axisbelow(True)
    if labels := _labels(picture):
        columns = legend_columns(labels, room.width - room.left)
        axes.legend(
            frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=columns,
            borderpad=0, borderaxespad=0.4, columnspacing=1.4,
        )  # fmt: skip


def _draw(axes: "Axes", series: Series) -> None:
    filled: Any = {"markeredgecolor": paint("edge"), "markeredgewidth": 0.3, "markersize": 5}
    hollow: Any = {"markerfacecolor": "none", "markeredgewidth": 1.3, "markersize": 8}
    if series.marker == "star":
        filled["markersize"] = 12
    elif series.marker == "x":
        filled |= {"markeredgecolor": paint(series.colour), "markeredgewidth": 1.2, "markersize": 8}
    axes.plot(
        series.x,
        series.y,
        color=paint(series.colour),
        marker=SYMBOLS[series.marker],
        linestyle=STROKES[series.stroke],
        linewidth=0.7 if series.thin else 1.3,
        alpha=0.8 if series.stroke == "none" and not series.hollow else 1.0,
        drawstyle="steps-post" if series.stroke == "steps" else "default",
        label=_shortened(series.name) or "_",
        **(hollow if series.hollow else filled),
    )


def _shortened(name: str) -> str:
    """Return a name in at most some ninety letters, which a legend has room for."""
    return name if len(name) <= 94 else f"{name[:91].rstrip(' ,;:')}..."


# --- axes -----------------------------------------------------------------------------------------


def _set_axis(axes: "Axes", axis: Axis, *, upright: bool) -> None:
    """Set scale, limits, ticks and title of an axis."""
    drawn = axes.yaxis if upright else axes.xaxis
    if axis.log:
        (axes.set_yscale if upright else axes.set_xscale)("log", base=axis.log)
    if axis.limits is not None:
        (axes.set_ylim if upright else axes.set_xlim)(*axis.limits)
    elif axis.zero:
        (axes.set_ylim if upright else axes.set_xlim)(0)
    if axis.ticks:
        ticks = axis.ticks if upright else _spaced(axis)
        drawn.set_ticks([place for place, _ in ticks], labels=[name for _, name in ticks])
        axes.minorticks_off()
    elif axis.log:
        _name_decades(drawn)
    else:
        drawn.set_major_formatter(lambda value, _: f"{value:,.10g}")
    (axes.set_ylabel if upright else axes.set_xlabel)(axis.title)


def _name_decades(drawn: "DrawnAxis") -> None:
    """Name 1, 2 and 5 of each decade as people write them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    drawn.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    drawn.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    drawn.set_minor_formatter(NullFormatter())


def _spaced(axis: Axis) -> list[tuple[float, str]]:
    """Return the ticks whose names have room next to each other, the last one always."""
    from math import log

    def place(value: float) -> float:
        return log(value) if axis.log else value

    last = axis.ticks[-1]
    begin, end = axis.limits or (axis.ticks[0][0], last[0])
    letter = abs(place(end) - place(begin)) / 105  # of the 105 that are next to each other
    spaced = [last]
    for value, name in axis.ticks[-2::-1]:
        needed = letter * (2 + (len(name) + len(spaced[0][1])) / 2)
        if place(spaced[0][0]) - place(value) >= needed:
            spaced.insert(0, (value, name))
    return spaced
