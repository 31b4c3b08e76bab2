"""The chart of a front: all layouts that fit, and those that no other beats."""

from collections.abc import Mapping
from typing import Any

from clustersim.render.page.page import Chart, Column, Swatch, Table
from clustersim.render.plotly.pieces import OUTLINE, Figure, axis, colour, label, layout
from clustersim.studies.sweep.front import ParetoPicture
from clustersim.studies.sweep.text import number


def pareto_chart(picture: ParetoPicture) -> Chart:
    """Return all layouts that fit, and those that no other beats as steps."""
    told = [_said(picture, i) for i in range(len(picture.cost))]
    points: dict[str, list[Any]] = {
        "x": [round(value, 4) for value in picture.cost],
        "y": [*picture.gain],
        "customdata": told,
    }
    dots: Figure = {
        "type": "scatter",
        "mode": "markers",
        **points,
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {"color": colour("idle"), "size": 7, "line": OUTLINE},
    }
    front = {
        **dots,
        "mode": "lines+markers",
        **{key: [values[i] for i in picture.front] for key, values in points.items()},
        "line": {"color": colour("compute"), "width": 2, "shape": "hv"},
        "marker": {"color": colour("compute"), "size": 9, "line": OUTLINE},
    }
    across, down = (axis(label(name)) for name in (picture.cost_label, picture.gain_label))
    return Chart(
        title=picture.title,
        figure={"data": [dots, front], "layout": layout(across, down)},
        description=f"{len(picture.cost)} layouts that fit, {len(picture.front)} of which no other"
        f" beats in both. {picture.title}. Best: {picture.best}.",
        table=_front(picture),
        height=360,
        swatches=(
            Swatch("fits", colour("idle")),
            Swatch("no other is better for less", colour("compute")),
        ),
        note=f"Best: {picture.best}.",
    )


def _said(picture: ParetoPicture, place: int) -> str:
    point = "<br>".join(label(f"{key} {value}") for key, value in _values(picture, place).items())
    gain, cost = number(picture.gain[place]), number(picture.cost[place])
    return f"{point}<br>{label(picture.gain_label)}: {gain}<br>{label(picture.cost_label)}: {cost}"


def _values(picture: ParetoPicture, place: int) -> Mapping[str, Any]:
    return {key: value for key, value in picture.points[place].items() if value is not None}


def _front(picture: ParetoPicture) -> Table:
    keys = [*dict.fromkeys(key for place in picture.front for key in _values(picture, place))]
    names = (picture.gain_label, picture.cost_label)
    columns = (*(Column(key) for key in keys), *(Column(name, True) for name in names))
    rows = tuple(
        (
            *(str(picture.points[i].get(key, "")) for key in keys),
            number(picture.gain[i]),
            number(picture.cost[i]),
        )
        for i in picture.front
    )
    return Table("layouts that no other beats in both", columns, rows)


__all__ = ["pareto_chart"]
