"""The files of a sweep: its rows as tables, the front, its figures, and a page for a browser."""

from functools import partial
from typing import TYPE_CHECKING, Final

from clustersim.render.charts.picture import Picture, Table, text_table
from clustersim.render.page.page import Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.study_folder import StudyFiles
from clustersim.render.tables import format_setting
from clustersim.reports.fronts import axis_of, drawn
from clustersim.reports.measures import brief, cells
from clustersim.runs.table import data_frame
from clustersim.studies.sweep.answer import SweepAnswer
from clustersim.studies.sweep.charts import (
    keys_with_names,
    layouts_chart,
    sweep_front,
    with_cost,
)
from clustersim.studies.sweep.text import point_of, reason_scope, rows, shown_measures

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
        figures["pareto"] = sweep_front(answer)
        frames["pareto.csv"] = front_frame(answer)
    return StudyFiles(answer, partial(page, answer, command), {}, figures, frames)


def front_frame(answer: SweepAnswer) -> "pd.DataFrame":
    """Return the layouts that fit with their costs, the best first, and which are on the front."""
    import pandas as pd

    front = {*answer.pareto.positions}
    rows = [
        {
            **{key: row.get(key) for key in answer.axes},
            axis_of(answer.cost).title: drawn(answer.cost, row),
            answer.measure.axis: row[answer.by],
            "on_the_front": row["position"] in front,
        }
        for row in with_cost(answer)
    ]
    return pd.DataFrame(rows)


SHOWN: Final = 1_000
"""Maximum number of layouts in the table; `sweep.csv` has all."""

REASONS: Final = ("invalid", "failed")
"""Lines of the text that have a section of their own."""


def page(answer: SweepAnswer, command: str = "") -> Page:
    """Return the page of a sweep; `command` is its command line."""
    sections = [_summary(answer)]
    if answer.chosen:
        chart = page_chart(layouts_chart(answer))
        sections.append(Section("All layouts", "layouts", (), (chart, *_ranking(answer))))
    if len(with_cost(answer)) > 1:
        title = f"Pareto front: {answer.measure.label} and {answer.cost.label}"
        sections.append(Section(title, "pareto", (), (page_chart(sweep_front(answer)),)))
    fit = f"{answer.counts.within:,} fit in memory{' and meet the limits' if answer.limits else ''}"
    subtitle = f"{len(answer.points):,} combinations, {fit}"
    return Page(answer.title, subtitle, (*sections, *_reasons(answer)), command)


def _summary(answer: SweepAnswer) -> Section:
    lines = ((line.label, line.text) for line in rows(answer) if line.label not in REASONS)
    table = text_table("Summary", ("item", "value"), lines)
    return Section("Best layout", "answer", (), (Cards(_cards(answer)), table))


def _cards(answer: SweepAnswer) -> tuple[Card, ...]:
    counts = answer.counts
    share = f"{counts.within:,} of {len(answer.points):,}"
    larger = counts.does_not_fit + counts.probably_does_not_fit
    rest = f"{larger:,} need more memory, {counts.invalid:,} are invalid"
    fit = Card("layouts that fit", share, rest, warning=not answer.fitting)
    if not answer.fitting:
        return (fit,)
    best = answer.fitting[0]
    first, *others = brief(answer.kinds, [best], answer.by)
    layout = point_of([*answer.axes], best)
    cards = (Card(measure.label, measure.text(best[measure.name])) for measure in others)
    return (Card(f"{first.label} of the best", first.text(best[first.name]), layout), *cards, fit)


def _ranking(answer: SweepAnswer) -> tuple[Table, ...]:
    """Return the layouts that fit, the best first; no table where none fits."""
    if not answer.fitting:
        return ()
    keys, measures = answer.varying or [*answer.axes], shown_measures(answer)
    lines = (
        (f"{rank:,}", *(format_setting(row.get(key)) for key in keys), *cells(measures, row))
        for rank, row in enumerate(answer.fitting[:SHOWN], 1)
    )
    names = (
        ">rank",
        *(">" * _is_number(answer, key) + name for key, name in keys_with_names(keys)),
        *(f">{measure.column}" for measure in measures),
    )
    more = len(answer.fitting) - SHOWN
    rest = f"; {more:,} more are in sweep.csv" if more > 0 else ""
    return (text_table(f"Layouts that fit, the best first{rest}", names, lines, "Find layouts"),)


def _is_number(answer: SweepAnswer, key: str) -> bool:
    """Whether an axis has numbers only, which are aligned to the right."""
    return all(type(row.get(key)) in (int, float) for row in answer.fitting)


def _reasons(answer: SweepAnswer) -> tuple[Section, ...]:
    """Return why combinations are invalid or failed; no section where none is."""
    lines = tuple(
        (reason_scope(reason, answer), reason.why) for reason in (*answer.invalid, *answer.failed)
    )
    if not lines:
        return ()
    names = ("combinations", "reason of the first")
    table = text_table("Reasons, the most frequent first", names, lines)
    return (Section("Invalid combinations", "invalid", (), (table,)),)
