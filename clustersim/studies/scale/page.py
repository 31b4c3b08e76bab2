"""The page of a scaling study: curves, losses, numbers."""

from collections.abc import Iterator, Sequence

from clustersim.render.charts.picture import Column, Table
from clustersim.render.page.page import Block, Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.tables import percent
from clustersim.studies.scale import text
from clustersim.studies.scale.answer import ScalingAnswer, ScalingCurve
from clustersim.studies.scale.arguments import KINDS
from clustersim.studies.scale.charts import curve_charts, loss_chart
from clustersim.studies.scale.text import curve_label


def page(answer: ScalingAnswer, command: str = "") -> Page:
    """Return the page of a study: the results, then each kind of curve.

    `command` is what made it.
    """
    curves = [curve for curve in answer.curves if curve.points]
    titles = dict.fromkeys(curve.title for curve in answer.curves)
    kinds = [(kind, [curve for curve in curves if curve.scaling == kind]) for kind in KINDS]
    return Page(
        title="; ".join(titles),
        subtitle="Scaling curves: efficiency over devices, and causes of lost efficiency",
        sections=(
            Section("Results", "answer", (), (Cards(tuple(_cards(curves))),)),
            *(_section(kind, of_kind) for kind, of_kind in kinds if of_kind),
            _details(curves),
        ),
        command=command,
    )


def _cards(curves: Sequence[ScalingCurve]) -> Iterator[Card]:
    for curve in curves:
        point = curve.points[-1]
        label = curve_label(curve, curves)
        where = f"{label} at {point.devices:,} devices, relative to {curve.against:,} devices"
        yield Card(f"{curve.scaling} scaling efficiency", percent(point.efficiency), where)
        for number in curve.published:
            if number.metric == "efficiency" and number.error is not None:
                where = f"{label} at {number.devices:,} devices; {number.source}"
                yield Card("published", percent(number.value), where)


def _section(kind: str, curves: Sequence[ScalingCurve]) -> Section:
    """Return the charts of one kind of curve, and a table for each of them."""
    losses = (loss_chart(curve, named=True) for curve in curves)
    charts = [page_chart(picture) for picture in (*curve_charts(curves), *losses)]
    prose = tuple(f"{curve_label(curve, curves)}: {text.description(curve)}." for curve in curves)
    blocks: tuple[Block, ...] = (*charts, *(_points(curve, curves) for curve in curves))
    return Section(f"{kind.capitalize()} scaling", kind, prose, blocks)


def _points(curve: ScalingCurve, curves: Sequence[ScalingCurve]) -> Table:
    head, *rows = text.table(curve)
    columns = tuple(Column(name, name not in text.WORDS) for name in head)
    return Table(
        f"{curve_label(curve, curves)}, {curve.scaling} scaling",
        columns,
        tuple(map(tuple, rows)),
    )


def _details(curves: Sequence[ScalingCurve]) -> Section:
    """Return losses, published numbers, skipped points and assumptions, line by line."""
    lines = [
        (row.label, f"{curve_label(curve, curves)}, {curve.scaling}", row.text)
        for curve in curves
        for row in text.notes(curve)
        if row.label != "assumed"
    ]
    reasons = dict.fromkeys(
        ("assumed", curve_label(curve, curves), f"{key}: {reason}")
        for curve in curves
        for key, reason in curve.assumed.items()
    )
    columns = (Column("about"), Column("curve"), Column("detail"))
    caption = "Losses, published numbers, skipped points and assumptions"
    return Section("Details", "lines", (), (Table(caption, columns, (*lines, *reasons)),))
