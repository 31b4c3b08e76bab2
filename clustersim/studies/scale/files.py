"""The files of `clustersim scale`: a page, and for each kind of curve tables and figures."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from clustersim.render.study_folder import StudyFiles
from clustersim.studies.scale.answer import ScalingAnswer, ScalingCurve
from clustersim.studies.scale.arguments import KINDS
from clustersim.studies.scale.charts import curve_charts, loss_chart
from clustersim.studies.scale.page import page

COLUMNS: Final = ("scenario", "devices", "nodes", "load", "efficiency", "speedup", "fits")
"""Of the table of the points, before the measures."""

PUBLISHED: Final = (
    "devices", "metric", "convention", "value", "predicted", "error", "efficiency", "source",
)  # fmt: skip


def files_of(answer: ScalingAnswer, command: str = "") -> StudyFiles:
    """Return the files of a study; `command` is what made it."""
    tables: dict[str, Iterator[Sequence[Any]]] = {"published.csv": _published(answer)}
    figures: dict[str, Any] = {}
    for kind in KINDS:
        curves = [curve for curve in answer.curves if curve.scaling == kind and curve.points]
        if curves:
            several = len(curves) > 1
            tables |= {f"{kind}.csv": _points(curves), f"{kind}-loss.csv": _losses(curves)}
            figures[kind] = curve_charts(curves)
            figures[f"{kind}-loss"] = [loss_chart(curve, named=several) for curve in curves]
    return StudyFiles(page(answer, command), tables, figures)


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
