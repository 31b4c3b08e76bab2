"""The files of a comparison: its numbers as tables, its waterfalls, and a page for a browser."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from clustersim.render import folder
from clustersim.render.charts import Waterfall
from clustersim.render.frames import write_lines
from clustersim.render.matplotlib import write_figure
from clustersim.render.matplotlib.figure import OPTIONS, warm_up
from clustersim.render.page.page import write_page
from clustersim.render.render_process import Drawing, RenderProcess
from clustersim.studies.compare.charts import Values, waterfalls
from clustersim.studies.compare.page import page

TABLES: Final = (folder.SUMMARY, "compare.csv", "inputs.csv", "report.html")
ENDINGS: Final = (".csv", *OPTIONS)
FILES: Final = (*TABLES, *(f"waterfall{ending}" for ending in ENDINGS))
"""What the verb leaves; more waterfalls where there are more runs, or unlike batches."""


def write(answer: Values, place: Path, *, command: str = "", force: bool = False) -> list[str]:
    """Write the numbers, the page and the figures into a folder; return the names of the files.

    `command` is what made them.

    Raises
    ------
    ScenarioError
        when the folder is taken, or cannot be written.
    """
    folder.check_free(place, force=force)
    with RenderProcess(warm_up) as process, folder.replacing(place) as new:
        stems = dict(_stems(answer["comparisons"]))
        drawings = [Drawing(write_figure, chart, new / stem) for stem, chart in stems.items()]
        shown = Drawing(write_page, page(answer, command), new / "report")
        process.begin([*drawings, shown])
        more = (f"{stem}{ending}" for stem in stems for ending in ENDINGS)
        files = [*TABLES, *more]
        folder.write_summary(answer, files, new)
        write_lines(_measured(answer), new / "compare.csv")
        write_lines(_changed(answer["comparisons"]), new / "inputs.csv")
        for stem, chart in stems.items():
            write_lines(chart.rows(), new / f"{stem}.csv")
        process.finish()
    return files


def _stems(comparisons: Sequence[Values]) -> Iterator[tuple[str, Waterfall]]:
    """Yield the waterfalls with the names of their files."""
    for place, found in enumerate(comparisons, 2):
        number = "" if place == 2 else f"-{place}"
        step, *token = waterfalls(found)
        yield f"waterfall{number}", step
        for chart in token:
            yield f"waterfall-token{number}", chart


def _measured(answer: Values) -> Iterator[Sequence[Any]]:
    """Yield a line for each number, a column for each run."""
    comparisons = answer["comparisons"]
    yield ["measure", *(run["name"] for run in answer["runs"])]
    for measure, first in comparisons[0]["differences"].items():
        others = (found["differences"][measure]["after"] for found in comparisons)
        yield [measure, first["before"], *others]


def _changed(comparisons: Sequence[Values]) -> Iterator[Sequence[Any]]:
    yield ["run", "path", "before", "after", "values"]
    for found in comparisons:
        for each in found["inputs"]:
            yield [found["after"], *(each[key] for key in ("path", "before", "after", "values"))]


__all__ = ["FILES", "write"]
