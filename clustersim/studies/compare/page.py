"""The page of runs beside each other: what came out, why, and what was changed for it."""

from typing import Any

from clustersim.render.page.page import Card, Cards, Column, Page, Section, Table
from clustersim.render.plotly import page_chart
from clustersim.render.tables import percent
from clustersim.studies.compare.charts import Values, waterfalls
from clustersim.studies.compare.text import rows
from clustersim.units import format_seconds


def page(answer: Values, command: str = "") -> Page:
    """Return the page of a comparison; `command` is what made it."""
    runs, found = answer["runs"], answer["comparisons"]
    names = " and ".join(run["name"] for run in runs) if len(runs) == 2 else _several(runs)
    sections = [Section("The answer", "answer", _findings(found), (_cards(runs),))]
    for place, each in enumerate(found, 2):
        sections += _comparison(each, "" if len(found) == 1 else f"-{place}")
    return Page(names, found[0]["finding"], (*sections, _numbers(answer)), command)


def _several(runs: list[Values]) -> str:
    return f"{runs[0]['name']} and {len(runs) - 1} others"


def _findings(comparisons: list[Values]) -> tuple[str, ...]:
    """Return a sentence for each comparison; that of the only one stands below the title."""
    return tuple(f"{each['finding']}." for each in comparisons if len(comparisons) > 1)


def _numbers(answer: Values) -> Section:
    """Return all numbers of the runs but those that are 0 in all of them."""
    columns = [Column("measure"), *(Column(run["name"], True) for run in answer["runs"])]
    first, others = answer["comparisons"][0], answer["comparisons"]
    lines = []
    for name, both in first["differences"].items():
        values = [both["before"], *_after(others, name)]
        if any(values):
            lines.append((name, *(f"{value:.6g}" for value in values)))
    told = Table("numbers of the answers, but those that are 0", tuple(columns), tuple(lines))
    return Section("All numbers", "numbers", (), (told,))


def _after(comparisons: list[Values], name: str) -> list[float]:
    return [each["differences"][name]["after"] for each in comparisons]


def _cards(runs: list[Values]) -> Cards:
    """Return a card for the step of each run."""
    return Cards(tuple(_card(run["name"], run["answer"]) for run in runs))


def _card(name: str, answer: Values) -> Card:
    memory = answer["memory"]
    told = f"{answer['tokens_per_s']:,.0f} tokens/s, MFU {percent(answer['mfu'])}"
    fits = "" if memory["fits"] else f"; {memory['verdict']}"
    step = format_seconds(answer["step_time_s"])
    return Card(name, step, f"{told}{fits}", alarm=not memory["fits"])


def _comparison(found: Values, number: str) -> list[Section]:
    """Return why two runs differ, and in what."""
    run = f": {found['after']}" if number else ""
    lines = tuple((row.label, row.text) for row in _labelled(found))
    return [
        Section(
            f"Why{run}" if run else "Where the difference comes from",
            f"why{number}",
            (),
            tuple(map(page_chart, waterfalls(found))),
        ),
        Section(
            f"What changed{run}",
            f"changed{number}",
            (),
            (
                _inputs(found),
                Table("before and after", (Column("about"), Column("answer")), lines),
            ),
        ),
    ]


def _labelled(found: Values) -> list[Any]:
    """Return the numbers of the answer line by line; inputs and parts have places of their own."""
    return [row for row in rows(found) if row.label in _LINES]


_LINES = ("step", "tokens", "rate", "bubble", "devices", "memory", "link", "slowest")


def _inputs(found: Values) -> Table:
    columns = Column("value"), Column("before"), Column("after"), Column("in words")
    lines = tuple(
        (each["path"], str(each["before"]), str(each["after"]), each["text"])
        for each in found["inputs"]
    )
    return Table("values of the scenarios that differ, in SI units and in words", columns, lines)


__all__ = ["page"]
