"""The files of a check: steps and causes as tables, the steps over the predicted band, a page."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from clustersim.render.charts.lines import Band, Lines, Series, reference
from clustersim.render.charts.picture import Axis, text_table
from clustersim.render.page.page import Block, Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.study_folder import StudyFiles
from clustersim.studies.check.answer import CheckAnswer
from clustersim.studies.check.measured import LogSummary
from clustersim.studies.check.text import (
    anchor_rows,
    anchor_table,
    cause_table,
    change_of,
    finding,
    rows,
    table,
)
from clustersim.units import format_seconds


def files_of(answer: CheckAnswer, command: str = "") -> StudyFiles:
    """Return the files of a check; `command` is what made it."""
    tables: dict[str, Iterable[Sequence[Any]]] = {
        "measures.csv": table(answer),
        "causes.csv": cause_table(answer),
    }
    if factors := anchor_table(answer):
        tables["factors.csv"] = factors
    if answer.log is None:
        return StudyFiles(answer, partial(page, answer, command), tables)
    chart = steps_chart(answer, answer.log)
    tables["steps.csv"] = _steps(answer.log)
    return StudyFiles(answer, partial(page, answer, command), tables, {"steps": chart})


def _steps(log: LogSummary) -> Iterator[Sequence[Any]]:
    yield ["number", "line", "seconds", "use"]
    for step in log.steps:
        yield [step.number, step.line, step.seconds, step.use]


def steps_chart(answer: CheckAnswer, log: LogSummary) -> Lines:
    """Return the times of the steps over the interval that is predicted."""
    uses = {"steady": "series-0", "warm-up": "quiet", "interrupted": "series-1"}
    places = range(1, len(log.steps) + 1)
    series = [reference("predicted", (1, len(log.steps)), (answer.predicted["step_time_s"],) * 2)]
    for use, colour in uses.items():
        points = [
            (x, step.seconds) for x, step in zip(places, log.steps, strict=True) if step.use == use
        ]
        if points:
            x, y = zip(*points, strict=True)
            series.append(Series(use, tuple(map(float, x)), y, colour, stroke="none", hollow=True))
    interval = answer.interval
    bands: tuple[Band, ...] = ()
    if interval is not None and interval.low_s is not None and interval.high_s is not None:
        ends = (1.0, float(len(log.steps)))
        bands = (Band(ends, (interval.low_s,) * 2, (interval.high_s,) * 2),)
    return Lines(
        title=finding(answer).partition(" (")[0],
        caption=f"{answer.file} ({log.format}) next to {answer.title}",
        description="Times of the logged steps over the interval of the predicted step time.",
        note="Band: the interval in which a step is normal." if bands else "",
        contents="times of the logged steps",
        x=Axis("step of the log"),
        y=Axis("step time", "s", zero=True),
        series=tuple(series),
        bands=bands,
    )


def page(answer: CheckAnswer, command: str = "") -> Page:
    """Return the page of a check."""
    blocks: list[Block] = []
    seconds = answer.measured.get("step_time_s")
    if seconds is not None:
        verdict = f"{answer.verdict}: {change_of(answer, seconds)}"
        card = Card("Step time", format_seconds(seconds), verdict, answer.verdict == "slow")
        blocks.append(Cards((card,)))
    blocks.append(_table("measured and predicted", table(answer), ("measure",)))
    if remarks := [(row.label, row.text) for row in rows(answer)]:
        blocks.append(text_table("remarks", ("about", "remark"), remarks))
    sections = [Section("Results", "answer", (), tuple(blocks))]
    if factors := anchor_table(answer):
        blocks = [_table("factors on the catalogue's values", factors, ("factor",))]
        known = [(row.label, row.text) for row in anchor_rows(answer)]
        blocks.append(text_table("prediction with them", ("about", "remark"), known))
        sections.append(Section("Anchor", "anchor", (), tuple(blocks)))
    causes: list[Block] = []
    if answer.causes:
        causes.append(_table("likely causes", cause_table(answer), ("cause", "check")))
    if answer.log is not None:
        causes.append(page_chart(steps_chart(answer, answer.log)))
    if causes:
        sections.append(Section("Steps and causes", "why", (), tuple(causes)))
    return Page(f"Check: {answer.title}", finding(answer), tuple(sections), command)


def _table(caption: str, cells: list[list[str]], words: Sequence[str]) -> Block:
    head, *lines = cells
    return text_table(caption, [name if name in words else f">{name}" for name in head], lines)
