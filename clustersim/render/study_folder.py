"""The files of an answer: its summary, a page for a browser, tables and figures.

summary.json   report.html   NAME.csv ...   NAME.png, NAME.svg, NAME.pdf with --figures

The same pages, tables and figures are what an answer shows in a notebook.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clustersim.answers import to_json
from clustersim.errors import ScenarioError
from clustersim.records import dataclass
from clustersim.render import folder
from clustersim.render.charts.picture import Drawn
from clustersim.render.drawn import Charts
from clustersim.render.frames import Frame, Rows, frame_of, write_table
from clustersim.render.matplotlib import write_figure
from clustersim.render.page.page import Page, summary_html, write_page
from clustersim.render.render_process import Drawing, RenderProcess
from clustersim.suggestions import nearest

if TYPE_CHECKING:
    import pandas as pd

PAGE: Final = "report.html"


@dataclass(frozen=True)
class StudyFiles:
    """What a folder or a notebook shows of an answer.

    Attributes
    ----------
    answer : the object of the summary
    make_page : returns the page
    tables : rows of CSV files, by file name
    figures : one picture, or several one above the other, by file name without ending
    frames : tables that are written as CSV or Parquet, by file name
    others : functions that write further files, by file name
    figure_tables : further tables of what figures show, which are written with them
    keys : further keys of the summary
    """

    answer: Any
    make_page: Callable[[], Page]
    tables: Mapping[str, Rows]
    figures: Mapping[str, Drawn] = field(default_factory=dict)
    frames: Mapping[str, Frame] = field(default_factory=dict)
    others: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)
    figure_tables: Mapping[str, Frame | Rows] = field(default_factory=dict)
    keys: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def page(self) -> Page:
        """The page, made when it is first needed."""
        return self.make_page()

    def names(self, formats: Sequence[str] = ()) -> list[str]:
        """Return the names of all files with the figures in some formats, the summary first."""
        figures = [f"{stem}.{format}" for stem in self.figures for format in formats]
        drawn = [*figures, *(self.figure_tables if formats else ())]
        return [folder.SUMMARY, PAGE, *self.tables, *self.frames, *self.others, *drawn]

    # --- in a folder ------------------------------------------------------------------------------

    def write(
        self,
        place: Path,
        *,
        formats: Sequence[str] = (),
        force: bool = False,
        process: RenderProcess | None = None,
    ) -> list[str]:
        """Write all files into a folder; return their names.

        Parameters
        ----------
        formats : of the figures; without formats no figures are written
        process : draws the figures, while everything else is written here

        Raises
        ------
        ScenarioError
            when the folder contains other files (unless `force`), or cannot be written.
        """
        folder.check_free(place, force=force)
        with folder.replacing(place) as new:
            draw = partial(write_figure, formats=formats)
            figures = self.figures if formats else {}
            drawings = [Drawing(draw, figure, new / stem) for stem, figure in figures.items()]
            if process is not None:
                process.begin(drawings)
            self._write_others(new, formats)
            if process is not None:
                process.finish()
            else:
                for drawing in drawings:
                    drawing.make()
        return self.names(formats)

    def _write_others(self, new: Path, formats: Sequence[str]) -> None:
        """Write everything but the figures."""
        folder.write_summary({**to_json(self.answer), **self.keys}, self.names(formats), new)
        write_page(self.page, new / Path(PAGE).stem)
        drawn = self.figure_tables if formats else {}
        for name, table in {**self.tables, **self.frames, **drawn}.items():
            write_table(table, new / name)
        for name, write in self.others.items():
            write(new / name)

    # --- in a notebook ----------------------------------------------------------------------------

    @property
    def charts(self) -> Charts:
        """The figures, each a method that draws it."""
        return Charts(self.figures)

    def frame(self, name: str | None = None) -> "pd.DataFrame":
        """Return a table as a data frame: of a file, with or without its ending, or the first.

        Raises
        ------
        ScenarioError
            when there is no such table, in one line with the names.
        """
        tables = {**self.frames, **self.tables, **self.figure_tables}
        by_stem = {Path(file).stem: file for file in reversed(tables)}
        stems = [*reversed(by_stem)]
        chosen = by_stem.get(stems[0] if name is None else name, name)
        if chosen not in tables:
            raise ScenarioError(
                f"table '{name}': no such table{nearest(str(name), stems)}"
                f" (this answer has {', '.join(stems)})"
            )
        return frame_of(tables[chosen])

    def html(self) -> str:
        """Return the first numbers of the page, and what else the answer shows, as HTML."""
        stems = dict.fromkeys(Path(file).stem for file in (*self.frames, *self.tables))
        return summary_html(self.page, [*self.charts], [*stems])
