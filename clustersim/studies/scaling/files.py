"""The files of `clustersim scale`: the answer, and for each kind of curve a figure and its data."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clustersim.render import folder
from clustersim.render.charts import Waterfall
from clustersim.render.frames import write_lines
from clustersim.render.matplotlib import write_figure
from clustersim.render.matplotlib.figure import OPTIONS, warm_up
from clustersim.render.page.page import write_page
from clustersim.render.render_process import Drawing, RenderProcess
from clustersim.studies.scaling.charts import curve_charts, loss_chart
from clustersim.studies.scaling.page import page

Values = Mapping[str, Any]

KINDS: Final = ("weak", "strong")
LOSS: Final = "{}-loss"
PUBLISHED: Final = "published.csv"
PAGE: Final = "report.html"

COLUMNS: Final = (
    "name", "scenario", "devices", "nodes", "batch", "step_time_s", "tokens_per_s",
    "tokens_per_s_per_device", "tflops_per_device_model", "tflops_per_device_hardware",
    "efficiency", "speedup", "bubble_fraction", "exposed_fraction", "memory_peak_bytes", "fits",
)  # fmt: skip
"""Of the table of a curve."""


def names(answer: Values) -> list[str]:
    """Return the files that are written for an answer, the summary first."""
    found = [folder.SUMMARY, PAGE, PUBLISHED]
    for kind in KINDS:
        if drawn(answer, kind):
            stems = (kind, LOSS.format(kind))
            found += [f"{stem}{end}" for stem in stems for end in (".csv", *OPTIONS)]
    return found


def drawn(answer: Values, kind: str) -> list[Values]:
    """Return the curves of a kind that have points."""
    return [each for each in answer["curves"] if each["scaling"] == kind and each["points"]]


def write(answer: Values, place: Path, *, command: str = "", force: bool = False) -> list[str]:
    """Write the answer, its tables and figures into a folder; return the names of the files.

    `command` is what made them.

    Raises
    ------
    ScenarioError
        when the folder is taken, or cannot be written.
    """
    folder.check_free(place, force=force)
    with RenderProcess(warm_up) as process, folder.replacing(place) as new:
        kinds = [(kind, curves) for kind in KINDS if (curves := drawn(answer, kind))]
        drawings = [
            drawing
            for kind, curves in kinds
            for drawing in (
                Drawing(write_figure, curve_charts(curves), new / kind),
                Drawing(write_figure, _loss_charts(curves), new / LOSS.format(kind)),
            )
        ]
        shown = Drawing(write_page, page(answer, command), new / Path(PAGE).stem)
        process.begin([*drawings, shown])
        files = names(answer)
        folder.write_summary(answer, files, new)
        for kind, curves in kinds:
            points = map(_row, *_pairs(curves))
            write_lines([COLUMNS, *points], new / f"{kind}.csv")
            write_lines(_losses(curves), new / f"{LOSS.format(kind)}.csv")
        write_lines(_published(answer), new / PUBLISHED)
        process.finish()
    return files


def _loss_charts(curves: Sequence[Values]) -> list[Waterfall]:
    return [loss_chart(curve, named=len(curves) > 1) for curve in curves]


def _pairs(curves: Sequence[Values]) -> tuple[list[Values], list[Values]]:
    both = [(curve, point) for curve in curves for point in curve["points"]]
    return [curve for curve, _ in both], [point for _, point in both]


def _row(curve: Values, point: Values) -> list[Any]:
    flat = {
        **point,
        "name": curve["name"],
        "tflops_per_device_model": point["tflops_per_device"]["model"],
        "tflops_per_device_hardware": point["tflops_per_device"]["hardware"],
        "memory_peak_bytes": point["memory"]["peak_bytes"],
        "fits": point["memory"]["fits"],
    }
    return [flat[column] for column in COLUMNS]


def _losses(curves: Sequence[Values]) -> Iterator[Sequence[Any]]:
    yield ["name", "devices", "part", "share"]
    for curve, point in zip(*_pairs(curves), strict=True):
        for part, share in point["loss"].items():
            yield [curve["name"], point["devices"], part, share]


def _published(answer: Values) -> Iterator[Sequence[Any]]:
    columns = (
        "devices", "metric", "convention", "value", "predicted", "error", "efficiency", "source",
    )  # fmt: skip
    yield ["name", "scaling", *columns]
    for curve in answer["curves"]:
        for each in curve["published"]:
            yield [curve["name"], curve["scaling"], *(each[column] for column in columns)]


__all__ = ["drawn", "names", "write"]
