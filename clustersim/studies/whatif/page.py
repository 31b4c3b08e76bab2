"""The page of changes of a scenario: which saves most, and what all save together."""

from clustersim.render.page.page import Card, Cards, Column, Page, Section, Table
from clustersim.render.plotly import page_chart
from clustersim.render.tables import percent
from clustersim.studies.whatif.charts import waterfall
from clustersim.studies.whatif.text import (
    HEADINGS,
    WORDS,
    Values,
    best,
    change_of,
    finding,
    rows,
    table,
)
from clustersim.units import format_seconds


def page(answer: Values, command: str = "") -> Page:
    """Return the page of changes; `command` is what made it."""
    title = f"What if: {answer['base']['title']}"
    chart = waterfall(answer)
    why = [] if chart is None else [Section("What is saved", "saved", (), (page_chart(chart),))]
    return Page(title, finding(answer), (_ranking(answer), *why), command)


def _ranking(answer: Values) -> Section:
    """Return the changes, the best first, and what is to be said about them."""
    said = tuple((row.label, row.text) for row in rows(answer))
    remarks = [Table("remarks", (Column("about"), Column("what")), said)] if said else []
    return Section(
        "The answer",
        "answer",
        (),
        (Cards(tuple(_cards(answer))), _changes(answer), *remarks),
    )


def _cards(answer: Values) -> list[Card]:
    base, together = answer["base"], answer["together"]
    found = [Card("one step takes", format_seconds(base["step_time_s"]), base["title"])]
    chosen = best(answer)
    if chosen is not None:
        found.append(_card("the best change", chosen, change_of(chosen)))
    if together is not None and together["verdict"] == "ran":
        found.append(_card("together", together, "all changes that can be together"))
    return found


def _card(name: str, each: Values, what: str) -> Card:
    saved = f"{percent(each['saved_fraction'])} less" if each["saved_s"] >= 0 else "nothing saved"
    fits = "" if each["fits"] else f"; {each['memory']}"
    told = f"{saved}: {what}{fits}"
    return Card(name, format_seconds(each["step_time_s"]), told, alarm=not each["fits"])


def _changes(answer: Values) -> Table:
    names = [name or "share" for name in HEADINGS]
    order = [names.index("change"), *(i for i, name in enumerate(names) if name != "change")]
    columns = tuple(Column(names[i], HEADINGS[i] not in WORDS) for i in order)
    lines = tuple(tuple(row[i] for i in order) for row in table(answer)[1:])
    return Table("changes by what they save", columns, lines)


__all__ = ["page"]
