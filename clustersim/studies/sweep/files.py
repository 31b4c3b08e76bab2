"""The folder of a sweep: its rows as tables, its figures, what ``--json`` prints."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clustersim.render import folder
from clustersim.render.matplotlib import write_figure
from clustersim.render.page.page import write_page
from clustersim.studies.sweep.charts import cost_label, costs, front_chart, layouts_chart
from clustersim.studies.sweep.page import page
from clustersim.studies.sweep.text import UNITS
from clustersim.studies.sweep.told import Told

if TYPE_CHECKING:
    import pandas as pd

FILES: Final = (folder.SUMMARY, "report.html", "sweep.csv", "sweep.parquet")
PARETO: Final = "pareto.csv"
FIGURES: Final = ("sweep", "pareto")
"""Files of a sweep; a figure if an axis has several values, a front if several layouts fit."""


def write(
    sweep: Told,
    table: "pd.DataFrame",
    place: Path,
    *,
    command: str = "",
    formats: Sequence[str] = (),
    force: bool = False,
) -> list[str]:
    """Write the page, the tables and the figures of a sweep; return the names of the files.

    Parameters
    ----------
    table : a row for each combination
    command : the command line, for the page
    formats : of the figures; without formats no figures are written

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
        files, charts = [*FILES], []
        if sweep.free:
            charts.append(layouts_chart(sweep))
        if len(sweep.ranked) > 1:
            write_csv(front_frame(sweep), new / PARETO)
            files.append(PARETO)
            charts.append(front_chart(sweep))
        for chart, stem in zip(charts, FIGURES, strict=False) if formats else ():
            write_figure(chart, new / stem, formats)
            files += [f"{stem}.{format}" for format in formats]
        folder.write_summary(sweep.answer, files, new)
    return files


def front_frame(sweep: Told) -> "pd.DataFrame":
    """Return the layouts that fit with their costs, the best first, and which are on the front."""
    import pandas as pd

    front = {row["position"] for row in sweep.front}
    rows = [
        {
            **{key: row.get(key) for key in sweep.axes},
            cost_label(sweep): cost,
            UNITS[sweep.by]: row[sweep.by],
            "on_the_front": row["position"] in front,
        }
        for row, cost in zip(sweep.ranked, costs(sweep), strict=True)
    ]
    return pd.DataFrame(rows)


def write_csv(found: "pd.DataFrame", path: Path) -> None:
    """Write a table with all digits, as it can be read back."""
    found.to_csv(path, index=False, lineterminator="\n")


__all__ = ["FIGURES", "FILES", "PARETO", "write", "write_csv"]
