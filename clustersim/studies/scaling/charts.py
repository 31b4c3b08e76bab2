"""Charts of scaling curves: efficiency, what is idle, and the way from 1 down to the last point."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import sub
from typing import Any, Final

from clustersim.render.page.page import Chart, Column, Swatch, Table
from clustersim.render.plotly.pieces import OUTLINE, Figure, axis, colour, label, layout
from clustersim.render.tables import percent, words
from clustersim.studies.scaling import text as scaling
from clustersim.studies.scaling.figures import curve_finding, loss_finding, steps_down

Values = Mapping[str, Any]

COLOURS: Final = ("compute", "communication", "optimiser", "imbalance")
MARKS: Final = ("circle", "square", "diamond", "triangle-up")
"""Of curves, one pair each; a fifth looks like the first."""


def _look(place: int) -> tuple[str, str]:
    return colour(COLOURS[place % len(COLOURS)]), MARKS[place % len(MARKS)]


def _swatches(curves: Sequence[Values]) -> tuple[Swatch, ...]:
    return tuple(Swatch(curve["name"], _look(i)[0]) for i, curve in enumerate(curves))


def _line(
    across: Sequence[int], down: Sequence[float], told: Sequence[str], place: int, **more: Any
) -> Figure:
    """Return one line of a chart with its marks, or marks alone."""
    paint, mark = _look(place)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": list(across),
        "y": [round(100 * value, 4) for value in down],
        "customdata": [label(text) for text in told],
        "hovertemplate": "%{customdata}<extra></extra>",
        "line": {"color": paint, "width": 2},
        "marker": {"color": paint, "symbol": mark, "size": 9},
        **more,
    }


def _over_devices(curves: Sequence[Values], name: str, ends: tuple[float, float]) -> Figure:
    """Return a layout with devices across, by powers of two."""
    ticks = sorted({point["devices"] for curve in curves for point in curve["points"]})
    across = axis("devices", type="log", tickvals=ticks, ticktext=[f"{tick:,}" for tick in ticks])
    down = axis(name, range=[*ends], fixedrange=True)
    return layout({**across, "fixedrange": True}, down)


def efficiency_chart(curves: Sequence[Values]) -> Chart:
    """Return efficiencies along the curves, predicted and published."""
    data = [_ideal(curves)]
    for place, curve in enumerate(curves):
        points = curve["points"]
        shares = [point["efficiency"] for point in points]
        told = [
            f"{curve['name']}, {p['devices']:,} devices: {percent(p['efficiency'])}"
            + ("" if p["memory"]["fits"] else ", does not fit in memory")
            for p in points
        ]
        data.append(_line([p["devices"] for p in points], shares, told, place))
        known = [each for each in curve["published"] if each["efficiency"] is not None]
        if known:
            told = [f"published: {percent(e['efficiency'])}; {e['source']}" for e in known]
            devices = [e["devices"] for e in known]
            data.append(_hollow(_line(devices, [e["efficiency"] for e in known], told, place)))
    return Chart(
        title=curve_finding(curves),
        figure={"data": data, "layout": _over_devices(curves, "efficiency [%]", _reach(data))},
        description="Efficiency against devices; the thin line is ideal, hollow marks published.",
        table=_beside(curves),
        height=340,
        swatches=_swatches(curves),
        note="Thin line: ideal. Hollow marks: published.",
    )


def _reach(data: Sequence[Figure]) -> tuple[float, float]:
    """Return between which efficiencies a chart reaches [%]: a tenth is always seen."""
    seen = [value for line in data for value in line["y"]]
    return max(0.0, min(*seen, 90.0) - 3), max(*seen, 100.0) + 3


def _hollow(line: Figure) -> Figure:
    mark = line["marker"]
    open_one = {**mark, "symbol": f"{mark['symbol']}-open", "size": 14}
    return {**line, "mode": "markers", "marker": open_one}


def _ideal(curves: Sequence[Values]) -> Figure:
    devices = [point["devices"] for curve in curves for point in curve["points"]]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [min(devices), max(devices)],
        "y": [100, 100],
        "hoverinfo": "skip",
        "line": {"color": colour("quiet"), "width": 1},
    }


def _beside(curves: Sequence[Values]) -> Table:
    """Return efficiencies, predicted and published."""
    columns = (
        Column("scenario"),
        Column("devices", True),
        Column("predicted [%]", True),
        Column("published [%]", True),
    )
    rows = []
    for curve in curves:
        known = {e["devices"]: e["efficiency"] for e in curve["published"] if e["efficiency"]}
        for point in curve["points"]:
            told = known.get(point["devices"])
            rows.append(
                (
                    curve["name"],
                    f"{point['devices']:,}",
                    f"{100 * point['efficiency']:.2f}",
                    "" if told is None else f"{100 * told:.2f}",
                )
            )
    return Table("efficiency, predicted and published", columns, tuple(rows))


def share_chart(curves: Sequence[Values]) -> Chart:
    """Return how bubble and exposed communication change along the curves."""
    parts = (("bubble_fraction", "bubble", "solid"), ("exposed_fraction", "exposed", "dot"))
    data = []
    for place, curve in enumerate(curves):
        devices = [point["devices"] for point in curve["points"]]
        for key, name, dash in parts:
            shares = [point[key] for point in curve["points"]]
            told = [f"{curve['name']}, {name}: {percent(share)}" for share in shares]
            line = _line(devices, shares, told, place)
            data.append({**line, "line": {**line["line"], "dash": dash}})
    ends = 0.0, 1.1 * max(max(line["y"]) for line in data) + 1
    columns = (
        Column("scenario"),
        Column("devices", True),
        Column("bubble", True),
        Column("exposed communication", True),
    )
    rows = tuple(
        (
            curve["name"],
            f"{point['devices']:,}",
            percent(point["bubble_fraction"]),
            percent(point["exposed_fraction"]),
        )
        for curve in curves
        for point in curve["points"]
    )
    return Chart(
        title="Bubble, and communication that nothing hides",
        figure={"data": data, "layout": _over_devices(curves, "share of a step [%]", ends)},
        description="Shares of a step against devices: full lines are bubble, dotted ones exposed"
        " communication.",
        table=Table("idle shares of a step", columns, rows),
        height=300,
        swatches=_swatches(curves),
        note="Full lines: bubble. Dotted lines: communication that nothing hides.",
    )


def loss_chart(curve: Values) -> Chart:
    """Return the way from efficiency 1 to that of the last point, part by part."""
    last = curve["points"][-1]
    rows = tuple((words(part), f"{100 * share:.3f}") for part, share in last["loss"].items())
    return Chart(
        title=f"{curve['name']}: {loss_finding([curve])}",
        figure=_waterfall(curve),
        description=f"{scaling.lost(curve)}.",
        table=Table(
            "what each part takes from efficiency",
            (Column("part"), Column("points of a percent", True)),
            (*rows, ("all", f"{100 * (1 - last['efficiency']):.3f}")),
        ),
        height=320,
        note=f"{scaling.lost(curve)}.",
    )


def _waterfall(curve: Values) -> Figure:
    bars, last = steps_down(curve), curve["points"][-1]
    levels = list(accumulate((share for _, share in bars), sub, initial=1.0))
    room = max(max(levels) - min(levels), 0.04)
    low = max(0.0, min(levels) - 0.35 * room)
    # What begins at 0 begins at the cut: a bar that is cut off by its axis has no edge there.
    bases = [low, *levels[:-1], low]
    heights = [1.0 - low, *(-share for _, share in bars), last["efficiency"] - low]
    counts = [f"{count:,}<br>devices" for count in (curve["against"], last["devices"])]
    names = [counts[0], *(label(name).replace(" ", "<br>", 1) for name, _ in bars), counts[1]]
    ends = [percent(value) for value in (1.0, last["efficiency"])]
    texts = [ends[0], *(f"{-100 * share:+.1f}" for _, share in bars), ends[1]]
    paints = ["idle", *("alarm" if share > 0 else "good" for _, share in bars), "idle"]
    down = axis("efficiency [%]" + (", axis cut" if low else ""), fixedrange=True)
    across = {"tickvals": [*range(len(names))], "ticktext": names, "fixedrange": True}
    figure = {
        "type": "bar",
        "x": [*range(len(names))],
        "y": [round(100 * value, 4) for value in heights],
        "base": [round(100 * value, 4) for value in bases],
        "marker": {"color": [colour(name) for name in paints], "line": OUTLINE},
        "text": texts,
        "textposition": "outside",
        "hovertemplate": "%{text}<extra></extra>",
        "cliponaxis": False,
    }
    top = max(levels) + 0.2 * room
    return {
        "data": [figure],
        "layout": layout(across, {**down, "range": [100 * low, 100 * top]}),
    }


__all__ = ["efficiency_chart", "loss_chart", "share_chart"]
