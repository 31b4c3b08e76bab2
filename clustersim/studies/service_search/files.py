"""The files of a search of a service: the simulated layouts as a table, the charts, the page."""

from collections.abc import Iterator, Sequence
from typing import Any

from clustersim.render.study_folder import StudyFiles
from clustersim.studies.service_search.answer import ServiceSearch
from clustersim.studies.service_search.bounded_search import SERVICE
from clustersim.studies.service_search.charts import bound_chart, speed_chart
from clustersim.studies.service_search.page import page
from clustersim.studies.service_search.text import found_text


def files_of(answer: ServiceSearch, command: str = "") -> StudyFiles:
    """Return the files of a search; `command` is what made it."""
    found = {"speed": speed_chart(answer), "bounds": bound_chart(answer)}
    charts = {name: chart for name, chart in found.items() if chart is not None}
    return StudyFiles(page(answer, command), {"search.csv": _rows(answer)}, charts)


def _rows(answer: ServiceSearch) -> Iterator[Sequence[Any]]:
    yield ["layout", "missed", "bound", *SERVICE]
    for found in answer.simulated:
        measures = (found.measures.get(name) for name in SERVICE)
        yield [found_text(found), found.missed, found.bound, *measures]
