"""The chart of a sweep: bars over one axis, a heat map over two, parallel lines over more."""

from collections.abc import Sequence
from itertools import product
from typing import Any, Final

from clustersim.render.page.page import Chart, Column, Swatch, Table
from clustersim.render.plotly.pieces import OUTLINE, Figure, axis, colour, label, layout
from clustersim.studies.sweep.picture import Cell, SweepPicture, share_of
from clustersim.studies.sweep.text import number
from clustersim.studies.sweep.told import DOES_NOT_FIT

MOST: Final = 1_000
"""Lines of a chart at most, the best ones."""

Place = tuple[int, ...]


def sweep_chart(picture: SweepPicture) -> Chart:
    """Return the chart of a sweep, and a table of what it shows."""
    draw = {1: _bars, 2: _heat_map}.get(len(picture.values), _parallel)
    figure, note, height = draw(picture)
    axes = ", ".join(picture.values)
    return Chart(
        title=picture.title,
        figure=figure,
        description=f"{picture.label} over {axes}. {picture.title}.",
        table=_table(picture),
        height=height,
        swatches=(Swatch("fits", colour("compute")), Swatch("the best", colour("alarm"))),
        note=note,
    )


def _table(picture: SweepPicture) -> Table:
    """Return what became of each combination, the best of those in one place."""
    names = [*picture.values]
    columns = (*(Column(name) for name in names), Column("verdict"), Column(picture.label, True))
    ordered = sorted(picture.cells)
    rows = tuple(
        (
            *_point(picture, place),
            cell.verdict,
            "" if cell.measure is None else number(cell.measure),
        )
        for place, cell in ((place, picture.cells[place]) for place in ordered[:MOST])
    )
    return Table("layouts by the values of their axes", columns, rows)


def _point(picture: SweepPicture, place: Place) -> list[str]:
    return [values[i] for i, values in zip(place, picture.values.values(), strict=True)]


def _told(picture: SweepPicture, place: Place, cell: Cell) -> str:
    """Return what the pointer is told of a layout."""
    names = zip(picture.values, _point(picture, place), strict=True)
    said = "<br>".join(label(f"{name} {value}") for name, value in names)
    if cell.measure is not None:
        return f"{said}<br>{label(picture.label)}: {number(cell.measure)}"
    needs = f", needs {cell.memory:.1f} x the memory" if cell.verdict == DOES_NOT_FIT else ""
    return f"{said}<br>{cell.verdict}{needs}"


def _named(name: str, values: Sequence[str], **more: Any) -> Figure:
    """Return an axis whose places have names."""
    ticks = {"tickvals": [*range(len(values))], "ticktext": [label(value) for value in values]}
    return axis(label(name), fixedrange=True, zeroline=False, **ticks, **more)


# --- one axis -------------------------------------------------------------------------------------


def _bars(picture: SweepPicture) -> tuple[Figure, str, int]:
    ((name, values),) = picture.values.items()
    places = [(i,) for i in range(len(values)) if (i,) in picture.cells]
    cells = [picture.cells[place] for place in places]
    bars = {
        "type": "bar",
        "x": [place[0] for place in places],
        "y": [cell.measure or 0.0 for cell in cells],
        "text": [number(cell.measure) if cell.measure else cell.verdict for cell in cells],
        "textposition": "outside",
        "cliponaxis": False,
        "customdata": [_told(picture, *each) for each in zip(places, cells, strict=True)],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {
            "color": [colour("alarm" if p == picture.best else "compute") for p in places],
            "line": OUTLINE,
        },
    }
    down = axis(label(picture.label), fixedrange=True, rangemode="tozero")
    return {"data": [bars], "layout": layout(_named(name, values), down)}, "", 340


# --- two axes -------------------------------------------------------------------------------------


