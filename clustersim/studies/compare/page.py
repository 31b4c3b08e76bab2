"""The page of a comparison: results, causes and inputs."""

from collections.abc import Sequence

from clustersim.render.charts.picture import Column, Table
from clustersim.render.page.page import Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.tables import percent
from clustersim.render.words import format_value
from clustersim.simulation.step.answer import RunMeasures
from clustersim.studies.compare.answer import CompareAnswer, ComparedRun, Comparison
from clustersim.studies.compare.charts import run_waterfall, waterfalls
from clustersim.studies.compare.text import result_rows
from clustersim.units import counted, format_number, format_seconds


def page(answer: CompareAnswer, command: str = "") -> Page:
    """Return the page of a comparison; `command` is what made it."""
    runs, comparisons = answer.runs, answer.comparisons
    several = len(comparisons) > 1
    findings = tuple(f"{comparison.finding}." for comparison in comparisons if several)
    sections = [Section("Results", "answer", findings, (_cards(answer),))]
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


def _cards(answer: CompareAnswer) -> Cards:
    """Return a card for each run, with its days or the time of its step."""
    return Cards(tuple(_card(run, answer.by is not None) for run in answer.runs))


def _card(run: ComparedRun, whole: bool) -> Card:
    answer, memory = run.answer, run.answer.memory
    speed = f"{answer.tokens_per_s:,.0f} tokens/s; MFU {percent(answer.mfu)}"
    value, text = format_seconds(answer.step_time_s), f"step time of {answer.title}; {speed}"
    if whole and answer.training is not None:
        value, text = f"{format_number(answer.training.days)} days", _run_text(answer.training)
    if not memory.fits:
        text = f"{memory.verdict}; hypothetical {text}"
    return Card(run.name, value, text, warning=not memory.fits)


def _run_text(run: RunMeasures) -> str:
    """Return goodput, energy and price of a whole run."""
    parts = [f"goodput {percent(run.goodput)}"]
    if run.energy_kwh is not None:
        parts.append(f"{format_number(run.energy_kwh / 1e3)} MWh")
    if run.cost is not None:
        parts.append(f"{run.cost:,.0f} USD")
    return "; ".join(parts)


def _comparison(comparison: Comparison, number: str) -> list[Section]:
    """Return the causes, and the inputs and results of both runs."""
    run = f": {comparison.after}" if number else ""
    run_chart = run_waterfall(comparison)
    steps = [chart for chart in waterfalls(comparison) if chart.steps or run_chart is None]
    charts = tuple(map(page_chart, [*([run_chart] if run_chart else []), *steps]))
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
