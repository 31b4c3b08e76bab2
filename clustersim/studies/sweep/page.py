"""The page of a sweep: the best layout, all of them over their axes, the front, the reasons."""

from typing import Final

from clustersim.render.page.page import Block, Card, Cards, Column, Page, Section, Table
from clustersim.render.plotly import page_chart
from clustersim.render.tables import percent
from clustersim.studies.sweep.charts import front_chart, layouts_chart
from clustersim.studies.sweep.text import point_of, rows
from clustersim.studies.sweep.told import Row, Told
from clustersim.units import GIB, format_seconds

MOST: Final = 1_000
"""Layouts that the table lists, the best ones; `sweep.csv` has all."""


def page(sweep: Told, command: str = "") -> Page:
    """Return the page of a sweep; `command` is what made it."""
    sections = [_answer(sweep)]
    if sweep.free:
        chart = page_chart(layouts_chart(sweep))
        sections.append(Section("All layouts", "layouts", (), (chart, *_ranking(sweep))))
    if len(sweep.ranked) > 1:
        chart = page_chart(front_chart(sweep))
        sections.append(Section(f"Speed against {sweep.against}", "pareto", (), (chart,)))
    count = len(sweep.rows)
    told = f"{count:,} combinations, {len(sweep.ranked):,} of them fit"
    return Page(sweep.title, told, (*sections, *_reasons(sweep)), command)


def _answer(sweep: Told) -> Section:
    lines = tuple((line.label, line.text) for line in rows(sweep) if line.label not in REASONS)
    columns = Column("about"), Column("answer")
    blocks: tuple[Block, ...] = (Cards(_cards(sweep)), Table("in words", columns, lines))
    return Section("The answer", "answer", (), blocks)


def _cards(sweep: Told) -> tuple[Card, ...]:
    counts = sweep.answer["counts"]
    share = f"{counts['fits']:,} of {len(sweep.rows):,}"
    said = f"{counts['does_not_fit']:,} need more memory, {counts['refused']:,} cannot be"
    fit = Card("layouts that fit", share, said, alarm=not sweep.ranked)
    if not sweep.ranked:
        return (fit,)
    best = sweep.ranked[0]
    memory = f"of {best['memory_capacity_bytes'] / GIB:.1f} GiB of a device"
    where = point_of([*sweep.axes], best)
    return (
        Card("the best trains", f"{best['tokens_per_s']:,.0f} tokens/s", where),
        Card("one step takes", format_seconds(best["step_time_s"]), f"MFU {percent(best['mfu'])}"),
        Card("it needs", f"{best['memory_peak_bytes'] / GIB:.1f} GiB", memory),
        fit,
    )


def _ranking(sweep: Told) -> tuple[Table, ...]:
    """Return the layouts that fit, the best first; none where none fits."""
    if not sweep.ranked:
        return ()
    keys = [key for key in sweep.axes if key in sweep.free or key in sweep.filled]
    lines = tuple((point_of(keys, each), *_numbers(each)) for each in sweep.ranked[:MOST])
    names = "step", "tokens/s", "MFU", "memory [GiB]"
    columns = (Column("layout"), *(Column(name, True) for name in names))
    more = len(sweep.ranked) - MOST
    rest = f"; {more:,} more are in sweep.csv" if more > 0 else ""
    return (Table(f"layouts that fit, the best first{rest}", columns, lines, "Find layouts"),)


def _numbers(each: Row) -> tuple[str, ...]:
    return (
        format_seconds(each["step_time_s"]),
        f"{each['tokens_per_s']:,.0f}",
        percent(each["mfu"]),
        f"{each['memory_peak_bytes'] / GIB:.1f}",
    )


REASONS: Final = ("refused", "failed")


def _reasons(sweep: Told) -> tuple[Section, ...]:
    """Return why combinations cannot be; nothing where all can."""
    keys = [*sweep.axes]
    lines = tuple(
        (group["why"], f"{group['count']:,}", point_of(keys, group["example"]))
        for verdict in REASONS
        for group in sweep.answer[verdict]
    )
    if not lines:
        return ()
    columns = Column("reason"), Column("combinations", True), Column("for example")
    table = Table("why combinations cannot be", columns, lines)
    return (Section("What cannot be", "refused", (), (table,)),)


__all__ = ["page"]
