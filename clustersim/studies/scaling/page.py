"""The page of a scaling study, from the plain values of ``--json``: curves, losses, numbers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from clustersim.render.page.page import Block, Card, Cards, Column, Page, Section, Table
from clustersim.render.plotly import page_chart
from clustersim.render.tables import percent
from clustersim.studies.scaling import text as scaling
from clustersim.studies.scaling.charts import curve_charts, loss_chart

Values = Mapping[str, Any]

KINDS: Final = ("weak", "strong")


def page(answer: Values, command: str = "") -> Page:
    """Return the page of a study: the answer, then each kind of curve.

    `command` is what made it.
    """
    curves = [curve for curve in answer["curves"] if curve["points"]]
    titles = dict.fromkeys(curve["title"] for curve in answer["curves"])
    kinds = [(kind, [c for c in curves if c["scaling"] == kind]) for kind in KINDS]
    return Page(
        title="; ".join(titles),
        subtitle="how it scales: efficiency over numbers of devices, and what takes the rest",
        sections=(
            Section("The answer", "answer", (), (Cards(tuple(_cards(curves))),)),
            *(_section(kind, mine) for kind, mine in kinds if mine),
            _told(curves),
        ),
        command=command,
    )


def _cards(curves: Sequence[Values]) -> Iterator[Card]:
    for curve in curves:
        point = curve["points"][-1]
        found = f"of {curve['name']} at {point['devices']:,} devices, against {curve['against']:,}"
        yield Card(f"{curve['scaling']} scaling keeps", percent(point["efficiency"]), found)
        for each in curve["published"]:
            if each["metric"] == "efficiency" and each["error"] is not None:
                said = f"{curve['name']} at {each['devices']:,} devices; {each['source']}"
                yield Card("published", percent(each["value"]), said)


def _section(kind: str, curves: Sequence[Values]) -> Section:
    """Return the charts of one kind of curve, and a table for each of them."""
    losses = (loss_chart(curve, named=True) for curve in curves)
    charts = [page_chart(picture) for picture in (*curve_charts(curves), *losses)]
    prose = tuple(f"{curve['name']}: {scaling.how(curve)}." for curve in curves)
    blocks: tuple[Block, ...] = (*charts, *map(_points, curves))
    return Section(f"{kind.capitalize()} scaling", kind, prose, blocks)


def _points(curve: Values) -> Table:
    head, *rows = scaling.table(curve)
    columns = tuple(Column(name, name not in scaling.WORDS) for name in head)
    return Table(f"{curve['name']}, {curve['scaling']} scaling", columns, tuple(map(tuple, rows)))


def _told(curves: Sequence[Values]) -> Section:
    """Return what was published, skipped and assumed, line by line."""
    rows = tuple(
        (row.label, f"{curve['name']}, {curve['scaling']}", row.text)
        for curve in curves
        for row in scaling.notes(curve)
    )
    reasons = dict.fromkeys(
        ("assumed", curve["name"], f"{key}: {why}")
        for curve in curves
        for key, why in curve["assumed"].items()
    )
    columns = (Column("about"), Column("curve"), Column("answer"))
    table = Table("Losses, published numbers, what was skipped and assumed", columns,
                  (*(row for row in rows if row[0] != "assumed"), *reasons))  # fmt: skip
    return Section("Line by line", "lines", (), (table,))


__all__ = ["page"]
