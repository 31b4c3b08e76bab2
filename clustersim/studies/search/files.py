"""The files of a search: replayed layouts and rules as tables, figures, and a page."""

from typing import TYPE_CHECKING

from clustersim.render.charts import Picture
from clustersim.render.study_folder import StudyFiles
from clustersim.studies.search.answer import SearchAnswer
from clustersim.studies.search.charts import bound_chart, layout_front, layout_waterfall
from clustersim.studies.search.page import page
from clustersim.studies.search.text import format_part

if TYPE_CHECKING:
    import pandas as pd


def files_of(answer: SearchAnswer, command: str = "") -> StudyFiles:
    """Return the files of a search; `command` is its command line, for the page."""
    figures: dict[str, Picture] = {
        f"why-{one.against}": chart
        for one in answer.differences
        if (chart := layout_waterfall(one)) is not None
    }
    if len(answer.ranked) > 1:
        for front in answer.pareto:
            figures[f"pareto-{front.against.removesuffix('_peak_bytes')}"] = layout_front(
                answer, front
            )
    if (bounds := bound_chart(answer)) is not None:
        figures["bounds"] = bounds
    frames = {"search.csv": layouts_frame(answer)} if answer.ranked or answer.missed else {}
    rules = [("layouts", "rule"), *((rule.count, rule.why) for rule in answer.rules)]
    return StudyFiles(page(answer, command), {"rules.csv": rules}, figures, frames)


def layouts_frame(answer: SearchAnswer) -> "pd.DataFrame":
    """Return the layouts that were replayed and fit, the best first, then those outside limits."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                **{key: format_part(value) for key, value in one.set_.items()},
                "bound": one.bound,
                **one.measures,
                "tie": one.tie,
                "missed": one.missed,
                **{
                    f"on_the_front_of_{front.against}": place in front.positions
                    for front in answer.pareto
                },
            }
            for place, one in enumerate((*answer.ranked, *answer.missed))
        ]
    )
