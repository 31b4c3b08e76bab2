"""The files of a replayed trace: ranks, communication and missing operations; a figure, a page."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple, fields
from functools import partial
from typing import Any

from clustersim.render.charts.bars import Bar, Bars
from clustersim.render.charts.picture import Axis, Picture, text_table
from clustersim.render.page.page import Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.study_folder import StudyFiles
from clustersim.render.tables import percent
from clustersim.reports.trace.text import finding, rows
from clustersim.simulation.trace.answer import (
    NotPlacedAnswer,
    RankTime,
    TraceAnswer,
    TracedCommunication,
)
from clustersim.units import format_seconds

MOST_BARS = 24
"""Ranks that the figure shows, those that compute longest first."""


def files_of(answer: TraceAnswer, command: str = "") -> StudyFiles:
    """Return the files of a replayed trace; `command` is what made it."""
    tables = {
        "ranks.csv": _table(RankTime, answer.ranks),
        "communication.csv": _table(TracedCommunication, answer.communications),
        "not-placed.csv": _table(NotPlacedAnswer, answer.not_placed),
    }
    return StudyFiles(answer, partial(page, answer, command), tables, charts(answer))


def _table(kind: type, records: Sequence[Any]) -> Iterator[Sequence[Any]]:
    yield [field.name for field in fields(kind)]
    yield from map(astuple, records)


def charts(answer: TraceAnswer) -> dict[str, Picture]:
    """Return the figure by its name: how long each rank computes."""
    shown = sorted(answer.ranks, key=lambda rank: (-rank.compute_s, rank.rank))[:MOST_BARS]
    bars = Bars(
        title=finding(answer),
        caption="time in which a rank computes",
        description=f"A bar for each of {len(shown)} ranks.",
        names="rank",
        measure=Axis("compute", "s", zero=True),
        bars=tuple(
            Bar(f"rank {rank.rank}", rank.compute_s, format_seconds(rank.compute_s))
            for rank in shown
        ),
    )
    return {"ranks": bars}


def page(answer: TraceAnswer, command: str = "") -> Page:
    """Return the page of a replayed trace; `command` is what made it."""
    return Page(answer.title, finding(answer), tuple(_sections(answer)), command)


def _sections(answer: TraceAnswer) -> Iterator[Section]:
    lines = ((row.label, row.text) for row in rows(answer))
    table = text_table("All results", ("item", "result"), lines)
    yield Section("Summary", "answer", (), (Cards(tuple(_cards(answer))), table))
    drawn = [page_chart(picture) for picture in charts(answer).values()]
    text = "Ranks that compute longest make the others wait at their next collective."
    yield Section("Ranks", "ranks", (text,), tuple(drawn))


def _cards(answer: TraceAnswer) -> Iterator[Card]:
    yield Card("Step", format_seconds(answer.step_time_s), f"{len(answer.ranks):,} ranks")
    for label, seconds in (
        ("Compute", answer.compute_s),
        ("Exposed communication", answer.exposed_s),
        ("Waiting", answer.waiting_s),
    ):
        share = seconds / answer.step_time_s if answer.step_time_s else 0.0
        yield Card(label, percent(share), format_seconds(seconds))
