"""The files of a what-if: its numbers as a table, its waterfall, and a page for a browser."""

from collections.abc import Iterator, Sequence
from typing import Any

from clustersim.render.charts.picture import Column, Table
from clustersim.render.page.page import Block, Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.study_folder import StudyFiles
from clustersim.reports.measures import format_change
from clustersim.studies.whatif.answer import ChangeResult, WhatIfAnswer
from clustersim.studies.whatif.charts import savings_chart
from clustersim.studies.whatif.text import (
    WORDS,
    best_of,
    finding,
    measure_of,
    rows,
    table,
    text_of,
)


def files_of(answer: WhatIfAnswer, command: str = "") -> StudyFiles:
    """Return the files of a what-if; `command` is what made it."""
    chart = savings_chart(answer)
    charts = {} if chart is None else {"waterfall": chart}
    tables = {"whatif.csv": _changes(answer)}
    tables |= {f"{stem}.csv": chart.rows() for stem, chart in charts.items()}
    return StudyFiles(page(answer, command), tables, charts)


def _changes(answer: WhatIfAnswer) -> Iterator[Sequence[Any]]:
    """Yield a line for each change, and one for all together."""
    columns, measures = ("verdict", "why", "gain", "change", "part", "fits"), answer.base.measures()
    yield ["settings", *columns, "bottleneck", *measures]
    for change in [*answer.changes, *([answer.together] if answer.together else [])]:
        bottleneck = change.facts.get("bottleneck")
        yield [
            text_of(change),
            *(getattr(change, column) for column in columns),
            None if bottleneck is None else bottleneck.after,
            *(change.measures.get(name) for name in measures),
        ]


def page(answer: WhatIfAnswer, command: str = "") -> Page:
    """Return the page of changes; `command` is what made it."""
    chart = savings_chart(answer)
    drawn = [] if chart is None else [Section("Causes", "why", (), (page_chart(chart),))]
    title = f"What if: {answer.base.title}"
    return Page(title, finding(answer), (_ranking(answer), *drawn), command)


def _ranking(answer: WhatIfAnswer) -> Section:
    """Return the changes, the best first, and remarks on them."""
    blocks: list[Block] = [Cards(tuple(_cards(answer))), _ranked(answer)]
    if lines := tuple((row.label, row.text) for row in rows(answer)):
        blocks.append(Table("remarks", (Column("about"), Column("remark")), lines))
    return Section("Results", "answer", (), tuple(blocks))


def _cards(answer: WhatIfAnswer) -> Iterator[Card]:
    base, best, measure = answer.base, best_of(answer), measure_of(answer)
    yield Card(f"{measure.label} of the base", measure.text(base.measures()[answer.by]), base.title)
    if best is not None:
        yield _card(answer, "with the best change", best)
    if answer.together is not None and answer.together.change is not None:
        yield _card(answer, "with all valid changes", answer.together)


def _card(answer: WhatIfAnswer, name: str, change: ChangeResult) -> Card:
    measure, after = measure_of(answer), change.measures[answer.by]
    note = f"{text_of(change)}: {format_change(measure, answer.base.measures()[answer.by], after)}"
    fits = "" if change.fits else f"; {change.facts['memory'].after}"
    return Card(name, measure.text(after), f"{note}{fits}", warning=not change.fits)


def _ranked(answer: WhatIfAnswer) -> Table:
    heads, *lines = table(answer) or [["gain", "", *WORDS]]
    order = [heads.index("change"), *(i for i, name in enumerate(heads) if name != "change")]
    columns = tuple(Column(heads[i] or "change of it", heads[i] not in WORDS) for i in order)
    body = tuple(tuple(line[i] for i in order) for line in lines)
    return Table(f"changes by the {measure_of(answer).label}", columns, body)
