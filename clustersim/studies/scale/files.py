"""The files of `clustersim scale`: a page, and for each kind of curve tables and figures."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from clustersim.render.charts.picture import Table, text_table
from clustersim.render.page.page import Block, Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.study_folder import StudyFiles
from clustersim.render.tables import percent
from clustersim.studies.scale import text
from clustersim.studies.scale.answer import ScalingAnswer, ScalingCurve
from clustersim.studies.scale.arguments import KINDS
from clustersim.studies.scale.charts import curve_charts, loss_chart
from clustersim.studies.scale.text import curve_label

COLUMNS: Final = ("scenario", "devices", "nodes", "load", "efficiency", "speedup", "fits")
"""Of the table of the points, before the measures."""

PUBLISHED: Final = (
    "devices", "metric", "convention", "value", "predicted", "error", "efficiency", "source",
)  # fmt: skip


def files_of(answer: ScalingAnswer, command: str = "") -> StudyFiles:
    """Return the files of a study; `command` is what made it."""
    tables: dict[str, Iterator[Sequence[Any]]] = {}
    figures: dict[str, Any] = {}
    for kind in KINDS:
        curves = [curve for curve in answer.curves if curve.scaling == kind and curve.points]
        if curves:
            several = len(curves) > 1
            tables |= {f"{kind}.csv": _points(curves), f"{kind}-loss.csv": _losses(curves)}
            figures[kind] = curve_charts(curves)
            figures[f"{kind}-loss"] = [loss_chart(curve, named=several) for curve in curves]
    tables["published.csv"] = _published(answer)
    return StudyFiles(answer, partial(page, answer, command), tables, figures)


def _points(curves: Sequence[ScalingCurve]) -> Iterator[Sequence[Any]]:
    points = [(curve, point) for curve in curves for point in curve.points]
    names = dict.fromkeys(name for _, point in points for name in point.measures)
    measures = [name for name in names if name not in COLUMNS]
    yield ["name", *COLUMNS, *measures]
    for curve, point in points:
        values = (getattr(point, column) for column in COLUMNS)
        yield [curve.name, *values, *(point.measures.get(name) for name in measures)]


def _losses(curves: Sequence[ScalingCurve]) -> Iterator[Sequence[Any]]:
    yield ["name", "devices", "part", "share"]
    for curve in curves:
        for point in curve.points:
            for part, share in point.loss.items():
                yield [curve.name, point.devices, part, share]


def _published(answer: ScalingAnswer) -> Iterator[Sequence[Any]]:
    yield ["name", "scaling", *PUBLISHED]
    for curve in answer.curves:
        for number in curve.published:
            yield [curve.name, curve.scaling, *(getattr(number, key) for key in PUBLISHED)]


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
    blocks: tuple[Block, ...] = (*charts, *(_points_table(curve, curves) for curve in curves))
    return Section(f"{kind.capitalize()} scaling", kind, prose, blocks)


def _points_table(curve: ScalingCurve, curves: Sequence[ScalingCurve]) -> Table:
    head, *rows = text.table(curve)
    names = [name if name in text.WORDS else f">{name}" for name in head]
    return text_table(f"{curve_label(curve, curves)}, {curve.scaling} scaling", names, rows)


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
    caption = "Losses, published numbers, skipped points and assumptions"
    every = [["about", "curve", "detail"], *map(list, (*lines, *reasons))]
    if len(curves) == 1:
        every = [[about, detail] for about, _, detail in every]
    table = text_table(caption, every[0], every[1:])
    return Section("Details", "lines", (), (table,))
