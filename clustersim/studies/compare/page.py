"""The page of a comparison: results, causes and inputs."""

from collections.abc import Sequence

from clustersim.render.charts.picture import Column, Table
from clustersim.render.page.page import Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.words import format_value
from clustersim.reports.measures import summary
from clustersim.simulation.measures import measures_of
from clustersim.studies.compare.answer import CompareAnswer, ComparedRun, Comparison
from clustersim.studies.compare.text import fact_rows, result_table, waterfalls
from clustersim.units import counted


def page(answer: CompareAnswer, command: str = "") -> Page:
    """Return the page of a comparison; `command` is what made it."""
    comparisons = answer.comparisons
    several = len(comparisons) > 1
    findings = tuple(f"{comparison.finding}." for comparison in comparisons if several)
    heads, *lines = result_table(answer)
    columns = (Column("result"), *(Column(name, True) for name in heads[1:]))
    table = Table("results side by side", columns, tuple(map(tuple, lines)))
    sections = [Section("Results", "answer", findings, (_cards(answer), table))]
    for number, comparison in enumerate(comparisons, 2):
        sections += _comparison(comparison, answer, f"-{number}" if several else "")
    return Page(_title(answer.runs), comparisons[0].finding, (*sections, _numbers(answer)), command)


def _title(runs: Sequence[ComparedRun]) -> str:
    """Return the titles of the scenarios; once where all are the same."""
    titles = [*dict.fromkeys(run.answer.title for run in runs)]
    if len(runs) > len(titles) or len(titles) > 2:
        return f"{titles[0]} and {counted(len(runs) - 1, 'other run')}"
    return " and ".join(titles)


def _cards(answer: CompareAnswer) -> Cards:
    """Return a card for each answer, with its measure."""
    return Cards(tuple(_card(run, answer) for run in answer.runs))


def _card(run: ComparedRun, answer: CompareAnswer) -> Card:
    measure, numbers = measures_of(answer.kinds)[answer.by], run.answer.measures()
    memory = run.answer.memory
    value = measure.text(numbers[answer.by]) if answer.by in numbers else "-"
    text = f"{measure.label} of {run.answer.title}; {summary(answer.kinds, numbers, answer.by)}"
    if not memory.fits:
        text = f"{memory.verdict}; hypothetical {text}" if numbers else memory.verdict
    return Card(run.name, value, text, warning=not memory.fits)


def _comparison(comparison: Comparison, answer: CompareAnswer, number: str) -> list[Section]:
    """Return the causes, and the inputs and facts of both answers."""
    run = f": {comparison.after}" if number else ""
    drawn = [c for c in waterfalls(comparison, answer).values() if c.steps]
    lines = tuple((row.label, row.text) for row in fact_rows(comparison))
    facts = Table("before and after", (Column("fact"), Column("value")), lines)
    return [
        Section(f"Causes{run}", f"why{number}", (), tuple(map(page_chart, drawn))),
        Section(f"Inputs and facts{run}", f"changed{number}", (), (_inputs(comparison), facts)),
    ]


def _inputs(comparison: Comparison) -> Table:
    columns = Column("input"), Column("before"), Column("after"), Column("in words")
    lines = tuple(
        (value.path, format_value(value.before), format_value(value.after), value.text)
        for value in comparison.inputs
    )
    return Table("inputs that differ, in SI units and in words", columns, lines)


def _numbers(answer: CompareAnswer) -> Section:
    """Return all measures but those that are 0 in all answers."""
    columns = [Column("measure"), *(Column(run.name, True) for run in answer.runs)]
    numbers = [run.answer.measures() for run in answer.runs]
    lines = tuple(
        (name, *(f"{each[name]:.6g}" if name in each else "-" for each in numbers))
        for name in dict.fromkeys(name for each in numbers for name in each)
        if any(each.get(name) for each in numbers)
    )
    table = Table("measures of all runs that are not 0", tuple(columns), lines)
    return Section("All measures", "numbers", (), (table,))
