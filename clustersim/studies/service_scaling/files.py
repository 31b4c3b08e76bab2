"""The files of scaling curves of a service: points as a table, the chart, the page."""

from collections.abc import Iterator, Sequence
from typing import Any

from clustersim.render.charts import Axis, Lines, Series
from clustersim.render.charts.lines import colour_at, marker_at, reference
from clustersim.render.charts.picture import Column, Table
from clustersim.render.page.page import Block, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.study_folder import StudyFiles
from clustersim.simulation.service.measures import SERVICE_MEASURES
from clustersim.studies.service_scaling.answer import ServiceCurve, ServiceScaling
from clustersim.studies.service_scaling.text import curve_points, finding, points_not_run

MEASURES = [name for name in SERVICE_MEASURES if name != "devices"]
"""Columns of numbers."""


def files_of(answer: ServiceScaling, command: str = "") -> StudyFiles:
    """Return the files of scaling curves; `command` is what made them."""
    chart = _chart(answer)
    blocks: list[Block] = [page_chart(chart)]
    for curve in answer.curves:
        heads, *lines = curve_points(curve)
        columns = tuple(Column(name, True) for name in heads)
        title = f"{curve.kind} scaling over {curve.axis}"
        blocks.append(Table(title, columns, tuple(map(tuple, lines))))
        if rows := tuple((row.label, row.text) for row in points_not_run(curve)):
            blocks.append(Table("not run", (Column("item"), Column("reason")), rows))
    section = Section("Scaling", "answer", (), tuple(blocks))
    page = Page(f"Scaling: {answer.title}", finding(answer.curves[0]), (section,), command)
    return StudyFiles(page, {"scaling.csv": _rows(answer)}, {"efficiency": chart})


def _chart(answer: ServiceScaling) -> Lines:
    """Return the efficiency of all curves over the devices."""
    series = [_series(place, curve) for place, curve in enumerate(answer.curves)]
    most = max(max(one.x) for one in series)
    least = min(min(one.x) for one in series)
    ticks = tuple((x, f"{x:,.0f}") for x in sorted({x for one in series for x in one.x}))
    return Lines(
        title=finding(answer.curves[0]),
        caption=f"{answer.title} ({answer.name})",
        description="Tokens per second of a device over those of the reference point.",
        contents="scaling of the service",
        x=Axis("devices", log=2, ticks=ticks),
        y=Axis("efficiency", "%", zero=True),
        series=(*series, reference("ideal", (least, most), (100.0, 100.0))),
    )


def _series(place: int, curve: ServiceCurve) -> Series:
    points = [(point.devices, point.efficiency) for point in curve.points]
    known = [(float(x), 100 * y) for x, y in points if y is not None]
    x, y = zip(*known, strict=True)
    name = f"{curve.kind} scaling over {curve.axis}"
    return Series(name, x, y, colour_at(place), marker_at(place))


def _rows(answer: ServiceScaling) -> Iterator[Sequence[Any]]:
    yield ["curve", "axis", "devices", "load", "efficiency", "why", *MEASURES]
    for curve in answer.curves:
        for one in curve.points:
            measures = (one.measures.get(name) for name in MEASURES)
            start = [curve.kind, curve.axis, one.devices, one.load, one.efficiency, one.why]
            yield [*start, *measures]
