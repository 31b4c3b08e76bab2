"""Heat maps and parallel coordinates on a page."""

from itertools import product
from typing import Any, Final

from clustersim.render.charts.grids import HeatMap, OwnerMap, ParallelCoordinates, ShareMap, height
from clustersim.render.palette import HEAT, SCALE
from clustersim.render.plotly.pieces import Figure, Plot, axis, colour, framed_axis, label, layout
from clustersim.units import format_number

MAXIMUM: Final = 1_000
"""Lines of parallel coordinates, the best ones."""

SEPARATE: Final = 20
"""Lines that are told apart where each has its full colour; more of them are fainter."""

STOPS: Final = [[i / (len(SCALE) - 1), colour(f"scale-{i}")] for i in range(len(SCALE))]


HEAT_STOPS: Final = [[i / (len(HEAT) - 1), colour(f"heat-{i}")] for i in range(len(HEAT))]


def heat_map(picture: HeatMap) -> Plot:
    """Return a field for each combination, with a frame around the best one.

    The script of the page writes the texts, in a colour that can be read on that of the field.
    """
    rows, columns = len(picture.y.ticks), len(picture.x.ticks)
    fields = [picture.fields.get(place) for place in product(range(rows), range(columns))]
    values = [None if field is None else field.value for field in fields]
    texts = ["" if field is None else label(field.text) for field in fields]
    hover = ["" if field is None else label(field.hover or field.text) for field in fields]
    shown = {
        "type": "heatmap",
        "z": _by_row(values, columns),
        "text": _by_row(texts, columns),
        "texttemplate": "%{text}",
        "customdata": _by_row(hover, columns),
        "hovertemplate": "%{customdata}<extra></extra>",
        "hoverongaps": True,
        "colorscale": STOPS,
        "reversescale": not picture.more_is_better,
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
    }
    apart = {"showgrid": False, "zeroline": False}
    figure = layout(
        framed_axis(picture.x, **apart),
        framed_axis(picture.y, range=[rows - 0.5, -0.5], **apart),
        shapes=[*_hatched(picture), *_frame(picture.best)],
    )
    return Plot([shown], figure, 90 + 34 * rows)


def share_map(picture: ShareMap) -> Plot:
    """Return rows of cells, and a bar with the scale from 0 to 100 %."""
    shown = {
        "type": "heatmap",
        "z": [[round(100 * share, 1) for share in row] for row in picture.shares],
        "customdata": [[*map(label, row)] for row in picture.hover],
        "hovertemplate": "%{customdata}<extra></extra>",
        "colorscale": HEAT_STOPS,
        "zmin": 0,
        "zmax": 100,
        "colorbar": {
            "title": {"text": label(picture.measure.title), "side": "right"},
            "thickness": 14,
            "outlinewidth": 0,
        },
        "ygap": 2,
    }
    names = [label(name) for name in picture.names]
    across = axis(
        label(picture.cells), showticklabels=False, ticks="", showgrid=False, zeroline=False
    )
    down = axis("", tickvals=[*range(len(names))], ticktext=names, showgrid=False, zeroline=False,
                range=[len(names) - 0.5, -0.5])  # fmt: skip
    return Plot([shown], layout(across, down), max(190, 70 + 30 * len(names)))


