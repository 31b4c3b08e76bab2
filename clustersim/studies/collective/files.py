"""The files of a collective: its table, its chart and a page."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import partial
from statistics import median
from typing import Any, Final

from clustersim.render.charts.lines import Lines, Series, colour_at, marker_at
from clustersim.render.charts.picture import Axis, text_table
from clustersim.render.page.page import Block, Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.study_folder import StudyFiles
from clustersim.studies.collective.answer import CollectiveAnswer, Timing
from clustersim.units import format_bandwidth, format_binary, format_seconds


def files_of(answer: CollectiveAnswer, command: str = "") -> StudyFiles:
    """Return the files; a barrier, which has no sizes, has no chart."""
    drawn = answer.timings[0].bytes > 0
    charts = {"collective": bandwidth_chart(answer)} if drawn else {}
    tables = {"collective.csv": _timings(answer)}
    return StudyFiles(answer, partial(page, answer, command), tables, charts)


def page(answer: CollectiveAnswer, command: str = "") -> Page:
    """Return the page of an answer; `command` is what made it."""
    head, *lines = table(answer)
    names = (name if name in WORDS else f">{name}" for name in head)
    blocks: list[Block] = [Cards((_best(answer),)), text_table("Times by size", (*names,), lines)]
    if answer.timings[0].bytes > 0:
        blocks.append(page_chart(bandwidth_chart(answer)))
    subtitle = "Time of a collective by size, its algorithm, and what limits it"
    return Page(answer.title, subtitle, (Section("Results", "answer", (), (*blocks,)),), command)


def _best(answer: CollectiveAnswer) -> Card:
    """Return the highest bus bandwidth; of a barrier, which has none, the time."""
    best = max(answer.timings, key=lambda timing: timing.busbw)
    if not best.bytes:
        return Card("Time", format_seconds(best.time_s), best.bottleneck)
    where = f"at {format_binary(best.bytes)} in {format_seconds(best.time_s)}"
    return Card("Bus bandwidth", format_bandwidth(best.busbw), f"{where}; limit: {best.bottleneck}")


def _timings(answer: CollectiveAnswer) -> Iterator[Sequence[Any]]:
    columns = [field.name for field in fields(Timing)]
    yield columns
    for timing in answer.timings:
        yield [getattr(timing, column) for column in columns]


TICKS: Final = 8
"""Sizes that are named on the axis."""


def bandwidth_chart(answer: CollectiveAnswer) -> Lines:
    """Return the bus bandwidth of each size; with background traffic as well, if there is any."""
    timings = answer.timings
    sizes = tuple(timing.bytes for timing in timings)
    rates = tuple(timing.busbw / 1e9 for timing in timings)
    algorithms = [f"{timing.algorithm} {timing.protocol}" for timing in timings]
    series = [Series("", sizes, rates, "line", marker="", thin=True)]
    for place, algorithm in enumerate(dict.fromkeys(algorithms)):
        points = [i for i, name in enumerate(algorithms) if name == algorithm]
        x, y = tuple(sizes[i] for i in points), tuple(rates[i] for i in points)
        series.append(Series(algorithm, x, y, colour_at(place), marker_at(place), "none"))
    if measured := [t for t in timings if t.ratio]:
        x = tuple(timing.bytes for timing in measured)
        y = tuple(timing.busbw / timing.ratio / 1e9 for timing in measured if timing.ratio)
        series.append(Series("measured", x, y, "ink", "circle", "none", hollow=True))
    slow = tuple(t.busbw / t.slowdown / 1e9 for t in timings if t.slowdown is not None)
    if slow:
        series.append(Series("with concurrent traffic", sizes, slow, "ink", "", "dashed"))
    ticks = tuple((size, format_binary(size)) for size in sizes[:: max(1, len(sizes) // TICKS)])
    return Lines(
        title=measured_finding(answer) if measured else bandwidth_finding(timings),
        caption=answer.title,
        description="Bus bandwidth over the size of the buffer, with a marker for each algorithm.",
        contents="bus bandwidth by size",
        x=Axis("size of the buffer", log=2, ticks=ticks),
        y=Axis("bus bandwidth", "GB/s", zero=True),
        series=tuple(series),
    )


def bandwidth_finding(timings: Sequence[Timing]) -> str:
    """Return the largest bandwidth and the size that reaches half of it, as a title."""
    best = max(timing.busbw for timing in timings)
    half = next(timing for timing in timings if timing.busbw >= best / 2)
    reached = f"{format_bandwidth(best)} of bus bandwidth"
    return f"{reached}, half of it from {format_binary(half.bytes)}"


HEADINGS: Final = ("size", "time", "algbw", "busbw", "algorithm", "bottleneck")
CONTENDED: Final = ("with", "slowdown", "shared link")
"""Further columns with background traffic."""

MEASURED: Final = ("measured", "ratio")
"""Further columns next to a log."""

WORDS: Final = ("algorithm", "bottleneck", "shared link")
"""Columns that are words."""


def table(answer: CollectiveAnswer) -> list[list[str]]:
    """Return the rows of the table, its heading first."""
    contended = answer.timings[0].slowdown is not None
    measured = bool(answer.ratios)
    head = [*HEADINGS, *(CONTENDED if contended else ()), *(MEASURED if measured else ())]
    return [head, *(_cells(timing, measured=measured) for timing in answer.timings)]


def measured_finding(answer: CollectiveAnswer) -> str:
    """Return how the times of a log compare with the predicted ones, in one line."""
    ratios = answer.ratios
    return (
        f"Measured times are {median(ratios):.2f} of the predicted ones in the median of"
        f" {len(ratios)} sizes, {ratios[0]:.2f} to {ratios[-1]:.2f}"
    )


def _cells(timing: Timing, *, measured: bool) -> list[str]:
    cells = [
        format_binary(timing.bytes),
        format_seconds(timing.time_s),
        format_bandwidth(timing.algbw),
        format_bandwidth(timing.busbw),
        f"{timing.algorithm} {timing.protocol}",
        timing.bottleneck,
    ]
    if timing.time_with_s is not None and timing.slowdown is not None:
        contended = format_seconds(timing.time_with_s), f"{timing.slowdown:.2f} x"
        cells += [*contended, timing.shared_link or "none"]
    if timing.measured_s is not None:
        cells += [format_seconds(timing.measured_s), f"{timing.ratio:.2f} x"]
    elif measured:
        cells += ["", ""]
    return cells
