"""The page of a run: a summary, the charts, the links, and the source of every value."""

from pathlib import Path
from typing import TYPE_CHECKING

from clustersim.memory.room import outcome_of
from clustersim.render.charts.picture import text_table
from clustersim.render.page.page import Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.tables import UNMASKED, labelled, percent, words
from clustersim.reports.evidence import nearest_section
from clustersim.reports.measures import expectation_cards
from clustersim.reports.published import other_values, published_cards, published_table
from clustersim.reports.step.charts import breakdown, memory_by_stage, memory_over_time
from clustersim.reports.step.links import links
from clustersim.reports.step.pipeline import longest_wait, page_views, pipeline
from clustersim.reports.step.sections import disturbances, power_section, scenario, sources_section
from clustersim.reports.step.text import remedies, rows
from clustersim.traffic import link_text
from clustersim.units import format_bandwidth, format_number, format_seconds

if TYPE_CHECKING:
    from clustersim.render.charts.timeline import Timeline
    from clustersim.scenario.load import Loaded
    from clustersim.simulation.step.result import Result


def page(
    result: "Result",
    timeline: "Timeline | None" = None,
    command: str = "",
    *,
    sources: bool = True,
) -> Page:
    """Return the page of a result.

    Parameters
    ----------
    timeline : the chart of its pipeline, if there is one already
    command : the command line that the page names
    sources : whether it ends with the sources of all values and the scenario
    """
    lines = {row.label: row.text for row in rows(result)}
    return Page(
        title=result.scenario.title,
        subtitle="; ".join(lines[label] for label in ("machine", "model", "layout")),
        sections=(
            _summary(result),
            _time(result),
            *disturbances(result),
            _pipeline(timeline or pipeline(result)),
            _memory(result),
            power_section(result),
            links(result),
            _groups(result),
            nearest_section(result.nearest),
            _published(result),
            *(_sources(result.loaded) if sources else ()),
        ),
        command=command,
    )


def _sources(loaded: "Loaded") -> tuple[Section, ...]:
    return sources_section(loaded.tree), scenario(loaded.tree, _text_of(loaded))