def _heat_map(picture: SweepPicture) -> tuple[Figure, str, int]:
    (down, lines), (across, columns) = picture.values.items()
    places = [*product(range(len(lines)), range(len(columns)))]
    cells = [picture.cells.get(place) for place in places]
    told = [
        "not asked for" if cell is None else _told(picture, place, cell)
        for place, cell in zip(places, cells, strict=True)
    ]
    rates = [None if cell is None else cell.measure for cell in cells]
    width = len(columns)
    paints = [[0, colour("bubble")], [1, colour("compute")]]
    field = {
        "type": "heatmap",
        "z": _rows(rates, width),
        "text": _rows(["" if rate is None else number(rate) for rate in rates], width),
        "texttemplate": "%{text}",
        "customdata": _rows(told, width),
        "hovertemplate": "%{customdata}<extra></extra>",
        "hoverongaps": True,
        "colorscale": paints if picture.more_is_better else [[0, paints[1][1]], [1, paints[0][1]]],
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
    }
    unfit = [(*p, c.memory) for p, c in picture.cells.items() if c.measure is None and c.memory]
    written = {
        "type": "scatter",
        "mode": "text",
        "x": [column for _, column, _ in unfit],
        "y": [row for row, _, _ in unfit],
        "text": [f"{memory:.1f} x" for _, _, memory in unfit],
        "hoverinfo": "skip",
    }
    top = {"range": [len(lines) - 0.5, -0.5], "showgrid": False}
    figure = layout(
        _named(across, columns, range=[-0.5, width - 0.5], showgrid=False),
        _named(down, lines, **top),
        shapes=_frame(picture.best),
    )
    note = "With x: does not fit, memory that it needs over what there is. Empty: cannot be."
    return {"data": [field, written], "layout": figure}, note, 90 + 38 * len(lines)


def _rows(values: Sequence[Any], width: int) -> list[list[Any]]:
    return [[*values[start : start + width]] for start in range(0, len(values), width)]


def _frame(best: Place | None) -> list[Figure]:
    """Return a frame around the best field."""
    if best is None:
        return []
    row, column = best
    ends = {"x0": column - 0.48, "x1": column + 0.48, "y0": row - 0.48, "y1": row + 0.48}
    return [{"type": "rect", **ends, "line": {"color": colour("alarm"), "width": 3}}]


# --- more axes ------------------------------------------------------------------------------------


def _parallel(picture: SweepPicture) -> tuple[Figure, str, int]:
    """Return a line for each layout that fits through its values to its measure."""
    rates = {place: cell.measure for place, cell in picture.cells.items() if cell.measure}
    best = sorted(rates, key=rates.__getitem__, reverse=picture.more_is_better)[:MOST]
    scale = [rates[place] for place in best]
    sizes = [len(values) for values in picture.values.values()]
    lines: Figure = {"x": [], "y": [], "customdata": []}
    for place in best:
        share = share_of(rates[place], scale, picture.more_is_better)
        told = _told(picture, place, picture.cells[place])
        lines["x"] += [*range(len(sizes) + 1), None]
        lines["y"] += [*map(_height, place, sizes), round(share, 4), None]
        lines["customdata"] += [told] * (len(sizes) + 2)
    look = {"type": "scatter", "hovertemplate": "%{customdata}<extra></extra>"}
    pale = {"mode": "lines", "line": {"color": colour("compute"), "width": 1}, "opacity": 0.4}
    one = {key: values[: len(sizes) + 1] for key, values in lines.items()}
    red = {"mode": "lines+markers", "line": {"color": colour("alarm"), "width": 3}}
    names = [label(name).replace(" ", "<br>") for name in (*picture.values, picture.label)]
    across = {"tickvals": [*range(len(names))], "ticktext": names, "tickangle": 0,
              "range": [-1.0, len(sizes) + 0.5],
              "side": "top", "fixedrange": True, "zeroline": False}  # fmt: skip
    down = {"visible": False, "range": [-0.08, 1.08], "fixedrange": True}
    figure = layout(across, down, annotations=[*_posts(picture, scale)])
    note = f"{len(best):,} layouts that fit, a line each; the best is the thick one."
    return (
        {"data": [{**look, **lines, **pale}, {**look, **one, **red}], "layout": figure},
        note,
        420,
    )


def _height(place: int, size: int) -> float:
    return round(place / (size - 1), 4) if size > 1 else 0.5


def _posts(picture: SweepPicture, scale: Sequence[float]) -> list[Figure]:
    """Return the values of each axis, written beside it."""
    found = [
        {"x": x, "y": _height(i, len(values)), "text": label(value)}
        for x, values in enumerate(picture.values.values())
        for i, value in enumerate(values)
    ]
    if scale:
        x = len(picture.values)
        found += [
            {"x": x, "y": share, "text": number(rate)} for share, rate in _ends(picture, scale)
        ]
    look = {"showarrow": False, "xanchor": "right", "xshift": -6, "bgcolor": colour("ground")}
    return [{**each, **look} for each in found]


def _ends(picture: SweepPicture, scale: Sequence[float]) -> list[tuple[float, float]]:
    low, high = min(scale), max(scale)
    return [(0.0, low), (1.0, high)] if picture.more_is_better else [(0.0, high), (1.0, low)]


__all__ = ["sweep_chart"]
