"""Lines with points, and points with a front, on a page."""

from dataclasses import replace
from typing import Final

from clustersim.render.charts.lines import Band, Lines, ScatterWithFront, Series
from clustersim.render.charts.picture import format_cell
from clustersim.render.plotly.pieces import (
    OUTLINE,
    Figure,
    Plot,
    colour,
    framed_axis,
    label,
    layout,
)

DASHES: Final = {"solid": "solid", "dashed": "dash", "dotted": "dot", "steps": "solid"}
ROW: Final = 24
"""Height of a line of the name of a row of points [px]."""


def lines(picture: Lines) -> Plot:
    """Return bands, then series in their order."""
    picture = _remarks_at_names(picture)
    height, picture = _height(picture), picture.framed()
    data = [*map(_band, picture.bands), *(_series(each, picture) for each in picture.series)]
    remarks = [_remark(place, text) for place, text in picture.remarks]
    legend = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "maxheight": 1}
    named = any(series.name for series in picture.series)
    widest = max((len(text) for _, text in picture.remarks), default=0)
    margin = {"l": 10, "r": 16 + 7 * widest, "t": 8, "b": 10}
    figure = layout(
        framed_axis(picture.x),
        framed_axis(picture.y, zeroline=False),
        showlegend=named,
        legend=legend,
        annotations=remarks,
        margin=margin,
    )
    return Plot(data, figure, height)


def _remarks_at_names(picture: Lines) -> Lines:
    """Return lines whose remarks are below the names of rows: a phone has no room aside."""
    texts, named = dict(picture.remarks), {place for place, _ in picture.y.ticks}
    ticks = tuple(
        (place, f"{name}\n{texts[place]}" if place in texts else name)
        for place, name in picture.y.ticks
    )
    apart = tuple((place, text) for place, text in picture.remarks if place not in named)
    return replace(picture, y=replace(picture.y, ticks=ticks), remarks=apart)


def _height(picture: Lines) -> int:
    if picture.x.limits is not None and picture.x.limits == picture.y.limits:
        return 640
    return max(360, 110 + ROW * sum(name.count("\n") + 1 for _, name in picture.y.ticks))


def scatter_with_front(picture: ScatterWithFront) -> Plot:
    """Return all points, the front as steps, and the best point as a star."""
    return lines(picture.lines())


def _series(series: Series, picture: Lines) -> Figure:
    stroke, marked = series.stroke != "none", bool(series.marker)
    symbol = f"{series.marker}-open" if series.hollow else series.marker
    size = {True: 13, False: 9 if stroke else 8}[series.hollow or series.marker == "star"]
    return {
        "type": "scatter",
        "name": label(series.name),
        "showlegend": bool(series.name),
        "mode": "+".join(["lines"] * stroke + ["markers"] * marked),
        "x": [*series.x],
        "y": [*series.y],
        "customdata": [label(text) for text in series.hover or _hover(series, picture)],
        "hovertemplate": "%{customdata}<extra></extra>",
        **({"hoverinfo": "skip", "hovertemplate": None} if series.thin else {}),
        "line": {
            "color": colour(series.colour),
            "width": 1 if series.thin else 2,
            "dash": DASHES.get(series.stroke, "solid"),
            "shape": "hv" if series.stroke == "steps" else "linear",
        },
        "marker": {
            "color": colour(series.colour),
            "symbol": symbol or "circle",
            "size": size,
            **({} if series.hollow else {"line": OUTLINE}),
        },
    }


def _hover(series: Series, picture: Lines) -> list[str]:
    """Return the values of each point with the names of the axes."""
    names = [dict(axis.ticks) for axis in (picture.x, picture.y)]
    return [
        f"{series.name}\n{picture.x.title}: {names[0].get(x) or format_cell(x)}"
        f"\n{picture.y.title}: {names[1].get(y) or format_cell(y)}"
        for x, y in zip(series.x, series.y, strict=True)
    ]


def _band(band: Band) -> Figure:
    """Return the outline of a band as a filled area."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [*band.x, *band.x[::-1]],
        "y": [*band.low, *band.high[::-1]],
        "fill": "toself",
        "fillcolor": colour("grid"),
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _remark(place: float, text: str) -> Figure:
    return {
        "xref": "paper",
        "x": 1.01,
        "y": place,
        "text": label(text),
        "showarrow": False,
        "xanchor": "left",
    }
