"""The page of a what-if: which change saves most, and what all save together."""

from collections.abc import Iterator

from clustersim.render.page.page import Block, Card, Cards, Column, Page, Section, Table
from clustersim.render.plotly import page_chart
from clustersim.render.tables import percent
from clustersim.studies.whatif.answer import ChangeResult, CombinationResult, WhatIfAnswer
from clustersim.studies.whatif.charts import savings_chart
from clustersim.studies.whatif.text import (
    HEADINGS,
    WORDS,
    best_of,
    finding,
    rows,
    table,
    text_of,
)
from clustersim.units import format_seconds


def page(answer: WhatIfAnswer, command: str = "") -> Page:
    """Return the page of changes; `command` is what made it."""
    title = f"What if: {answer.base.title}"
    chart = savings_chart(answer)
    savings = [] if chart is None else [Section("Savings", "saved", (), (page_chart(chart),))]
    return Page(title, finding(answer), (_ranking(answer), *savings), command)


def _ranking(answer: WhatIfAnswer) -> Section:
    """Return the changes, the best first, and remarks on them."""
    lines = tuple((row.label, row.text) for row in rows(answer))
    blocks: list[Block] = [Cards(tuple(_cards(answer))), _changes(answer)]
    if lines:
        blocks.append(Table("remarks", (Column("about"), Column("remark")), lines))
    return Section("Results", "answer", (), tuple(blocks))


def _cards(answer: WhatIfAnswer) -> Iterator[Card]:
    base, together, best = answer.base, answer.together, best_of(answer)
    yield Card("step time of the base", format_seconds(base.step_time_s), base.title)
    if best is not None:
        yield _card("with the best change", best, text_of(best))
    if isinstance(together, CombinationResult):
        yield _card("with all valid changes", together, text_of(together))


def _card(name: str, change: ChangeResult, what: str) -> Card:
    less = f"{percent(change.saved_fraction)} less" if change.saved_s >= 0 else "no time saved"
    fits = "" if change.fits else f"; {change.memory}"
    step = format_seconds(change.step_time_s)
    return Card(name, step, f"{less}: {what}{fits}", warning=not change.fits)


def _changes(answer: WhatIfAnswer) -> Table:
    names = [name or "share" for name in HEADINGS]
    order = [names.index("change"), *(i for i, name in enumerate(names) if name != "change")]
    columns = tuple(Column(names[i], HEADINGS[i] not in WORDS) for i in order)
    lines = tuple(tuple(row[i] for i in order) for row in table(answer)[1:])
    return Table("changes by the time that they save", columns, lines)


__all__ = ["page"]
