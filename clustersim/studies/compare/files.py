"""The files of a comparison: its measures and inputs as tables, its waterfalls, and the page."""

from collections.abc import Iterator, Sequence
from typing import Any

from clustersim.render.charts import Waterfall
from clustersim.render.study_folder import StudyFiles
from clustersim.studies.compare.answer import CompareAnswer, Comparison
from clustersim.studies.compare.page import page
from clustersim.studies.compare.text import waterfalls


def files_of(answer: CompareAnswer, command: str = "") -> StudyFiles:
    """Return the files of a comparison; `command` is what made it."""
    charts = dict(_waterfalls(answer))
    tables = {"compare.csv": _numbers(answer), "inputs.csv": _inputs(answer.comparisons)}
    tables |= {f"{stem}.csv": chart.rows() for stem, chart in charts.items()}
    return StudyFiles(page(answer, command), tables, charts)


def _waterfalls(answer: CompareAnswer) -> Iterator[tuple[str, Waterfall]]:
    """Yield the waterfalls with the names of their files: `waterfall`, `waterfall-run-2`, ..."""
    for number, comparison in enumerate(answer.comparisons, 2):
        for account, chart in waterfalls(comparison, answer).items():
            words = ["waterfall"] if account == comparison.account else ["waterfall", account]
            words += [str(number)] if number > 2 else []
            yield "-".join(words).replace(" ", "-"), chart


def _numbers(answer: CompareAnswer) -> Iterator[Sequence[Any]]:
    """Yield a line for each measure, a column for each answer."""
    yield ["measure", *(run.name for run in answer.runs)]
    numbers = [run.answer.measures() for run in answer.runs]
    for name in dict.fromkeys(name for each in numbers for name in each):
        yield [name, *(each.get(name) for each in numbers)]


def _inputs(comparisons: Sequence[Comparison]) -> Iterator[Sequence[Any]]:
    yield ["run", "path", "before", "after", "values"]
    for comparison in comparisons:
        for value in comparison.inputs:
            yield [comparison.after, value.path, value.before, value.after, value.values]
