"""The page of a sweep of a service: the best combination, the chart, and all combinations."""

from clustersim.render.charts.picture import Column, Table
from clustersim.render.page.page import Page, Section
from clustersim.render.plotly import page_chart
from clustersim.studies.service_sweep.answer import ServiceSweep
from clustersim.studies.service_sweep.charts import services_chart
from clustersim.studies.service_sweep.text import combination_table, rows


def page(answer: ServiceSweep, command: str = "") -> Page:
    """Return the page of a sweep; `command` is what made it."""
    lines = tuple((row.label, row.text) for row in rows(answer))
    heads, *table = combination_table(answer, most=None)
    columns = tuple(Column(name, place >= len(answer.keys)) for place, name in enumerate(heads))
    summary = Table("result", (Column("item"), Column("result")), lines)
    every = Table("combinations, the best first", columns, tuple(map(tuple, table)))
    chart = services_chart(answer)
    drawn = () if chart is None else (Section("Services", "services", (), (page_chart(chart),)),)
    return Page(
        f"Sweep: {answer.title}",
        lines[0][1],
        (
            Section("Summary", "summary", (), (summary,)),
            *drawn,
            Section("All combinations", "combinations", (), (every,)),
        ),
        command,
    )
