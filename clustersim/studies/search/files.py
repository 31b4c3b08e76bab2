"""The files of a search: replayed layouts and rules as tables, figures, and a page."""

from typing import TYPE_CHECKING

from clustersim.render.charts import Picture
from clustersim.render.study_folder import StudyFiles
from clustersim.studies.search.answer import SearchAnswer
from clustersim.studies.search.charts import layout_front, layout_waterfall
from clustersim.studies.search.page import page
from clustersim.studies.search.text import format_part

if TYPE_CHECKING:
    import pandas as pd


def files_of(answer: SearchAnswer, command: str = "") -> StudyFiles:
    """Return the files of a search; `command` is its command line, for the page."""
    figures: dict[str, Picture] = {
        f"why-{one.against}": layout_waterfall(answer, one)
        for one in answer.differences
        if one.step_time_s is not None
    }
    if len(answer.ranked) > 1:
        for front in answer.pareto:
            figures[f"pareto-{front.against}"] = layout_front(answer, front)
    frames = {"search.csv": layouts_frame(answer)} if answer.ranked else {}
    rules = [("layouts", "rule"), *((rule.count, rule.why) for rule in answer.rules)]
    return StudyFiles(page(answer, command), {"rules.csv": rules}, figures, frames)


def layouts_frame(answer: SearchAnswer) -> "pd.DataFrame":
    """Return the layouts that were replayed and fit, the best first, with their place on fronts."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                **{key: format_part(value) for key, value in one.set_.items()},
                "step_time_s": one.step_time_s,
                "energy_per_step_j": one.energy_per_step_j,
                "bound_s": one.bound_s,
                "tokens_per_s": one.tokens_per_s,
                "mfu": one.mfu,
                "memory_peak_bytes": one.memory_peak_bytes,
                "devices": one.devices,
                "usd_per_hour": one.usd_per_hour,
                "tie": one.tie,
                **{
                    f"on_the_front_of_{front.against}": place in front.positions
                    for front in answer.pareto
                },
            }
            for place, one in enumerate(answer.ranked)
        ]
    )
