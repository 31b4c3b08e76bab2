"""The files of a what-if: its numbers as a table, its waterfall, and a page for a browser."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from clustersim.render import folder
from clustersim.render.frames import write_lines
from clustersim.render.matplotlib import write_figure
from clustersim.render.matplotlib.figure import OPTIONS, warm_up
from clustersim.render.page.page import write_page
from clustersim.render.render_process import Drawing, RenderProcess
from clustersim.studies.whatif.charts import waterfall
from clustersim.studies.whatif.page import page
from clustersim.studies.whatif.text import Values, change_of, link_of

TABLES: Final = (folder.SUMMARY, "whatif.csv", "report.html")
WATERFALL: Final = ("waterfall.csv", *(f"waterfall{ending}" for ending in OPTIONS))
FILES: Final = (*TABLES, *WATERFALL)
"""What the verb leaves; no waterfall where no change can be."""


def write(answer: Values, place: Path, *, command: str = "", force: bool = False) -> list[str]:
    """Write the numbers, the page and the figure into a folder; return the names of the files.

    `command` is what made them.

    Raises
    ------
    ScenarioError
        when the folder is taken, or cannot be written.
    """
    folder.check_free(place, force=force)
    with RenderProcess(warm_up) as process, folder.replacing(place) as new:
        chart = waterfall(answer)
        shown = Drawing(write_page, page(answer, command), new / "report")
        figures = [] if chart is None else [Drawing(write_figure, chart, new / "waterfall")]
        process.begin([shown, *figures])
        files = TABLES if chart is None else FILES
        folder.write_summary(answer, files, new)
        write_lines(_changes(answer), new / "whatif.csv")
        if chart is not None:
            write_lines(chart.rows(), new / "waterfall.csv")
        process.finish()
    return [*files]


def _changes(answer: Values) -> Iterator[Sequence[Any]]:
    """Yield a line for each change, and one for all together."""
    columns = ("verdict", "why", "step_time_s", "saved_s", "saved_fraction", "part", "fits")
    together = [answer["together"]] if answer["together"] else []
    yield ["change", *columns, "bottleneck"]
    for each in [*answer["changes"], *together]:
        link = each["bottleneck"] and link_of(each["bottleneck"]["after"])
        yield [change_of(each), *(each[key] for key in columns), link]


__all__ = ["FILES", "write"]
