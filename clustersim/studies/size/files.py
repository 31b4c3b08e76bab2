"""The files of a sizing: sizes and laws as tables, the loss as a figure, and a page."""

from collections.abc import Iterator, Sequence
from typing import Any

from clustersim.render.study_folder import StudyFiles
from clustersim.studies.size.answer import SizeAnswer
from clustersim.studies.size.charts import loss_by_size
from clustersim.studies.size.page import page


def files_of(answer: SizeAnswer, command: str = "") -> StudyFiles:
    """Return the files of a sizing; `command` is what made it."""
    chart = loss_by_size(answer)
    tables = {"sizes.csv": _sizes(answer), "laws.csv": _laws(answer)}
    return StudyFiles(page(answer, command), tables, {} if chart is None else {"loss": chart})


def _sizes(answer: SizeAnswer) -> Iterator[Sequence[Any]]:
    columns = ("model", "parameters", "tokens", "loss", "tokens_per_s", "mfu")
    layout = ("tensor", "pipeline", "data", "zero", "micro", "batch", "recompute", "step_time_s")
    yield [*columns, *layout]
    for one in answer.sizes:
        of_layout = (getattr(one.layout, name) for name in layout)
        yield [*(getattr(one, name) for name in columns), *of_layout]


def _laws(answer: SizeAnswer) -> Iterator[Sequence[Any]]:
    columns = ("law", "parameters", "tokens", "tokens_per_parameter", "loss", "extrapolated")
    yield [*columns, "source"]
    for law in answer.laws:
        yield [*(getattr(law, name) for name in columns), law.source]
