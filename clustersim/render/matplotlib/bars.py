"""Bars, waterfalls and stacks as figures."""

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from clustersim.render.charts.bars import Bars, Stack, StackedAreas, StackedBars, Waterfall
from clustersim.render.matplotlib.figure import (
    Room,
    fitting_size,
    name_columns,
    names_below,
    paint,
    plot_width,
    text_width,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def bars_room(picture: Bars) -> Room:
    """Return the room of upright bars."""
    room = Room(3.2, left=0.95)
    return room._replace(below=names_below([bar.name for bar in picture.bars], room.plot))


def draw_bars(axes: "Axes", picture: Bars) -> None:
    """Draw upright bars; the text of a bar without a value is upright in its place."""
    top = max((bar.value or 0.0 for bar in picture.bars), default=0.0) or 1.0
    edge: Any = {"edgecolor": paint("edge"), "linewidth": 0.5}
    texts = (bar.text for bar in picture.bars if bar.value is not None)
    size = fitting_size(texts, plot_width(axes) / max(1, len(picture.bars)))
    for place, bar in enumerate(picture.bars):
        if bar.value is None:
            look: Any = {"rotation": 90, "ha": "center", "va": "bottom", "color": paint("quiet")}
            axes.text(place, 0.02 * top, bar.text, **look)
            continue
        axes.bar(place, bar.value, width=0.6, color=paint(bar.colour), **edge)
        axes.text(place, bar.value, bar.text, ha="center", va="bottom", size=size)
    name_columns(axes, [bar.name for bar in picture.bars])
    axes.set_xlim(-0.6, len(picture.bars) - 0.4)
    axes.set_ylim(0, 1.12 * top)
    axes.set_xlabel(picture.names)
    axes.set_ylabel(picture.measure.title)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.spines[["top", "right"]].set_visible(False)


def waterfall_room(picture: Waterfall) -> Room:
    """Return the room of a waterfall: a row for each bar, the names at the left."""
    falls = picture.falls()
    left = 0.3 + text_width(fall.label for fall in falls)
    return Room(0.29 * len(falls), left=left, width=9.0)


def draw_waterfall(axes: "Axes", picture: Waterfall) -> None:
    """Draw bars from the top down, each beginning where the one above ends."""
    falls, (low, high) = picture.falls(), picture.window()
    rows = range(len(falls))
    ends = [sorted((fall.begin, fall.end)) for fall in falls]
    axes.barh(
        rows,
        [end - begin for begin, end in ends],
        left=[begin for begin, _ in ends],
        color=[paint(fall.kind) for fall in falls],
        edgecolor=paint("edge"),
        linewidth=0.5,
        height=0.66,
    )
    for row, fall in enumerate(falls[:-1]):
        axes.plot([fall.end] * 2, [row + 0.33, row + 0.67], color=paint("quiet"), linewidth=0.7)
    gap = 0.01 * (high - low)
    for row, (fall, (_, end)) in enumerate(zip(falls, ends, strict=True)):
        axes.text(end + gap, row, fall.text, va="center", size=8)
    axes.set_yticks(rows, [fall.label for fall in falls])
    axes.set_ylim(len(falls) - 0.5, -0.5)
    axes.set_xlim(low, high + 0.25 * (high - low))
    axes.set_xlabel(picture.axis_title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


FEWEST_BARS: Final = 4
"""Bars that there is room for, so that a single one is not as wide as the figure."""


def stack_room(picture: Stack) -> Room:
    """Return the room of stacked layers."""
    return Room(2.6, left=0.75, width=11.0)


def draw_stacked_areas(axes: "Axes", picture: StackedAreas) -> None:
    """Draw the layers as steps over time."""
    time = np.append(picture.begins, picture.end)
    below = np.zeros(len(time))
    for layer in picture.layers:
        above = below + np.append(layer.values, layer.values[-1])
        colour = paint(layer.colour)
        axes.fill_between(time, below, above, step="post", color=colour, linewidth=0)
        below = above
    axes.set_xlim(0, picture.end)
    _finish(axes, picture)


def draw_stacked_bars(axes: "Axes", picture: StackedBars) -> None:
    """Draw the bars; those of a layer are one shape, as hundreds are slow one by one."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    count = len(picture.total)
    below, places = np.zeros(count), np.arange(count)
    for layer in picture.layers:
        left, right, above = places - 0.4, places + 0.4, below + layer.values
        x = np.stack([left, right, right, left], axis=1)
        y = np.stack([below, below, above, above], axis=1)
        outlines = Path.make_compound_path_from_polys(np.stack([x, y], axis=2))
        width = 0.3 if count <= 32 else 0
        look: Any = {"facecolor": paint(layer.colour), "edgecolor": paint("edge")}
        axes.add_artist(PathPatch(outlines, linewidth=width, **look))
        below = above
    axes.set_xlim(-0.6, max(count, FEWEST_BARS) - 0.4)
    axes.set_xticks(range(0, count, max(1, count // 8)))
    _finish(axes, picture)


def _finish(axes: "Axes", picture: Stack) -> None:
    """Draw the axes and the limit."""
    if picture.limit is not None:
        axes.axhline(picture.limit.value, color=paint("ink"), linestyle="--", linewidth=1, zorder=4)
    axes.set_ylim(0, 1.12 * picture.top)
    axes.set_xlabel(picture.x.title)
    axes.set_ylabel(picture.measure.title)
    axes.spines[["top", "right"]].set_visible(False)
