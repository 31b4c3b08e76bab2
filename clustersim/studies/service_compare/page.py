"""The page of a comparison of services: results side by side, inputs, and causes."""

from clustersim.render.charts.picture import Column, Table
from clustersim.render.page.page import Page, Section
from clustersim.render.plotly import page_chart
from clustersim.studies.service_compare.answer import CompareServicesAnswer, ServiceComparison
from clustersim.studies.service_compare.charts import token_waterfall
from clustersim.studies.service_compare.text import result_table, rows


def page(answer: CompareServicesAnswer, command: str = "") -> Page:
    """Return the page of a comparison; `command` is what made it."""
    several = len(answer.comparisons) > 1
    heads, *lines = result_table(answer)
    columns = (Column("result"), *(Column(name, True) for name in heads[1:]))
    findings = tuple(f"{one.finding}." for one in answer.comparisons if several)
    results = Table("results side by side", columns, tuple(map(tuple, lines)))
    sections = [Section("Results", "answer", findings, (results,))]
    for place, comparison in enumerate(answer.comparisons, 2):
        sections.append(_comparison(comparison, f"-{place}" if several else ""))
    titles = [*dict.fromkeys(one.answer.title for one in answer.services)]
    return Page(" and ".join(titles[:2]), answer.comparisons[0].finding, tuple(sections), command)


def _comparison(comparison: ServiceComparison, number: str) -> Section:
    """Return inputs and causes of one comparison."""
    chart = token_waterfall(comparison)
    charts = () if chart is None else (page_chart(chart),)
    lines = tuple((row.label, row.text) for row in rows(comparison))
    table = Table("inputs and causes", (Column("item"), Column("change")), lines)
    title = f"Inputs and causes{f': {comparison.after}' if number else ''}"
    return Section(title, f"why{number}", (), (table, *charts))
