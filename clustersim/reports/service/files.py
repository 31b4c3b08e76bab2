"""The files of a service: its answer, requests and load curve as tables, charts and the page."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from clustersim.render.charts.bars import Step, Waterfall
from clustersim.render.charts.lines import Band, Lines, Series, Stroke, reference
from clustersim.render.charts.picture import Axis, Picture, text_table
from clustersim.render.charts.timeline import BlockKind, Timeline
from clustersim.render.page.page import Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.study_folder import StudyFiles
from clustersim.render.tables import labelled, percent
from clustersim.reports.evidence import nearest_section
from clustersim.reports.measures import LEGENDS, expectation_cards, part_kind, part_name
from clustersim.reports.published import published_table
from clustersim.reports.service.text import rows
from clustersim.reports.step import scenario, sources_section
from clustersim.simulation.measures import QUANTILES
from clustersim.simulation.service.answer import LoadPoint
from clustersim.units import format_number, format_seconds

if TYPE_CHECKING:
    from clustersim.simulation.service.result import ServeResult


def files_of(result: "ServeResult", command: str = "") -> StudyFiles:
    """Return the files of a service; `command` is what made it, for the page."""
    figures: dict[str, Picture | Sequence[Picture]] = {}
    tables = {"load.csv": _curve(result.curve)} if result.curve else {}
    if charts := load_charts(result):
        figures["load"] = charts
    if result.replayed is not None:
        figures["token"] = token_chart(result)
        figures["requests"] = request_strip(result)
        if cache := kv_chart(result):
            figures["kv"] = cache[0]
    frames = {"requests.csv": result.frame} if result.replayed is not None else {}
    return StudyFiles(result.answer, partial(page, result, command), tables, figures, frames)


TIMES_OF_REQUESTS: Final = ("ttft", "tpot", "latency")
"""Times of a request, by the names of their measures."""


def _curve(curve: Sequence[LoadPoint]) -> Iterator[Sequence[Any]]:
    names = [field.name for field in fields(LoadPoint) if field.name != "times"]
    every = [times for point in curve for times in point.times.values()]
    percentiles = tuple(every[0].by_name) if every else QUANTILES
    of_times = [(time, each) for time in TIMES_OF_REQUESTS for each in percentiles]
    known = [(time, each) for time in TIMES_OF_REQUESTS for each in ("mean", *percentiles)]
    ends = [f"{time}_{each}_{end}" for time, each in known for end in ("low", "high")]
    yield [*names, *(f"{time}_{each}" for time, each in of_times), *ends]
    for point in curve:
        values = {time: times.by_name for time, times in point.times.items()}
        statistics = [values.get(time, {}).get(each) for time, each in of_times]
        intervals = [
            end
            for time, each in known
            for end in getattr(point.times.get(time), "intervals", {}).get(each, (None, None))
        ]
        yield [*(getattr(point, name) for name in names), *statistics, *intervals]


def page(result: "ServeResult", command: str = "") -> Page:
    """Return the page of a result; `command` is the command line that it names."""
    lines = {row.label: row.text for row in rows(result)}
    ran = result.replayed is not None
    return Page(
        title=result.scenario.title,
        subtitle="; ".join(lines[label] for label in ("machine", "model", "layout", "load")),
        sections=(
            _summary(result),
            *_load(result),
            *(_time(result) if ran else ()),
            nearest_section(result.nearest),
            *_published(result),
            sources_section(result.loaded.tree),
            scenario(result.loaded.tree, ""),
        ),
        command=command,
    )


def _summary(result: "ServeResult") -> Section:
    table = text_table("All results", ("item", "result"), labelled(rows(result)))
    return Section("Summary", "summary", (), (Cards(tuple(_cards(result))), table))


def _cards(result: "ServeResult") -> list[Card]:
    memory = result.memory
    value, _, why = memory.verdict.partition(": ")
    verdict = Card("Memory", value, why, warning=not memory.fits)
    expected = expectation_cards(result.answer.expectations)
    if result.replayed is None:
        return [verdict, *expected]
    output = result.rates["output_tokens_per_s"]
    rate = f"{format_number(output, 3)} tokens/s"
    each = f"{format_number(output / result.devices, 3)} for each of {result.devices:,}"
    cards = [*_queue(result), Card("Output throughput", rate, f"{each} devices")]
    if result.ttft is not None:
        latest = f"99 % within {format_seconds(result.ttft.p99)}"
        cards.append(Card("Time to first token", format_seconds(result.ttft.mean), latest))
    if result.tpot is not None:
        user = f"{format_number(1 / result.tpot.mean, 3)} tokens/s for each user"
        cards.append(Card("Time per token", format_seconds(result.tpot.mean), user))
    if result.goodput is not None:
        found = result.goodput
        text = f"{format_number(found.requests_per_s, 3)} requests/s within the limits"
        cards.append(Card("Goodput", percent(found.share), text, warning=not found.share))
    return [*cards, verdict, *expected]


def _queue(result: "ServeResult") -> list[Card]:
    """Return whether the rate of requests is sustained."""
    if result.steady is None:
        return []
    value, _, why = result.steady.verdict.partition(": ")
    return [Card("Queue", value, why, warning=not result.steady.stable)]


def _load(result: "ServeResult") -> tuple[Section, ...]:
    """Return the charts over the load; no section for fewer than two loads."""
    charts = load_charts(result)
    if not charts:
        return ()
    return (Section("Load", "load", (), tuple(map(page_chart, charts))),)


def _time(result: "ServeResult") -> tuple[Section, ...]:
    charts = (request_strip(result), *kv_chart(result))
    return (
        Section("Time of a token", "token", (), (page_chart(token_chart(result)),)),
        Section("Requests and KV cache in time", "time", (), tuple(map(page_chart, charts))),
    )


def _published(result: "ServeResult") -> tuple[Section, ...]:
    if not result.published:
        return ()
    table = published_table(result.published)
    return (Section("Published numbers", "published", (), (table,)),)


MOST_REQUESTS: Final = 48
"""Requests of the strip."""

MOST_INSTANTS: Final = 600
"""Instants at which the KV cache is drawn."""

_LOADS: Final = {
    "concurrency": Axis("concurrent users", log=2),
    "rate": Axis("arrivals", "requests/s", log=2),
    "batch": Axis("requests of a batch", log=2),
}


def load_charts(result: "ServeResult") -> list[Lines]:
    """Return what is drawn over the load; nothing for fewer than two loads."""
    curve = result.curve
    if len(curve) < 2:
        return []
    charts = [_latency_chart(result, curve)]
    if all(point.tokens_per_s_per_user and point.stable is not False for point in curve):
        charts.append(_user_chart(result, curve))
    return charts


def _caption(result: "ServeResult") -> str:
    return f"{result.scenario.title} ({result.name})"


def _load_axis(result: "ServeResult", curve: Sequence[LoadPoint]) -> Axis:
    axis = _LOADS[result.scenario.load.kind]
    ticks = tuple((point.load, format_number(point.load)) for point in curve)
    return Axis(axis.label, axis.unit, log=2, ticks=ticks)


_TIMES: Final = (
    ("latency", "whole request", "series-0", "circle"),
    ("ttft", "first token", "series-1", "square"),
    ("tpot", "each further token", "series-2", "triangle-up"),
)
"""Times of a request, with the names, colours and markers of their lines."""


def _latency_chart(result: "ServeResult", curve: Sequence[LoadPoint]) -> Lines:
    """Return the times of requests over the load: means with intervals, medians, percentiles."""
    series, bands = [], []
    stable = [point for point in curve if point.stable is not False]
    for name, label, colour, marker in _TIMES:
        points = [(point.load, point.times[name]) for point in stable if name in point.times]
        loads = tuple(load for load, _ in points)
        means = tuple(times.mean for _, times in points)
        if not points:
            continue
        series.append(Series(label, loads, means, colour, marker))
        for percentile in points[0][1].shown:
            values = tuple(times.shown[percentile] for _, times in points)
            stroke: Stroke = "dashed" if percentile == "p99" else "dotted"
            series.append(Series("", loads, values, colour, "", stroke))
        for statistic in ("mean", "p99"):
            if len(points) > 1 and all(statistic in times.intervals for _, times in points):
                low, high = zip(*(times.intervals[statistic] for _, times in points), strict=True)
                bands.append(Band(loads, low, high))
    return Lines(
        title=_growth(result, curve),
        caption=_caption(result),
        description="Times of a request over the load: to the first token, for each further token,"
        " and in all.",
        note=f"Means with markers; {_dotted(stable)} of requests are within the dotted lines, 99 %"
        " within the dashed ones; at a rate means and the latter have their 95 % intervals.",
        contents="latency over the load",
        x=_load_axis(result, curve),
        y=Axis("time", "s", log=10),
        series=(*series, *_sustainable(result, series)),
        bands=tuple(bands),
    )


def _dotted(curve: Sequence[LoadPoint]) -> str:
    """Return the percentiles whose lines are dotted: ``'50 and 90 %'``."""
    every = [times for point in curve for times in point.times.values()]
    names = [*every[0].shown] if every else ["p50", "p90"]
    *others, last = [name[1:] for name in names if name != "p99"]
    return f"{', '.join(others)} and {last} %"


def _growth(result: "ServeResult", curve: Sequence[LoadPoint]) -> str:
    """Return how the time of a request grows with the load, as far as the load is sustained."""
    axis = _LOADS[result.scenario.load.kind]
    what = axis.unit or axis.label
    known = [(point.load, point.latency_s) for point in curve if point.latency_s is not None]
    if not known:
        return f"No rate is sustained from {format_number(curve[0].load)} {what} on"
    (first, quickest), (last, slowest) = known[0], known[-1]
    return (
        f"From {format_number(first)} to {format_number(last)} {what} a request takes"
        f" {format_seconds(quickest, 3)} to {format_seconds(slowest, 3)}"
    )


def _sustainable(result: "ServeResult", series: Sequence[Series]) -> list[Series]:
    """Return a line at the sustainable rate; none of a load without a rate."""
    values = [value for each in series for value in each.y]
    if result.steady is None or not values:
        return []
    most = result.steady.sustainable_requests_per_s
    return [reference("sustainable rate", (most, most), (min(values), max(values)))]


def _user_chart(result: "ServeResult", curve: Sequence[LoadPoint]) -> Lines:
    """Return throughput of a device over the speed that a user sees."""
    users = tuple(point.tokens_per_s_per_user or 0.0 for point in curve)
    rates = tuple(point.output_tokens_per_s_per_device for point in curve)
    unit = _LOADS[result.scenario.load.kind].label
    hover = tuple(f"{format_number(point.load)} {unit}" for point in curve)
    series = [Series("predicted", users, rates, "series-0", "circle", hover=hover)]
    limits = result.scenario.limits
    if limits is not None and limits.tpot:
        slowest = 1 / limits.tpot
        series.append(reference("limit of a user", (slowest, slowest), (0.0, max(rates))))
    top = max(curve, key=lambda point: point.output_tokens_per_s_per_device)
    return Lines(
        title=f"Up to {format_number(top.output_tokens_per_s_per_device, 3)} tokens/s for each"
        f" device, at {format_number(top.tokens_per_s_per_user or 0.0, 3)} for each user",
        caption=_caption(result),
        description="Throughput of a device over the speed that one user sees, along the load.",
        note=f"Each point is one load; {unit} grow from right to left.",
        contents="throughput of a device and speed of a user",
        x=Axis("speed of one user", "tokens/s", zero=True),
        y=Axis("throughput of one device", "output tokens/s", zero=True),
        series=tuple(series),
    )


# --- causes ---------------------------------------------------------------------------------------


def token_chart(result: "ServeResult") -> Waterfall:
    """Return the time of a token by cause; of the first token if it is the only one."""
    parts = sorted(result.attribution.items(), key=lambda part: -part[1])
    whole = sum(seconds for _, seconds in parts)
    what = "a token" if result.tpot is not None else "the first token"
    largest = ", ".join(f"{part_name(name)} {percent(s / whole)}" for name, s in parts[:2])
    return Waterfall(
        title=f"Of the time of {what}, {largest}",
        caption=_caption(result),
        description=f"Parts of the time of {what}, the largest first.",
        note="Each bar begins where the one above ends.",
        contents=f"parts of the time of {what}",
        measure=Axis("time", "s"),
        first="",
        last=f"time of {what}",
        start=0.0,
        kinds=LEGENDS["token"],
        steps=tuple(Step(part_name(name), part_kind(name), seconds) for name, seconds in parts),
    ).in_unit()


# --- in time --------------------------------------------------------------------------------------

KINDS: Final = (
    BlockKind("waits for admission", ("communication", "communication"), computes=False),
    BlockKind("prompt", ("backward-0", "backward-1"), computes=False),
    BlockKind("decodes", ("forward-0", "forward-1"), computes=False),
)


def request_strip(result: "ServeResult") -> Timeline:
    """Return the first measured requests in time: queue, prompt, decode."""
    chosen = result.requests.ordered[:MOST_REQUESTS]
    begin = chosen.arrival.min()
    blocks: list[tuple[int, int, float, float]] = []
    for lane, request in enumerate(chosen):
        ends = (request.arrival, request.admitted, request.first, request.finish)
        spans = pairwise(ends)
        blocks += [
            (lane, kind, start - begin, end - begin)
            for kind, (start, end) in enumerate(spans)
            if end > start
        ]
    columns = np.array(blocks).T
    end = columns[3]
    arrays: dict[str, Any] = {
        "lane": columns[0].astype(np.int32),
        "kind": columns[1].astype(np.int8),
        "number": np.full(len(blocks), -1, np.int32),
        "shade": np.zeros(len(blocks), np.int32),
        "start": columns[2],
        "end": end,
    }
    wait = "" if result.ttft is None else f" {format_seconds(result.ttft.mean, 3)}"
    return Timeline(
        title=f"Requests wait{wait} for their first token",
        caption=_caption(result),
        note=f"The first {len(chosen):,} of {len(result.requests):,} measured requests.",
        description="Requests from top to bottom, time from left to right: queue, prompt, decode.",
        contents="requests of this chart",
        time=Axis("time", "s", limits=(0.0, float(end.max()))),
        lanes="request",
        count=len(chosen),
        kinds=KINDS,
        shades=1,
        waiting="not in the service",
        **arrays,
    )


def kv_chart(result: "ServeResult") -> list[Lines]:
    """Return the KV cache in use over time, of the first replica; nothing if it makes no step."""
    assert result.replayed is not None
    steps = result.replayed.steps[0]
    if not len(steps):
        return []
    places = np.unique(np.linspace(0, len(steps.ends) - 1, MOST_INSTANTS).round().astype(int))
    times = tuple((steps.ends[places] - steps.start[0]).tolist())
    used = 100.0 * steps.blocks[places] / result.model.blocks
    peak = 100 * float(steps.blocks.max()) / result.model.blocks
    chart = Lines(
        title=f"The KV cache is used up to {peak:.3g} %",
        caption=f"{_caption(result)}; first replica",
        description="Blocks of the KV cache in use over time, as a share of all.",
        note=f"{result.model.blocks:,} blocks of {result.model.block_tokens} tokens.",
        contents="KV cache in use",
        x=Axis("time", "s", limits=(0.0, times[-1])),
        y=Axis("KV cache in use", "%", zero=True),
        series=(Series("", times, tuple(used.tolist()), "series-0", "", "steps"),),
    )
    return [chart]