def _text_of(loaded: "Loaded") -> str:
    """Return the text of the scenario's file, empty if it was not read from one."""
    try:
        return Path(loaded.place().file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


# --- the summary ----------------------------------------------------------------------------------


def _summary(result: "Result") -> Section:
    """Return the most important numbers as cards, then the lines of the terminal."""
    table = text_table("All results", ("item", "result"), labelled(rows(result)))
    return Section("Summary", "summary", (), (Cards(tuple(_cards(result))), table))


def _cards(result: "Result") -> list[Card]:
    model, executed = (result.flops_per_device(kind) / 1e12 for kind in ("model", "executed"))
    within = result.memory.fits
    waits = longest_wait(result)
    sequences = f"{format_number(result.samples_per_s)} sequences/s"
    return [
        *([] if within else [_verdict(result)]),
        _step_time(result),
        _interval(result),
        *expectation_cards(result.answer.expectations),
        *published_cards(result.published[:1]),
        Card(
            "Throughput",
            f"{result.tokens_per_s:,.0f} tokens/s",
            f"{sequences} of {result.scenario.batch.sequence:,} tokens",
        ),
        Card(
            "Model FLOP rate per device",
            f"{model:.1f} TFLOP/s",
            f"MFU {percent(result.mfu)}; executed {executed:.1f} TFLOP/s,"
            f" HFU {percent(result.hfu)}; MFU {UNMASKED}",
        ),
        Card(
            "Pipeline bubble",
            percent(result.bubble_fraction),
            f"of the step time{f', {waits}' if waits else ''}",
        ),
        *([_verdict(result)] if within else []),
    ]


def _verdict(result: "Result") -> Card:
    """Return whether the job fits; where it does not, by how much, and with which change it does.

    This is the first card of a job that may not fit; where it does not, its step time is
    hypothetical.
    """
    value, _, why = result.memory.reason.partition(": ")
    remedy = "".join(f"; fits with {text}" for text in remedies(result)[:1])
    return Card("Memory", value, f"{why}{remedy}", not result.memory.fits, result.memory.tight)


def _step_time(result: "Result") -> Card:
    devices = f"on {result.devices:,} devices"
    if result.memory.fits:
        return Card("Step time", format_seconds(result.step_time), devices)
    devices += f" with enough memory: the job {outcome_of(result.memory.reason)}"
    return Card("Hypothetical step time", format_seconds(result.step_time), devices, warning=True)


def _interval(result: "Result") -> Card:
    interval = result.interval
    if interval.low_s is None or interval.high_s is None:
        return Card("Prediction interval", "none", interval.why)
    low, high = (format_seconds(seconds, 3) for seconds in (interval.low_s, interval.high_s))
    level = f"level {100 * interval.level:g} %, from {interval.why}"
    return Card("Prediction interval", f"{low} to {high}", level)


# --- sections -------------------------------------------------------------------------------------


def _time(result: "Result") -> Section:
    """Return the components of the step time, and the links that limit communication."""
    names = ("communication", ">time", ">share of the step", "limiting link", ">capacity")
    capacities = {limit.link: limit.capacity for limit in result.program.limits.values()}
    lines = [
        (
            words(exposed.part),
            format_seconds(exposed.seconds, 3),
            percent(exposed.seconds / result.step_time),
            link_text(exposed.link, exposed.by) if exposed.link else "",
            format_bandwidth(capacities[exposed.link]) if exposed.link else "",
        )
        for exposed in result.exposed
    ]
    table = text_table("Exposed communication, mean of all ranks", names, lines)
    chart = page_chart(breakdown(result))
    return Section("Step time breakdown", "time", (), (chart, table) if lines else (chart,))


def _pipeline(timeline: "Timeline") -> Section:
    represented = timeline.caption.partition("; ")[2]
    text = (
        f"Time runs from left to right, stages from top to bottom. Shown: {represented}."
        " All blocks of all rank classes are in timeline.parquet."
    )
    charts = tuple(page_chart(view) for view in page_views(timeline))
    return Section("Pipeline timeline", "pipeline", (text,), charts)


def _memory(result: "Result") -> Section:
    verdict = result.memory.reason
    text = (
        f"{verdict[0].upper()}{verdict[1:]}.",
        *(f"Fits with {remedy}." for remedy in remedies(result)),
    )
    charts = page_chart(memory_by_stage(result)), page_chart(memory_over_time(result))
    return Section("Memory", "memory", text, charts)


def _groups(result: "Result") -> Section:
    """Return the groups of ranks that communicate, and their links."""
    heading = "Communication groups"
    if not result.groups:
        return Section(heading, "groups")
    names = ("group", ">ranks", ">groups", ">nodes per group", "links between neighbours")
    lines = (
        (
            words(group.group),
            f"{group.ranks:,}",
            f"{group.groups:,}",
            f"{group.nodes.fewest:,}"
            if group.nodes.fewest == group.nodes.most
            else f"{group.nodes.fewest:,} to {group.nodes.most:,}",
            ", ".join(f"{link.kind} {format_bandwidth(link.bandwidth)}" for link in group.links),
        )
        for group in result.groups
    )
    caption = (
        "Groups by kind, with the kinds of links that they use, the slowest first"
        " (payload in each direction)"
    )
    table = text_table(caption, names, lines)
    return Section(heading, "groups", ("Ranks that communicate, and where they are.",), (table,))


def _published(result: "Result") -> Section:
    """Return every published number with the predicted one."""
    heading = "Comparison with published results"
    if not result.published:
        return Section(heading, "published")
    table = published_table(result.published)
    changed = [other_values(check) for check in result.published[:1] if check.changed]
    text = tuple(
        f"Published for another run: {difference}. Errors are not stated." for difference in changed
    )
    return Section(heading, "published", text, (table,))
