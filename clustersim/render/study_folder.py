"""The output folder of a study: its summary, a page for a browser, tables and figures.

summary.json   report.html   NAME.csv ...   NAME.png, NAME.svg, NAME.pdf with --figures
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clustersim.answers import to_json
from clustersim.render import folder
from clustersim.render.frames import write_lines
from clustersim.render.matplotlib import Drawn, write_figure
from clustersim.render.page.page import Page, write_page

if TYPE_CHECKING:
    import pandas as pd

PAGE: Final = "report.html"


@dataclass(frozen=True)
class StudyFiles:
    """The contents of the folder, apart from the summary.

    Attributes
    ----------
    page : none where the study has no page
    tables : rows of each CSV file, by its name, the headings first
    figures : one picture, or several one above the other, by file name without ending
    frames : data frames that are written as CSV or Parquet, by file name
    """

    page: Page | None
    tables: Mapping[str, Iterable[Sequence[Any]]]
    figures: Mapping[str, Drawn] = field(default_factory=dict)
    frames: Mapping[str, "pd.DataFrame"] = field(default_factory=dict)

    def names(self, formats: Sequence[str] = ()) -> list[str]:
        """Return the names of all files with the figures in some formats, the summary first."""
        page = [] if self.page is None else [PAGE]
        figures = [f"{stem}.{format}" for stem in self.figures for format in formats]
        return [folder.SUMMARY, *page, *self.tables, *self.frames, *figures]


def write_study(
    answer: Any,
    files: StudyFiles,
    place: Path,
    *,
    formats: Sequence[str] = (),
    force: bool = False,
) -> list[str]:
    """Write an answer and its files into a folder; return the names of the files.

    Parameters
    ----------
    formats : of the figures; without formats no figures are written

    Raises
    ------
    ScenarioError
        when the folder contains other files (unless `force`), or cannot be written.
    """
    folder.check_free(place, force=force)
    with folder.replacing(place) as new:
        folder.write_summary(to_json(answer), files.names(formats), new)
        if files.page is not None:
            write_page(files.page, new / Path(PAGE).stem)
        for name, rows in files.tables.items():
            write_lines(rows, new / name)
        for name, frame in files.frames.items():
            write_frame(frame, new / name)
        for stem, figure in files.figures.items() if formats else ():
            write_figure(figure, new / stem, formats)
    return files.names(formats)


def write_frame(frame: "pd.DataFrame", path: Path) -> None:
    """Write a data frame as CSV, with all digits, or as Parquet, by the ending of the path."""
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False, lineterminator="\n")
