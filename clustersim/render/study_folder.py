"""The output folder of a study: its summary, a page for a browser, tables and figures.

    summary.json   report.html   NAME.csv ...   NAME.png, NAME.svg, NAME.pdf ...

The page and the figures are drawn by a second process while this one writes the tables.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from clustersim.answers import to_json
from clustersim.render import folder
from clustersim.render.charts import Picture
from clustersim.render.frames import write_lines
from clustersim.render.matplotlib import write_figure
from clustersim.render.matplotlib.figure import OPTIONS, warm_up
from clustersim.render.page.page import Page, write_page
from clustersim.render.render_process import Drawing, RenderProcess

PAGE: Final = "report.html"


@dataclass(frozen=True)
class StudyFiles:
    """The contents of the folder, apart from the summary.

    Attributes
    ----------
    page : none where the study has no page
    tables : rows of each CSV file, by its name, the headings first
    figures : one picture, or several one above the other, by file name without ending
    """

    page: Page | None
    tables: Mapping[str, Iterable[Sequence[Any]]]
    figures: Mapping[str, Picture | Sequence[Picture]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of all files, the summary first."""
        page = [] if self.page is None else [PAGE]
        figures = [f"{stem}{ending}" for stem in self.figures for ending in OPTIONS]
        return [folder.SUMMARY, *page, *self.tables, *figures]


def write_study(answer: Any, files: StudyFiles, place: Path, *, force: bool = False) -> list[str]:
    """Write an answer and its files into a folder; return the names of the files.

    Raises
    ------
    ScenarioError
        when the folder contains other files (unless `force`), or cannot be written.
    """
    folder.check_free(place, force=force)
    with RenderProcess(warm_up) as process, folder.replacing(place) as new:
        drawings = [
            Drawing(write_figure, figure, new / stem) for stem, figure in files.figures.items()
        ]
        if files.page is not None:
            drawings.append(Drawing(write_page, files.page, new / Path(PAGE).stem))
        process.begin(drawings)
        folder.write_summary(to_json(answer), files.names, new)
        for name, rows in files.tables.items():
            write_lines(rows, new / name)
        process.finish()
    return files.names


__all__ = ["PAGE", "StudyFiles", "write_study"]
