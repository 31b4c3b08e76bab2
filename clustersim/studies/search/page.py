"""The page of a search: the best layout, its proof, why it wins, the front, and the rules."""

from typing import Final

from clustersim.render.charts.picture import Column, Table
from clustersim.render.page.page import Block, Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.tables import percent
from clustersim.studies.search.answer import SearchAnswer
from clustersim.studies.search.arguments import ENERGY
from clustersim.studies.search.charts import layout_front, layout_waterfall
from clustersim.studies.search.text import format_layout_values, rows
from clustersim.units import GIB, format_number, format_seconds

SHOWN: Final = 200
"""Maximum number of layouts in the table; `search.csv` has all."""


def page(answer: SearchAnswer, command: str = "") -> Page:
    """Return the page of a search; `command` is its command line."""
    sections = [_summary(answer)]
    compared = [one for one in answer.differences if one.step_time_s is not None]
    if compared:
        charts = tuple(page_chart(layout_waterfall(answer, one)) for one in compared)
        sections.append(Section("Why the best layout wins", "why", (), charts))
    if answer.ranked:
        sections.append(Section("Replayed layouts", "layouts", (), (_ranking(answer),)))
    if len(answer.ranked) > 1:
        fronts = tuple(page_chart(layout_front(answer, front)) for front in answer.pareto)
        sections.append(Section("Pareto fronts", "pareto", (), fronts))
    counts = answer.layouts
    subtitle = f"{counts.possible:,} possible layouts, {counts.replayed:,} replayed"
    return Page(answer.title, subtitle, (*sections, *_rules(answer)), command)


def _summary(answer: SearchAnswer) -> Section:
    lines = tuple((line.label, line.text) for line in rows(answer) if line.label != "rules")
    columns = Column("item"), Column("value")
    blocks: tuple[Block, ...] = (Cards(_cards(answer)), Table("Summary", columns, lines))
    return Section("Best layout", "answer", (), blocks)


def _cards(answer: SearchAnswer) -> tuple[Card, ...]:
    best, counts = answer.best, answer.layouts
    valid = counts.possible - counts.excluded
    replayed = Card("layouts replayed", f"{counts.replayed:,}", f"of {valid:,} that are valid")
    if best is None:
        return (replayed,)
    memory = f"of {best.memory.capacity_bytes / GIB:.1f} GiB per device"
    gap = percent(answer.gap or 0.0)
    measure = "energy" if answer.by == ENERGY else "step time"
    return (
        Card("throughput", f"{best.tokens_per_s:,.0f} tokens/s", format_layout_values(best.set_)),
        Card("step time", format_seconds(best.step_time_s), f"MFU {percent(best.mfu)}"),
        Card("memory", f"{best.memory.peak_bytes / GIB:.1f} GiB", memory),
        Card("another layout is better by at most", gap, f"share of the best {measure}"),
        replayed,
    )


def _ranking(answer: SearchAnswer) -> Table:
    lines = tuple(
        (
            f"{place:,}",
            format_layout_values(one.set_),
            *([format_number(one.value)] if answer.by == ENERGY else []),
            format_number(one.step_time_s),
            format_number(one.bound_s),
            f"{one.tokens_per_s:,.0f}",
            f"{100 * one.mfu:.1f}",
            f"{one.memory_peak_bytes / GIB:.1f}",
        )
        for place, one in enumerate(answer.ranked[:SHOWN], 1)
    )
    energy = ["tokens/J"] if answer.by == ENERGY else []
    names = (
        *energy,
        "step time [s]",
        "bound [s]",
        "throughput [tokens/s]",
        "MFU [%]",
        "memory [GiB]",
    )
    columns = Column("rank", True), Column("layout"), *(Column(name, True) for name in names)
    more = len(answer.ranked) - SHOWN
    rest = f"; {more:,} more are in search.csv" if more > 0 else ""
    return Table(f"Layouts that fit, the best first{rest}", columns, lines, "Find layouts")


def _rules(answer: SearchAnswer) -> tuple[Section, ...]:
    """Return the rules with the layouts that they exclude; no section without any."""
    if not answer.rules:
        return ()
    lines = tuple((f"{rule.count:,}", rule.why) for rule in answer.rules)
    columns = Column("layouts", True), Column("rule, with the numbers of the first layout")
    return (Section("Excluded layouts", "rules", (), (Table("Rules", columns, lines),)),)
