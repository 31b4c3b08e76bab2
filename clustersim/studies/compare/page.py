"""The page of a comparison: results, causes and inputs."""

from collections.abc import Sequence

from clustersim.render.page.page import Card, Cards, Column, Page, Section, Table
from clustersim.render.plotly import page_chart
from clustersim.render.tables import percent
from clustersim.render.words import format_value
from clustersim.studies.compare.answer import CompareAnswer, ComparedRun, Comparison
from clustersim.studies.compare.charts import waterfalls
from clustersim.studies.compare.text import result_rows
from clustersim.units import counted, format_seconds


def page(answer: CompareAnswer, command: str = "") -> Page:
    """Return the page of a comparison; `command` is what made it."""
    runs, comparisons = answer.runs, answer.comparisons
    several = len(comparisons) > 1
    findings = tuple(f"{comparison.finding}." for comparison in comparisons if several)
    sections = [Section("Results", "answer", findings, (_cards(runs),))]
    for place, comparison in enumerate(comparisons, 2):
        sections += _comparison(comparison, f"-{place}" if several else "")
    return Page(_title(runs), comparisons[0].finding, (*sections, _numbers(answer)), command)


def _title(runs: Sequence[ComparedRun]) -> str:
    """Return the titles of the runs; once where all are the same scenario."""
    titles = [*dict.fromkeys(run.answer.title for run in runs)]
    if len(runs) > len(titles) or len(titles) > 2:
        return f"{titles[0]} and {counted(len(runs) - 1, 'other run')}"
    return " and ".join(titles)


def _numbers(answer: CompareAnswer) -> Section:
    """Return all numbers of the runs but those that are 0 in all of them."""
    columns = [Column("number"), *(Column(run.name, True) for run in answer.runs)]
    lines = []
    for name, first in answer.comparisons[0].differences.items():
        values = [first.before, *(c.differences[name].after for c in answer.comparisons)]
        if any(values):
            lines.append((name, *(f"{value:.6g}" for value in values)))
    table = Table("numbers of all runs that are not 0", tuple(columns), tuple(lines))
    return Section("All numbers", "numbers", (), (table,))


def _cards(runs: Sequence[ComparedRun]) -> Cards:
    """Return a card for the step of each run."""
    return Cards(tuple(map(_card, runs)))


def _card(run: ComparedRun) -> Card:
    answer, memory = run.answer, run.answer.memory
    speed = f"{answer.tokens_per_s:,.0f} tokens/s; MFU {percent(answer.mfu)}"
    text = f"step time of {answer.title}; {speed}"
    if not memory.fits:
        text = f"{memory.verdict}; hypothetical {text}"
    return Card(run.name, format_seconds(answer.step_time_s), text, warning=not memory.fits)


def _comparison(comparison: Comparison, number: str) -> list[Section]:
    """Return the causes, and the inputs and results of both runs."""
    run = f": {comparison.after}" if number else ""
    charts = tuple(map(page_chart, waterfalls(comparison)))
    lines = tuple((row.label, row.text) for row in result_rows(comparison))
    results = Table("before and after", (Column("result"), Column("value")), lines)
    return [
        Section(f"Causes{run}", f"why{number}", (), charts),
        Section(f"Inputs and results{run}", f"changed{number}", (), (_inputs(comparison), results)),
    ]


def _inputs(comparison: Comparison) -> Table:
    columns = Column("input"), Column("before"), Column("after"), Column("in words")
    lines = tuple(
        (value.path, format_value(value.before), format_value(value.after), value.text)
        for value in comparison.inputs
    )
    return Table("inputs that differ, in SI units and in words", columns, lines)


__all__ = ["page"]
