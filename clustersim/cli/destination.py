"""Where the answer of a command goes: lines or one JSON object, and an output folder.

destination (checked) -> the study runs -> report: write the files, then print
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from clustersim.cli.options import figure_formats, print_json
from clustersim.escaping import file_name

if TYPE_CHECKING:
    from clustersim.render.study_folder import StudyFiles
    from clustersim.render.tables import Row

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Destination:
    """Where the answer of a command goes.

    Attributes
    ----------
    folder : output folder; None if only one JSON object is printed
    formats : of the figures in the folder
    as_json : print one JSON object instead of lines
    force : write to a folder with other files, which are kept
    """

    folder: Path | None
    formats: tuple[str, ...]
    as_json: bool
    force: bool

    def report(
        self,
        answer: Answer,
        files: "Callable[[], StudyFiles]",
        show: "Callable[[Answer, list[Row]], None]",
    ) -> None:
        """Write the files of an answer, then print it.

        Parameters
        ----------
        files : returns the contents of the folder; called only if there is one
        show : prints the answer as lines, and the row with the names of the files, if any
        """
        written = self.write(answer, files)
        if self.as_json:
            print_json(answer)
        else:
            show(answer, written)

    def write(self, answer: object, files: "Callable[[], StudyFiles]") -> "list[Row]":
        """Write the files of an answer; return the row with their names, if there is a folder."""
        if self.folder is None:
            return []
        from clustersim.render import tables
        from clustersim.render.study_folder import write_study

        names = write_study(answer, files(), self.folder, formats=self.formats, force=self.force)
        return [tables.files(self.folder, names)]


def destination(
    name: str, out: Path | None, figures: str | None, *, as_json: bool, force: bool
) -> Destination:
    """Return the destination of an answer, its folder checked before anything is run.

    Parameters
    ----------
    name : of the folder in ``runs/`` without ``--out``; ``--json`` alone needs no folder

    Raises
    ------
    ScenarioError
        when a format is unknown, or the folder has other files (unless `force`).
    """
    formats = figure_formats(figures)
    if as_json and out is None:
        return Destination(None, formats, as_json, force)
    from clustersim.render.folder import check_free

    folder = out or Path("runs") / file_name(name)
    check_free(folder, force=force)
    return Destination(folder, formats, as_json, force)
