"""The files of a sweep: its rows as tables, the front, its figures, and a page for a browser."""

from typing import TYPE_CHECKING

from clustersim.render.charts import Picture
from clustersim.render.study_folder import StudyFiles
from clustersim.runs.table import data_frame
from clustersim.studies.sweep.answer import SweepAnswer
from clustersim.studies.sweep.charts import cost_label, costs, front_chart, layouts_chart, with_cost
from clustersim.studies.sweep.page import page

if TYPE_CHECKING:
    import pandas as pd


def files_of(answer: SweepAnswer, command: str = "") -> StudyFiles:
    """Return the files of a sweep.

    There is a figure if an axis has several values, and a front if several layouts fit.

    Parameters
    ----------
    command : command line, for the page
    """
    rows = data_frame([{k: v for k, v in row.items() if k != "position"} for row in answer.points])
    frames = {"sweep.csv": rows, "sweep.parquet": rows}
    figures: dict[str, Picture] = {}
    if answer.chosen:
        figures["sweep"] = layouts_chart(answer)
    if len(with_cost(answer)) > 1:
        figures["pareto"] = front_chart(answer)
        frames["pareto.csv"] = front_frame(answer)
    return StudyFiles(page(answer, command), {}, figures, frames)


def front_frame(answer: SweepAnswer) -> "pd.DataFrame":
    """Return the layouts that fit with their costs, the best first, and which are on the front."""
    import pandas as pd

    front = {*answer.pareto.positions}
    rows = [
        {
            **{key: row.get(key) for key in answer.axes},
            cost_label(answer): cost,
            answer.measure.axis: row[answer.by],
            "on_the_front": row["position"] in front,
        }
        for row, cost in zip(with_cost(answer), costs(answer), strict=True)
    ]
    return pd.DataFrame(rows)
