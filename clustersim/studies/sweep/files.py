"""The folder of a sweep: its rows as tables, its figures, what ``--json`` prints."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from clustersim.render import folder
from clustersim.render.page.page import write_page
from clustersim.studies.sweep.figure import draw_sweep
from clustersim.studies.sweep.front import draw_pareto, pareto_picture
from clustersim.studies.sweep.page import page
from clustersim.studies.sweep.picture import sweep_picture
from clustersim.studies.sweep.told import Told

if TYPE_CHECKING:
    import pandas as pd

FILES: Final = (folder.SUMMARY, "report.html", "sweep.csv", "sweep.parquet")
SWEEP: Final = ("sweep.png", "sweep.svg")
PARETO: Final = ("pareto.csv", "pareto.png", "pareto.svg")
FIGURES: Final = (*SWEEP, *PARETO)
"""What a sweep leaves; figures where an axis has several values, a front where several fit."""


def write(
    sweep: Told, table: "pd.DataFrame", place: Path, *, command: str = "", force: bool = False
) -> list[str]:
    """Write the page, the tables and the figures of a sweep; return the names of the files.

    Parameters
    ----------
    table : a row for each combination
    command : what made it

    Raises
    ------
    ScenarioError
        when the folder is taken, or cannot be written.
    """
    folder.check_free(place, force=force)
    with folder.replacing(place) as new:
        write_csv(table, new / "sweep.csv")
        table.to_parquet(new / "sweep.parquet", index=False)
        write_page(page(sweep, command), new / "report")
        files: tuple[str, ...] = FILES
        if sweep.free:
            draw_sweep(sweep_picture(sweep), new / "sweep")
            files += SWEEP
        if len(sweep.ranked) > 1:
            picture = pareto_picture(sweep)
            write_csv(picture.frame(), new / "pareto.csv")
            draw_pareto(picture, new / "pareto")
            files += PARETO
        folder.write_summary(sweep.answer, files, new)
    return [*files]


def write_csv(found: "pd.DataFrame", path: Path) -> None:
    """Write a table with all digits, as it can be read back."""
    found.to_csv(path, index=False, lineterminator="\n")


__all__ = ["FIGURES", "FILES", "PARETO", "SWEEP", "write", "write_csv"]
