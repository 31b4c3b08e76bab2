"""The files of a whole training run: its charts with their data, and a page for a browser."""

from collections.abc import Iterator, Sequence
from typing import Any

from clustersim.render.study_folder import StudyFiles
from clustersim.reports.training_run.charts import charts_of
from clustersim.reports.training_run.page import page
from clustersim.simulation.training_run.answer import TrainAnswer


def files_of(answer: TrainAnswer, command: str = "") -> StudyFiles:
    """Return the files of an answer; `command` is what made it."""
    charts = charts_of(answer)
    tables = {"causes.csv": _causes(answer)}
    tables |= {f"{stem}.csv": chart.rows() for stem, chart in charts.items()}
    return StudyFiles(page(answer, command), tables, charts)


def _causes(answer: TrainAnswer) -> Iterator[Sequence[Any]]:
    yield ["cause", "failures", "restart_s"]
    for cause in answer.causes:
        yield [cause.name, cause.count, cause.restart_s]
