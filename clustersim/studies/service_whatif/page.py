"""The page of a what-if of a service: which change improves most, and what it changes."""

from clustersim.metrics.difference import format_speed
from clustersim.render.charts import Axis, Waterfall
from clustersim.render.charts.picture import Column, Table
from clustersim.render.page.page import Block, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.service_words import WAITING, causes_text, part_steps
from clustersim.studies.service_whatif.answer import ServiceWhatIf
from clustersim.studies.service_whatif.text import (
    HEADINGS,
    WORDS,
    change_table,
    change_text,
    finding,
    rows,
)


def page(answer: ServiceWhatIf, command: str = "") -> Page:
    """Return the page of changes; `command` is what made it."""
    columns = tuple(Column(name or "main part", name not in WORDS) for name in HEADINGS)
    lines = tuple(map(tuple, change_table(answer)[1:]))
    blocks: list[Block] = [Table("changes, the best first", columns, lines)]
    if remarks := tuple((row.label, row.text) for row in rows(answer)):
        blocks.append(Table("remarks", (Column("about"), Column("remark")), remarks))
    chart = best_waterfall(answer)
    drawn = () if chart is None else (Section("Best change", "best", (), (page_chart(chart),)),)
    results = Section("Results", "answer", (), tuple(blocks))
    return Page(f"What if: {answer.base.title}", finding(answer), (results, *drawn), command)


def best_waterfall(answer: ServiceWhatIf) -> Waterfall | None:
    """Return the way from the time per token of the base to that of the best change."""
    best, before = answer.changes[0], answer.base.tpot_s
    after = best.measures.get("tpot")
    if before is None or not after:
        return None
    return Waterfall(
        title=f"{format_speed('A token', before.mean / after)}{causes_text(best.parts)}",
        caption=f"{answer.base.name}, before and after {change_text(best)}",
        description=f"The parts of a token's time lead from before to after {change_text(best)}.",
        note="Each bar begins where the one above ends.",
        contents="changes of the parts of a token's time",
        measure=Axis("mean time per token", "s"),
        first="before",
        last="after",
        start=before.mean,
        kinds=WAITING,
        steps=part_steps(best.parts, max(before.mean, after)),
    ).in_unit()
