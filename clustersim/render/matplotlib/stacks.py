"""Stacked areas and bars as figures."""

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from clustersim.render.charts.stacks import Stack, StackedAreas, StackedBars
from clustersim.render.matplotlib.figure import Room, paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
