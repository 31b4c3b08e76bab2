"""The files of a comparison: its numbers as tables, its waterfalls, and a page for a browser."""

from collections.abc import Iterator, Sequence
from typing import Any

from clustersim.render.charts import Waterfall
from clustersim.render.study_folder import StudyFiles
from clustersim.studies.compare.answer import CompareAnswer, Comparison
from clustersim.studies.compare.charts import run_waterfall, waterfalls
from clustersim.studies.compare.page import page


def files_of(answer: CompareAnswer, command: str = "") -> StudyFiles:
    """Return the files of a comparison; `command` is what made it."""
    charts = dict(_waterfalls(answer.comparisons))
    tables = {"compare.csv": _numbers(answer), "inputs.csv": _inputs(answer.comparisons)}
    tables |= {f"{stem}.csv": chart.rows() for stem, chart in charts.items()}
    return StudyFiles(page(answer, command), tables, charts)


def _waterfalls(comparisons: Sequence[Comparison]) -> Iterator[tuple[str, Waterfall]]:
    """Yield the waterfalls with the names of their files."""
    for place, comparison in enumerate(comparisons, 2):
        number = "" if place == 2 else f"-{place}"
        run = run_waterfall(comparison)
        if run is not None:
            yield f"waterfall-run{number}", run
        step, *token = waterfalls(comparison)
        yield f"waterfall{number}", step
        for chart in token:
            yield f"waterfall-token{number}", chart


def _numbers(answer: CompareAnswer) -> Iterator[Sequence[Any]]:
    """Yield a line for each number, a column for each run."""
    yield ["measure", *(run.name for run in answer.runs)]
    for name, first in answer.comparisons[0].differences.items():
        others = (comparison.differences[name].after for comparison in answer.comparisons)
        yield [name, first.before, *others]


def _inputs(comparisons: Sequence[Comparison]) -> Iterator[Sequence[Any]]:
    yield ["run", "path", "before", "after", "values"]
    for comparison in comparisons:
        for value in comparison.inputs:
            yield [comparison.after, value.path, value.before, value.after, value.values]
