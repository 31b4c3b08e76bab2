"""The files of a comparison: its measures and inputs as tables, its waterfalls, and the page."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from clustersim.render.charts.bars import Waterfall
from clustersim.render.charts.picture import Drawn, Picture, Stacked, Table, text_table
from clustersim.render.charts.timeline import Timeline
from clustersim.render.page.page import Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.study_folder import StudyFiles
from clustersim.render.tables import format_value
from clustersim.reports.measures import summary
from clustersim.reports.step.pipeline import page_views
from clustersim.simulation.measures import measures_of
from clustersim.studies.compare.answer import CompareAnswer, ComparedRun, Comparison
from clustersim.studies.compare.text import evidence, fact_rows, result_table, waterfalls
from clustersim.studies.compare.timelines import headline, timelines
from clustersim.units import counted

ONE_AXIS: Final = (
    "All steps have the same time axis, so that one that ends earlier leaves the rest of it empty."
)


def files_of(answer: CompareAnswer, command: str = "") -> StudyFiles:
    """Return the files of a comparison; `command` is what made it."""
    charts: dict[str, Picture] = dict(_waterfalls(answer))
    tables = {"compare.csv": _numbers(answer), "inputs.csv": _inputs(answer.comparisons)}
    tables |= {f"{stem}.csv": chart.rows() for stem, chart in charts.items()}
    drawn = (*timelines(answer.runs),)
    figures: dict[str, Drawn] = {**charts}
    if drawn:
        figures["timelines"] = Stacked(headline(drawn), drawn)
    return StudyFiles(answer, partial(page, answer, command, drawn), tables, figures)


def _waterfalls(answer: CompareAnswer) -> Iterator[tuple[str, Waterfall]]:
    """Yield the waterfalls with the names of their files: `waterfall`, `waterfall-run-2`, ..."""
    for number, comparison in enumerate(answer.comparisons, 2):
        for account, chart in waterfalls(comparison, answer).items():
            words = ["waterfall"] if account == comparison.account else ["waterfall", account]
            words += [str(number)] if number > 2 else []
            yield "-".join(words).replace(" ", "-"), chart


def _numbers(answer: CompareAnswer) -> Iterator[Sequence[Any]]:
    """Yield a line for each measure, a column for each answer."""
    yield ["measure", *(run.name for run in answer.runs)]
    numbers = [run.answer.measures() for run in answer.runs]
    for name in dict.fromkeys(name for each in numbers for name in each):
        yield [name, *(each.get(name) for each in numbers)]


def _inputs(comparisons: Sequence[Comparison]) -> Iterator[Sequence[Any]]:
    yield ["run", "path", "before", "after", "values"]
    for comparison in comparisons:
        for value in comparison.inputs:
            yield [comparison.after, value.path, value.before, value.after, value.values]


def page(answer: CompareAnswer, command: str = "", steps: Sequence[Timeline] = ()) -> Page:
    """Return the page of a comparison.

    Parameters
    ----------
    command : what made it
    steps : timelines of the runs on one axis
    """
    comparisons = answer.comparisons
    several = len(comparisons) > 1
    findings = tuple(f"{comparison.finding}." for comparison in comparisons if several)
    heads, *results = result_table(answer)
    names = ("result", *(f">{name}" for name in heads[1:]))
    table = text_table("results side by side", names, results)
    cards = Cards(tuple(_card(run, answer) for run in answer.runs), equal=True)
    lines = [(row.label, row.text) for row in evidence(answer)]
    known = [text_table("how sure predictions are", ("about", "evidence"), lines)] if lines else []
    sections = [Section("Results", "answer", findings, (cards, table, *known))]
    if steps:
        charts = tuple(page_chart(page_views(step)[0]) for step in steps)
        sections.append(Section("Timelines", "timelines", (ONE_AXIS,), charts))
    for number, comparison in enumerate(comparisons, 2):
        sections += _comparison(comparison, answer, f"-{number}" if several else "")
    return Page(_title(answer.runs), comparisons[0].finding, (*sections, _every(answer)), command)


def _title(runs: Sequence[ComparedRun]) -> str:
    """Return the titles of the scenarios; once where all are the same."""
    titles = [*dict.fromkeys(run.answer.title for run in runs)]
    if len(runs) > len(titles) or len(titles) > 2:
        return f"{titles[0]} and {counted(len(runs) - 1, 'other run')}"
    return " and ".join(titles)


def _card(run: ComparedRun, answer: CompareAnswer) -> Card:
    measure, numbers = measures_of(answer.kinds)[answer.by], run.answer.measures()
    memory = run.answer.memory
    value = measure.text(numbers[answer.by]) if answer.by in numbers else "-"
    others = {name: number for name, number in numbers.items() if name != answer.by}
    text = f"{measure.label} of {run.answer.title}; {summary(answer.kinds, others, answer.by)}"
    if not memory.fits:
        text = f"{memory.verdict}; hypothetical {text}" if numbers else memory.verdict
    return Card(f"Run {run.name}", value, text, not memory.fits, memory.tight)


def _comparison(comparison: Comparison, answer: CompareAnswer, number: str) -> list[Section]:
    """Return the causes, and the inputs and facts of both answers."""
    run = f": {comparison.after}" if number else ""
    drawn = [c for c in waterfalls(comparison, answer).values() if c.steps]
    lines = ((row.label, row.text) for row in fact_rows(comparison))
    facts = text_table("before and after", ("fact", "value"), lines)
    return [
        Section(f"Causes{run}", f"why{number}", (), tuple(map(page_chart, drawn))),
        Section(f"Inputs and facts{run}", f"changed{number}", (), (_changed(comparison), facts)),
    ]


def _changed(comparison: Comparison) -> Table:
    names = ("input", "before", "after", "in words")
    lines = (
        (value.path, format_value(value.before), format_value(value.after), value.text)
        for value in comparison.inputs
    )
    return text_table("inputs that differ, in SI units and in words", names, lines)


def _every(answer: CompareAnswer) -> Section:
    """Return all measures but those that are 0 in all answers."""
    names = ("measure", *(f">{run.name}" for run in answer.runs))
    numbers = [run.answer.measures() for run in answer.runs]
    lines = (
        (name, *(f"{each[name]:.6g}" if name in each else "-" for each in numbers))
        for name in dict.fromkeys(name for each in numbers for name in each)
        if any(each.get(name) for each in numbers)
    )
    table = text_table("measures of all runs that are not 0", names, lines)
    return Section("All measures", "numbers", (), (table,))
