"""Timelines on a page: each block as a bar, or the share of time that each lane computes."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from clustersim.render.charts.picture import Entry
from clustersim.render.charts.timeline import Timeline
from clustersim.render.plotly.pieces import Figure, Plot, axis, colour, label, layout, rounded
from clustersim.units import format_seconds

MOST_BARS: Final = 1_500
"""Blocks that are drawn as bars: more take long to draw and are too small to point at."""

NUMBERED: Final = 400
"""Blocks that carry their number."""

MOST_LANES: Final = 128
"""Lanes of a map of shares."""

INTERVALS: Final = 240
"""Intervals of time of a map of shares."""

LEGIBLE: Final = 8
"""Size of the smallest numbers of blocks; one that has no room for them has none [px]."""

_INSIDE: Final = {
    "textposition": "inside",
    "insidetextanchor": "middle",
    "textangle": 0,
    "constraintext": "inside",
}


def timeline(picture: Timeline) -> Plot:
    """Return blocks as bars, or of too many blocks the share of time that they take."""
    few = len(picture.start) <= MOST_BARS and not picture.as_shares
    return _bars(picture) if few else _map(picture)


def lanes_shown(count: int, most: int = MOST_LANES) -> NDArray[np.int64]:
    """Return at most `most` lanes, evenly spaced, the first and the last among them.

    >>> lanes_shown(64, 5).tolist()
    [0, 16, 32, 47, 63]
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


# --- block by block -------------------------------------------------------------------------------


def _bars(picture: Timeline) -> Plot:
    lanes = np.unique(picture.lane)
    data = [_bars_of(picture, kind, lanes) for kind in np.unique(picture.kind).tolist()]
    down = axis(
        label(picture.lanes),
        tickvals=list(range(len(lanes))),
        ticktext=[label(picture.name(lane)) for lane in lanes.tolist()],
        range=[len(lanes) - 0.5, -0.5],
        fixedrange=True,
        showgrid=False,
        zeroline=False,
    )
    more: Figure = {
        "barmode": "overlay",
        "dragmode": "zoom",
        "plot_bgcolor": colour("bubble"),
        "uniformtext": {"mode": "hide", "minsize": LEGIBLE},
    }
    if picture.ends is not None:
        more["shapes"] = [_after(picture.ends, picture.limits[1])]
    height = int(84 + max(18.0, min(40.0, 320 / len(lanes))) * len(lanes))
    return Plot(data, layout(_time(picture), down, **more), height, zoom=True)


def _after(end: float, limit: float) -> Figure:
    """Return the ground where the lanes have ended."""
    place = {"xref": "x", "yref": "paper", "x0": end, "x1": limit, "y0": 0, "y1": 1}
    look = {"fillcolor": colour("ground"), "line": {"width": 0}, "layer": "below"}
    return {"type": "rect", **place, **look}


def _time(picture: Timeline) -> Figure:
    return axis(label(picture.time.title), range=[*picture.limits])


def _bars_of(picture: Timeline, kind: int, lanes: NDArray[np.int32]) -> Figure:
    """Return all blocks of a kind, at the places of their lanes among those shown."""
    rows, (name, _, computes) = picture.kind == kind, picture.kinds[kind]
    start, length = picture.start[rows], (picture.end - picture.start)[rows]
    numbers, scale = picture.number[rows].tolist(), picture.limits[1] / 100
    named = [label(picture.name(lane)) for lane in picture.lane[rows].tolist()]
    cells = zip(named, numbers, start.tolist(), length.tolist(), strict=True)
    which = ", microbatch %{customdata[1]}" if computes else ""
    bars = {
        "type": "bar",
        "orientation": "h",
        "name": label(name),
        "y": np.searchsorted(lanes, picture.lane[rows]).tolist(),
        "x": rounded(length, scale),
        "base": rounded(start, scale),
        "width": 0.86,
        "marker": _marker(picture, kind, rows),
        "customdata": [[a, b, format_seconds(s), format_seconds(d)] for a, b, s, d in cells],
        "hovertemplate": f"{label(picture.lanes)} %{{customdata[0]}}{which}: {label(name)}<br>"
        "from %{customdata[2]} for %{customdata[3]}<extra></extra>",
    }
    if computes and len(picture.start) <= NUMBERED:
        bars |= {"text": [str(number) for number in numbers], **_INSIDE}
    return bars


def _marker(picture: Timeline, kind: int, rows: NDArray[np.bool_]) -> Figure:
    """Return the colour of blocks, from the first shade to the last."""
    line = {"color": "var(--ground)", "width": 0.4 if len(picture.start) <= NUMBERED else 0}
    first, last = map(colour, picture.kinds[kind].colours)
    if picture.shades == 1 or first == last:
        return {"color": first, "line": line}
    scale = {"colorscale": [[0, first], [1, last]], "cmin": 0, "cmax": picture.shades - 1}
    return {"color": picture.shade[rows].tolist(), **scale, "line": line}


# --- shares ---------------------------------------------------------------------------------------


def _map(picture: Timeline) -> Plot:
    """Return for some lanes and each interval of time the share of it that they compute."""
    lanes, edges = lanes_shown(picture.count), np.linspace(*picture.limits, INTERVALS + 1)
    edges = edges if picture.ends is None else edges[edges <= picture.ends]
    busy = np.stack([picture.busy(int(lane), edges) for lane in lanes])
    shown = {
        "type": "heatmap",
        "x": rounded((edges[1:] + edges[:-1]) / 2, picture.limits[1]),
        "y": lanes.tolist(),
        "z": (100 * busy).round().astype(int).tolist(),
        "zmin": 0,
        "zmax": 100,
        "colorscale": [[0, colour("bubble")], [1, colour("compute")]],
        "showscale": False,
        "hovertemplate": f"{label(picture.lanes)} %{{y}} at %{{x}} {picture.time.unit}:"
        " computes %{z} % of the time<extra></extra>",
    }
    down = axis(label(picture.lanes), autorange="reversed", fixedrange=True, showgrid=False,
                zeroline=False)  # fmt: skip
    legend = (
        Entry(picture.waiting, "bubble"),
        Entry("computes all the time", "compute"),
    )
    height = int(min(max(8 * len(lanes), 110), 420)) + 56
    return Plot(
        [shown], layout(_time(picture), down, dragmode="zoom"), height, zoom=True, legend=legend
    )
