"""A waterfall on a page: bars that lead from one number to another, as in the static figure."""

from clustersim.render.page.chart import OUTLINE, axis, colour, label, layout, rounded
from clustersim.render.page.page import Chart, Column, Swatch, Table
from clustersim.render.waterfall import Waterfall, number, share_of, window

TOTAL, OTHER = "quiet", "idle"
"""Colours of the two totals, and of what is no kind of part."""


def fall(picture: Waterfall) -> Chart:
    """Return a waterfall as a chart, with its steps as a table."""
    steps, levels = picture.steps, picture.levels()
    told = _told(picture)
    kinds = dict.fromkeys(step.kind for step in steps if step.kind != "other")
    low = window(levels, picture.start, picture.end)[0]
    cut = " The axis does not begin at 0." if low else ""
    return Chart(
        title=picture.title,
        figure={"data": [_bars(picture, told)], "layout": _layout(picture, told)},
        description=f"From {told[0][1]} {picture.unit}, {picture.first}, over {len(steps)} steps"
        f" to {told[-1][1]} {picture.unit}, {picture.last}.",
        table=_table(picture, told),
        height=64 + 38 * len(told),
        swatches=tuple(Swatch(kind, colour(kind)) for kind in kinds),
        note=f"Each bar begins where the one above ends.{cut}",
    )


def _told(picture: Waterfall) -> list[tuple[str, str, str]]:
    """Return the name of each bar, its number and its share of the first total."""
    size = picture.size
    steps = [
        (step.label, number(step.change, size, "+"), share_of(step, picture))
        for step in picture.steps
    ]
    return [
        (picture.first, number(picture.start, size), ""),
        *steps,
        (picture.last, number(picture.end, size), ""),
    ]


def _bars(picture: Waterfall, told: list[tuple[str, str, str]]) -> dict[str, object]:
    steps, levels = picture.steps, picture.levels()
    bases = [0.0, *(min(levels[i], levels[i + 1]) for i in range(len(steps))), 0.0]
    widths = [picture.start, *(abs(step.change) for step in steps), picture.end]
    kinds = [OTHER if step.kind == "other" else step.kind for step in steps]
    return {
        "type": "bar",
        "orientation": "h",
        "y": list(range(len(told))),
        "x": rounded(widths, picture.size),
        "base": rounded(bases, picture.size),
        "width": 0.7,
        "marker": {"color": [colour(kind) for kind in [TOTAL, *kinds, TOTAL]], "line": OUTLINE},
        "customdata": [
            [label(name), _number(value, share, picture)] for name, value, share in told
        ],
        "hovertemplate": "%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
    }


def _number(value: str, share: str, picture: Waterfall) -> str:
    return f"{value} {picture.unit}{f', {share}' if share else ''}"


def _layout(picture: Waterfall, told: list[tuple[str, str, str]]) -> dict[str, object]:
    """Return axes whose labels carry the numbers, so that none stands in the way of a bar."""
    names = [f"{label(name)}<br>{_number(value, share, picture)}" for name, value, share in told]
    low, high = window(picture.levels(), picture.start, picture.end)
    shown = [low, high + 0.02 * (high - low)]
    return layout(
        axis(f"{picture.axis} [{picture.unit}]", range=shown, fixedrange=True),
        {"tickvals": list(range(len(told))), "ticktext": names,
         "range": [len(told) - 0.5, -0.5], "fixedrange": True, "showgrid": False,
         "zeroline": False},
    )  # fmt: skip


def _table(picture: Waterfall, told: list[tuple[str, str, str]]) -> Table:
    kinds = ["", *(step.kind for step in picture.steps), ""]
    columns = (
        Column("part"),
        Column("kind"),
        Column(f"{picture.axis} [{picture.unit}]", True),
        Column("change", True),
    )
    rows = [
        (name, kind, value, share) for (name, value, share), kind in zip(told, kinds, strict=True)
    ]
    return Table(f"what leads from {picture.first} to {picture.last}", columns, tuple(rows))


__all__ = ["fall"]
