"""The page of a search of a service: the best layouts, the charts, and what was excluded."""

from clustersim.render.charts.picture import Column, Table
from clustersim.render.page.page import Page, Section
from clustersim.render.plotly import page_chart
from clustersim.studies.service_search.answer import ServiceSearch
from clustersim.studies.service_search.charts import bound_chart, speed_chart
from clustersim.studies.service_search.text import found_table, rows


def page(answer: ServiceSearch, command: str = "") -> Page:
    """Return the page of a search of a service; `command` is its command line."""
    lines = tuple((row.label, row.text) for row in rows(answer))
    blocks = [Table("result", (Column("item"), Column("result")), lines)]
    if table := found_table(answer):
        columns = tuple(Column(name, place > 0) for place, name in enumerate(table[0]))
        blocks.append(Table("best layouts", columns, tuple(map(tuple, table[1:]))))
    sections = [Section("Best layout", "answer", (), tuple(blocks))]
    for title, name, chart in (
        ("Speed and throughput", "speed", speed_chart(answer)),
        ("Bounds and replays", "bounds", bound_chart(answer)),
    ):
        if chart is not None:
            sections.append(Section(title, name, (), (page_chart(chart),)))
    return Page(f"Search: {answer.title}", lines[0][1], (*sections, *_invalid(answer)), command)


def _invalid(answer: ServiceSearch) -> tuple[Section, ...]:
    """Return the reasons of invalid layouts; no section without any."""
    if not answer.excluded:
        return ()
    lines = tuple((f"{count:,}", why) for why, count in answer.excluded.items())
    columns = Column("layouts", True), Column("reason")
    return (Section("Invalid layouts", "invalid", (), (Table("Reasons", columns, lines),)),)
