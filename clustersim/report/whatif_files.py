"""The files of a what-if: its numbers as a table, its waterfall, and a page for a browser."""

import csv
from pathlib import Path
from typing import Final

from clustersim.report import folder
from clustersim.report.artist import Artist, Drawing
from clustersim.report.page import of_whatif
from clustersim.report.paper import OPTIONS
from clustersim.report.waterfall import draw_waterfall, write_csv
from clustersim.report.whatif import Values, change_of, link_of
from clustersim.report.whatif_picture import picture

TABLES: Final = (folder.SUMMARY, "whatif.csv", "report.html")
WATERFALL: Final = ("waterfall.csv", *(f"waterfall{ending}" for ending in OPTIONS))
FILES: Final = (*TABLES, *WATERFALL)
"""What the verb leaves; no waterfall where no change can be."""


def write(answer: Values, place: Path, *, command: str = "", force: bool = False) -> None:
    """Write the numbers, the page and the figure into a folder; `command` is what made them.

    Raises
    ------
    ScenarioError
        when the folder is taken, or cannot be written.
    """
    folder.check_free(place, force=force)
    with Artist() as artist, folder.replacing(place) as new:
        drawn = picture(answer)
        page = Drawing(of_whatif.write, of_whatif.page(answer, command), new / "report")
        fall = [] if drawn is None else [Drawing(draw_waterfall, drawn, new / "waterfall")]
        artist.begin([page, *fall])
        files = TABLES if drawn is None else FILES
        folder.write_summary(answer, files, new)
        _write_table(answer, new / "whatif.csv")
        if drawn is not None:
            write_csv(drawn, new / "waterfall.csv")
        artist.finish()


def _write_table(answer: Values, path: Path) -> None:
    columns = ("verdict", "why", "step_time_s", "saved_s", "saved_fraction", "part", "fits")
    together = [answer["together"]] if answer["together"] else []
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["change", *columns, "bottleneck"])
        for each in [*answer["changes"], *together]:
            link = each["bottleneck"] and link_of(each["bottleneck"]["after"])
            writer.writerow([change_of(each), *(each[key] for key in columns), link])


__all__ = ["FILES", "write"]
