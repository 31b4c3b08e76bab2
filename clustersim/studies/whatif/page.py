"""The page of a what-if: which change saves most, and what all save together."""

from collections.abc import Iterator

from clustersim.render.charts.picture import Column, Table
from clustersim.render.page.page import Block, Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.tables import percent
from clustersim.runs.table import run_measures
from clustersim.studies.whatif.answer import (
    ChangeResult,
    CombinationResult,
    WhatIfAnswer,
    saved_by,
)
from clustersim.studies.whatif.charts import savings_chart
from clustersim.studies.whatif.text import (
    HEADINGS,
    RUN_WORDS,
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
    if answer.by is None:
        yield Card("step time of the base", format_seconds(base.step_time_s), base.title)
    else:
        amount = _amount(answer.by, run_measures(base)[answer.by])
        yield Card(f"{RUN_WORDS[answer.by].noun} of the base", amount, base.title)
    if best is not None:
        yield _card(answer, "with the best change", best, text_of(best))
    if isinstance(together, CombinationResult):
        yield _card(answer, "with all valid changes", together, text_of(together))


def _amount(by: str, value: float) -> str:
    """Return a measure of a whole run with its unit."""
    return (
        percent(value) if by == "goodput" else f"{RUN_WORDS[by].number(value)} {RUN_WORDS[by].unit}"
    )


def _card(answer: WhatIfAnswer, name: str, change: ChangeResult, what: str) -> Card:
    share, saved, after = change.saved_fraction, change.saved_s, format_seconds(change.step_time_s)
    if answer.by is not None:
        saved, base = saved_by(change, answer.by), run_measures(answer.base)[answer.by]
        sign = -1 if answer.by == "goodput" else 1
        share, after = saved / base, _amount(answer.by, base - sign * saved)
    word = "more" if answer.by == "goodput" else "less"
    noun = "time" if answer.by is None else RUN_WORDS[answer.by].noun
    less = f"{percent(share)} {word}" if saved >= 0 else f"no {noun} saved"
    fits = "" if change.fits else f"; {change.memory}"
    return Card(name, after, f"{less}: {what}{fits}", warning=not change.fits)


def _changes(answer: WhatIfAnswer) -> Table:
    heads, *found = table(answer) or [[*HEADINGS]]
    names = [name or "share" for name in heads]
    order = [names.index("change"), *(i for i, name in enumerate(names) if name != "change")]
    columns = tuple(Column(names[i], heads[i] not in WORDS) for i in order)
    lines = tuple(tuple(row[i] for i in order) for row in found)
    noun = "time" if answer.by is None else RUN_WORDS[answer.by].noun
    return Table(f"changes by the {noun} that they save", columns, lines)
