"""Bars and waterfalls on a page."""

from clustersim.render.charts.bars import Bars, Waterfall
from clustersim.render.charts.picture import named_places
from clustersim.render.plotly.pieces import (
    OUTLINE,
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
        label(picture.axis_title), range=[low, high + 0.02 * (high - low)], fixedrange=True
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