def owner_map(picture: OwnerMap) -> Plot:
    """Return cells in the colours of their owners, the last colour where there is none."""
    count, free = len(picture.colours), len(picture.owners)
    wide = max(map(len, picture.grid))
    grid = [[*row, *([None] * (wide - len(row)))] for row in picture.grid]
    shown = {
        "type": "heatmap",
        "z": [[c and (c.owner if c.owner >= 0 else free) for c in row] for row in grid],
        "customdata": [["" if c is None else label(c.hover) for c in row] for row in grid],
        "hovertemplate": "%{customdata}<extra></extra>",
        "hoverongaps": False,
        "colorscale": [
            [(n + end) / count, colour(name)]
            for n, name in enumerate(picture.colours)
            for end in (0, 1)
        ],
        "zmin": -0.5,
        "zmax": count - 0.5,
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
    }
    names = [label(name) for name in picture.names]
    step = -(-len(names) // 20)
    across = axis(
        label(picture.measure.title), showticklabels=False, ticks="", showgrid=False, zeroline=False
    )
    down = axis("", tickvals=[*range(0, len(names), step)], ticktext=names[::step], showgrid=False,
                zeroline=False, range=[len(names) - 0.5, -0.5])  # fmt: skip
    height = 70 + max(40, min(26 * len(names), 420))
    return Plot([shown], layout(across, down), height)


def _by_row(values: list[Any], width: int) -> list[list[Any]]:
    return [values[start : start + width] for start in range(0, len(values), width)]


def _hatched(picture: HeatMap) -> list[Figure]:
    """Return a pale field with a dotted frame where a figure has a hatched one."""
    dotted = {"color": colour("quiet"), "width": 1, "dash": "dot"}
    return [
        {"type": "rect", **_around(row, column, 0.46), "layer": "below",
         "fillcolor": colour("raised"), "line": dotted}
        for (row, column), field in picture.fields.items()
        if field.hatched
    ]  # fmt: skip


def _frame(best: tuple[int, int] | None) -> list[Figure]:
    if best is None:
        return []
    return [
        {"type": "rect", **_around(*best, 0.495), "line": {"color": colour("warning"), "width": 3}}
    ]


def _around(row: int, column: int, half: float) -> dict[str, float]:
    return {"x0": column - half, "x1": column + half, "y0": row - half, "y1": row + half}


# --- parallel coordinates -------------------------------------------------------------------------


def parallel_coordinates(picture: ParallelCoordinates) -> Plot:
    """Return a line for each of the best combinations, the best of all thick and on top."""
    data = []
    best = picture.combinations[:MAXIMUM]
    last = len(picture.axes)
    if best:
        shown: Figure = {"x": [], "y": [], "customdata": []}
        for line, heights in zip(best, picture.heights(MAXIMUM), strict=True):
            shown["x"] += [*range(last + 1), None]
            shown["y"] += [*(round(value, 4) for value in heights), None]
            shown["customdata"] += [label(line.hover)] * (last + 2)
        common = {"type": "scatter", "hovertemplate": "%{customdata}<extra></extra>"}
        thin = {"color": colour("compute"), "width": 1}
        faint = max(0.4, min(0.9, SEPARATE / len(best)))
        pale = {"mode": "lines", "line": thin, "opacity": faint}
        one = {key: values[: last + 1] for key, values in shown.items()}
        thick = {"mode": "lines+markers", "line": {"color": colour("warning"), "width": 3}}
        data = [{**common, **shown, **pale}, {**common, **one, **thick}]
    titles = [label(axis.title.replace(" ", "\n")) for axis in (*picture.axes, picture.measure)]
    across = {
        "tickvals": list(range(last + 1)),
        "ticktext": titles,
        "tickangle": 0,
        "range": [-1.0, last + 0.5],
        "side": "top",
        "fixedrange": True,
        "zeroline": False,
    }
    down = {"visible": False, "range": [-0.08, 1.08], "fixedrange": True}
    figure = layout(across, down, annotations=_ticks(picture))
    return Plot(data, figure, 420)


def _ticks(picture: ParallelCoordinates) -> list[Figure]:
    """Return the values of each axis at its left."""
    ticks = [
        (x, height(i, len(axis.ticks)), name)
        for x, axis in enumerate(picture.axes)
        for i, (_, name) in enumerate(axis.ticks)
    ]
    if picture.combinations:
        low, high = picture.ends()
        last = len(picture.axes)
        ticks += [(last, 0.0, format_number(low)), (last, 1.0, format_number(high))]
    look = {"showarrow": False, "xanchor": "right", "xshift": -6, "bgcolor": colour("ground")}
    return [{"x": x, "y": y, "text": label(text), **look} for x, y, text in ticks]
