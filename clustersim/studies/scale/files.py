"""The files of `clustersim scale`: a page, and for each kind of curve tables and figures."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from clustersim.render.study_folder import StudyFiles
from clustersim.studies.scale.answer import ScalingAnswer, ScalingCurve, ScalingPoint
from clustersim.studies.scale.arguments import KINDS
from clustersim.studies.scale.charts import curve_charts, loss_chart
from clustersim.studies.scale.page import page

COLUMNS: Final = (
    "name", "scenario", "devices", "nodes", "batch", "step_time_s", "tokens_per_s",
    "tokens_per_s_per_device", "tflops_per_device_model", "tflops_per_device_hardware",
    "tflops_per_device_executed", "efficiency", "speedup", "bubble_fraction", "exposed_fraction",
    "memory_peak_bytes", "fits",
)  # fmt: skip
"""Of the table of the points."""

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
    yield COLUMNS
    for curve in curves:
        for point in curve.points:
            yield [curve.name, *_cells(point)]


def _cells(point: ScalingPoint) -> list[Any]:
    cells = {
        **vars(point),
        "tflops_per_device_model": point.tflops_per_device.model,
        "tflops_per_device_hardware": point.tflops_per_device.hardware,
        "tflops_per_device_executed": point.tflops_per_device.executed,
        "memory_peak_bytes": point.memory.peak_bytes,
        "fits": point.memory.fits,
    }
    return [cells[column] for column in COLUMNS[1:]]


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
