"""The files of a service: its answer, requests and load curve as tables, figures and the page."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from clustersim.render.charts import Picture
from clustersim.render.study_folder import StudyFiles
from clustersim.reports.service.charts import kv_chart, load_charts, request_strip, token_chart
from clustersim.reports.service.page import page
from clustersim.simulation.service.answer import LoadPoint

if TYPE_CHECKING:
    from clustersim.scenario.load import LoadedService
    from clustersim.simulation.service.result import ServeResult


def files_of(
    result: "ServeResult",
    loaded: "LoadedService",
    command: str = "",
) -> StudyFiles:
    """Return the files of a service; parameters as of `page`."""
    figures: dict[str, Picture | Sequence[Picture]] = {}
    tables = {"load.csv": _curve(result.curve)} if result.curve else {}
    if charts := load_charts(result):
        figures["load"] = charts
    if result.replayed is not None:
        figures["token"] = token_chart(result)
        figures["requests"] = request_strip(result)
        figures["kv"] = kv_chart(result)
    frames = {"requests.csv": result.frame} if result.replayed is not None else {}
    return StudyFiles(page(result, loaded, command), tables, figures, frames)


def _curve(curve: Sequence[LoadPoint]) -> Iterator[Sequence[Any]]:
    names = [field.name for field in fields(LoadPoint)]
    yield names
    for point in curve:
        yield [getattr(point, name) for name in names]
