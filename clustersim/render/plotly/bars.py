"""Bars, waterfalls and stacks on a page."""

import numpy as np

from clustersim.render.charts.bars import Bars, Stack, StackedAreas, StackedBars, Waterfall
from clustersim.render.charts.picture import named_places
from clustersim.render.plotly.pieces import (
    OUTLINE,
    Figure,
    Plot,
    axis,
    colour,
    framed_axis,
    label,
    layout,
    rounded,
)


def bars(picture: Bars) -> Plot:
    """Return upright bars; the text of a bar without a value is at its place."""
    shown = {
        "type": "bar",
        "x": list(range(len(picture.bars))),
        "y": [bar.value or 0.0 for bar in picture.bars],
        "text": [label(bar.text) for bar in picture.bars],
        "textposition": "outside",
        "cliponaxis": False,
        "customdata": [label(bar.hover or f"{bar.name}: {bar.text}") for bar in picture.bars],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {"color": [colour(bar.colour) for bar in picture.bars], "line": OUTLINE},
    }
    names = named_places(picture.names, [bar.name for bar in picture.bars])
    across = framed_axis(names, zeroline=False)
    down = framed_axis(picture.measure, rangemode="tozero")
    return Plot([shown], layout(across, down), 340)


def waterfall(picture: Waterfall) -> Plot:
    """Return bars from the top down, their numbers at their names, where no bar covers them."""
    falls = picture.falls()
    places = list(range(len(falls)))
    low, high = picture.window()
    shown = {
        "type": "bar",
        "orientation": "h",
        "y": places,
        "x": rounded((abs(fall.end - fall.begin) for fall in falls), picture.size),
        "base": rounded((min(fall.begin, fall.end) for fall in falls), picture.size),
        "width": 0.7,
        "marker": {"color": [colour(fall.kind) for fall in falls], "line": OUTLINE},
        "customdata": [[label(fall.label), label(fall.text)] for fall in falls],
        "hovertemplate": "%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
    }
    across = axis(
        label(picture.axis_title),
        range=[low, high + 0.02 * (high - low)],
        fixedrange=True,
        separatethousands=True,
    )
    down = {
        "tickvals": places,
        "ticktext": [label(f"{fall.label}\n{fall.text}") for fall in falls],
        "range": [len(falls) - 0.5, -0.5],
        "fixedrange": True,
        "showgrid": False,
        "zeroline": False,
    }
    return Plot([shown], layout(across, down), 64 + 38 * len(falls))


def stacked_areas(picture: StackedAreas) -> Plot:
    """Return the layers as steps over time."""
    time = rounded(np.append(picture.begins, picture.end), picture.end / 100)
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "stackgroup": "all",
            "name": label(layer.name),
            "x": time,
            "y": rounded(np.append(layer.values, layer.values[-1]), picture.top),
            "line": {"shape": "hv", "width": 0.5, "color": colour(layer.colour)},
            "fillcolor": colour(layer.colour),
            "hovertemplate": f"{label(layer.name)} %{{y:.1f}} {picture.measure.unit}"
            "<extra></extra>",
        }
        for layer in picture.layers
    ]
    across = axis(label(picture.x.title), range=[0, picture.end])
    figure = _layout(across, picture, hovermode="x unified", dragmode="zoom")
    return Plot(data, figure, 320, zoom=True)


def stacked_bars(picture: StackedBars) -> Plot:
    """Return a stack of bars at each place."""
    count = len(picture.total)
    data = [
        {
            "type": "bar",
            "name": label(layer.name),
            "x": list(range(count)),
            "y": rounded(layer.values, picture.top),
            "width": min(0.8, 0.15 * count),
            "marker": {"color": colour(layer.colour), "line": OUTLINE},
            "hovertemplate": f"{label(picture.x.label)} %{{x}}: {label(layer.name)}"
            f" %{{y:.1f}} {picture.measure.unit}<extra></extra>",
        }
        for layer in picture.layers
    ]
    step = max(1, -(-count // 12))
    across = axis(label(picture.x.title), tickmode="linear", dtick=step,
                  range=[-0.6, count - 0.4], fixedrange=True, zeroline=False)  # fmt: skip
    return Plot(data, _layout(across, picture, barmode="stack"), 340)


def _layout(across: Figure, picture: Stack, **more: str) -> Figure:
    """Return axes with a dashed line at the limit."""
    down = axis(label(picture.measure.title), range=[0, 1.1 * picture.top], fixedrange=True)
    if picture.limit is None:
        return layout(across, down, **more)
    height = picture.limit.value
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": height, "y1": height,
            "line": {"color": "var(--ink)", "width": 1.5, "dash": "dash"}}  # fmt: skip
    return layout(across, down, shapes=[line], **more)
