"""The files of a sweep of a service: its combinations as a table, the chart and the page."""

from collections.abc import Iterator, Sequence
from typing import Any

from clustersim.render.study_folder import StudyFiles
from clustersim.simulation.service.measures import SERVICE_MEASURES
from clustersim.studies.service_sweep.answer import ServiceSweep
from clustersim.studies.service_sweep.charts import services_chart
from clustersim.studies.service_sweep.page import page


def files_of(answer: ServiceSweep, command: str = "") -> StudyFiles:
    """Return the files of a sweep; `command` is what made it."""
    chart = services_chart(answer)
    charts = {} if chart is None else {"services": chart}
    return StudyFiles(page(answer, command), {"sweep.csv": _rows(answer)}, charts)


def _rows(answer: ServiceSweep) -> Iterator[Sequence[Any]]:
    keys = answer.keys
    yield [*keys, "verdict", "why", *SERVICE_MEASURES]
    for point in answer.points:
        measures = [point.measures.get(name) for name in SERVICE_MEASURES]
        yield [*(point.point.get(key) for key in keys), point.verdict, point.why, *measures]
