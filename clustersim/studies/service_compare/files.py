"""The files of a comparison of services: numbers and inputs as tables, waterfalls, the page."""

from collections.abc import Iterator, Sequence
from typing import Any

from clustersim.render.study_folder import StudyFiles
from clustersim.simulation.service.measures import SERVICE_MEASURES, service_measures
from clustersim.studies.service_compare.answer import CompareServicesAnswer
from clustersim.studies.service_compare.charts import token_waterfall
from clustersim.studies.service_compare.page import page


def files_of(answer: CompareServicesAnswer, command: str = "") -> StudyFiles:
    """Return the files of a comparison; `command` is what made it."""
    charts = {
        "waterfall" if place == 2 else f"waterfall-{place}": chart
        for place, comparison in enumerate(answer.comparisons, 2)
        if (chart := token_waterfall(comparison)) is not None
    }
    tables = {"compare.csv": _numbers(answer), "inputs.csv": _inputs(answer)}
    tables |= {f"{stem}.csv": chart.rows() for stem, chart in charts.items()}
    return StudyFiles(page(answer, command), tables, charts)


def _numbers(answer: CompareServicesAnswer) -> Iterator[Sequence[Any]]:
    """Yield a line for each measure, a column for each service."""
    yield ["measure", *(one.name for one in answer.services)]
    found = [service_measures(one.answer) for one in answer.services]
    for name in SERVICE_MEASURES:
        yield [name, *(measures.get(name) for measures in found)]


def _inputs(answer: CompareServicesAnswer) -> Iterator[Sequence[Any]]:
    yield ["service", "path", "before", "after", "values"]
    for comparison in answer.comparisons:
        for value in comparison.inputs:
            yield [comparison.after, value.path, value.before, value.after, value.values]
