"""The files of a what-if: its numbers as a table, its waterfall, and a page for a browser."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from clustersim.memory.room import FITS, TIGHT, outcome_of
from clustersim.render.charts.bars import Step, Waterfall
from clustersim.render.charts.picture import Axis, Table, text_table
from clustersim.render.page.page import Block, Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.study_folder import StudyFiles
from clustersim.render.tables import percent
from clustersim.reports.measures import LEGENDS, format_change, part_kind, waterfall
from clustersim.studies.whatif.answer import ChangeResult, WhatIfAnswer
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
    return StudyFiles(answer, partial(page, answer, command), tables, charts)


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
    blocks: list[Block] = [Cards(tuple(_cards(answer)), equal=True), _ranked(answer)]
    if lines := [(row.label, row.text) for row in rows(answer)]:
        blocks.append(text_table("remarks", ("about", "remark"), lines))
    return Section("Results", "answer", (), tuple(blocks))


def _cards(answer: WhatIfAnswer) -> Iterator[Card]:
    base, best, measure = answer.base, best_of(answer), measure_of(answer)
    yield Card(f"{measure.label} of the base", measure.text(base.measures()[answer.by]), base.title)
    if best is not None:
        which = "the best change" if best.fits else "a change that does not fit"
        yield _card(answer, f"with {which}", best)
    if answer.together is not None and answer.together.change is not None:
        yield _card(answer, "with all valid changes", answer.together)


def _card(answer: WhatIfAnswer, name: str, change: ChangeResult) -> Card:
    measure, after = measure_of(answer), change.measures[answer.by]
    note = f"{text_of(change)}: {format_change(measure, answer.base.measures()[answer.by], after)}"
    memory = change.facts["memory"].after or ""
    verdict = outcome_of(memory)
    note += "" if verdict == FITS else f"; {memory}"
    return Card(name, measure.text(after), note, not change.fits, verdict == TIGHT)


def _ranked(answer: WhatIfAnswer) -> Table:
    heads, *lines = table(answer) or [["gain", "", *WORDS]]
    order = [heads.index("change"), *(i for i, name in enumerate(heads) if name != "change")]
    names = [("" if heads[i] in WORDS else ">") + (heads[i] or "difference") for i in order]
    body = ([line[i] for i in order] for line in lines)
    return text_table(f"changes by the {measure_of(answer).label}", names, body)


_ROOM: Final = 28


def savings_chart(answer: WhatIfAnswer) -> Waterfall | None:
    """Return the way from the base to all changes together; or to the best one, part by part."""
    best, together = best_of(answer), answer.together
    if together is not None and together.change is not None and answer.sum is not None:
        return _savings(answer, together, together.change - answer.sum)
    if best is None:
        return None
    accounts = {account.name: account for account in answer.base.accounts()}
    if best.account is None or not best.parts:
        return None
    return waterfall((answer.base.name, text_of(best)), accounts[best.account], best.parts)


def _savings(answer: WhatIfAnswer, together: ChangeResult, interaction: float) -> Waterfall:
    """Return a step for each change alone, the last one for their interaction."""
    measure, base = measure_of(answer), answer.base.measures()[answer.by]
    joined = [change for change in answer.changes if {*change.settings} <= {*together.settings}]
    steps = [
        Step(
            change_label(change.settings),
            "other" if change.part is None else part_kind(change.part),
            change.change or 0.0,
        )
        for change in joined
    ]
    steps.append(Step("interaction", "other", interaction))
    share = f" ({percent(answer.of_sum)} of the sum of the changes)" if answer.of_sum else ""
    chart = Waterfall(
        title=f"All valid changes: {format_change(measure, base, base + (together.change or 0.0))}"
        f"{share}",
        caption=f"{answer.base.name}: each change alone, coloured by the part that changes most",
        description=f"{len(joined)} changes and their interaction lead from before to after.",
        note="Each bar begins where the one above ends.",
        contents="what each change does alone",
        measure=Axis(measure.label, measure.unit),
        first="before",
        last="after",
        start=base,
        steps=tuple(steps),
        kinds=LEGENDS.get(together.account or "", ()),
    )
    return chart.in_unit() if measure.unit == "s" else chart


def change_label(settings: Sequence[str]) -> str:
    """Return a change in the letters that fit next to a bar.

    >>> change_label(["cluster.node.interconnect.bandwidth=x2", "plan.zero=1"])
    '...bandwidth=x2 and 1 more'
    """
    first, *others = settings
    more = f" and {len(others)} more" if others else ""
    path, equals, value = first.partition("=")
    end = f"{equals}{value}{more}"
    words, cut = path.split("."), ""
    while len(words) > 1 and len(cut + ".".join(words) + end) > _ROOM:
        words, cut = words[1:], "..."
    return f"{cut}{'.'.join(words)}{end}"
