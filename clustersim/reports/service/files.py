"""The files of a service: its answer, requests and load curve as tables, figures and the page."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from clustersim.render.charts import Picture
from clustersim.render.charts.picture import Column, Table
from clustersim.render.page.page import Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.study_folder import StudyFiles
from clustersim.render.tables import percent
from clustersim.reports.service.charts import kv_chart, load_charts, request_strip, token_chart
from clustersim.reports.service.text import published, rows
from clustersim.reports.step import scenario, sources_section
from clustersim.simulation.service.answer import LoadPoint
from clustersim.units import format_number, format_seconds

if TYPE_CHECKING:
    from clustersim.scenario.load import LoadedService
    from clustersim.simulation.service.result import ServeResult


def files_of(
    result: "ServeResult",
    loaded: "LoadedService",
    command: str = "",
) -> StudyFiles:
    """Return the files of a service; parameters as of `page`."""
    figures: dict[str, Picture | Sequence[Picture]] = {}
    tables = {"load.csv": _curve(result.curve)} if result.curve else {}
    if charts := load_charts(result):
        figures["load"] = charts
    if result.replayed is not None:
        figures["token"] = token_chart(result)
        figures["requests"] = request_strip(result)
        figures["kv"] = kv_chart(result)
    frames = {"requests.csv": result.frame} if result.replayed is not None else {}
    return StudyFiles(page(result, loaded, command), tables, figures, frames)


def _curve(curve: Sequence[LoadPoint]) -> Iterator[Sequence[Any]]:
    names = [field.name for field in fields(LoadPoint)]
    yield names
    for point in curve:
        yield [getattr(point, name) for name in names]


def page(
    result: "ServeResult",
    loaded: "LoadedService",
    command: str = "",
) -> Page:
    """Return the page of a result.

    Parameters
    ----------
    loaded : the scenario, for the sources of its values
    command : the command line that the page names
    """
    lines = {row.label: row.text for row in rows(result)}
    ran = result.replayed is not None
    return Page(
        title=result.scenario.title,
        subtitle="; ".join(lines[label] for label in ("machine", "model", "layout", "load")),
        sections=(
            _summary(result),
            *_load(result),
            *(_time(result) if ran else ()),
            *_published(result),
            sources_section(loaded.tree),
            scenario(loaded.tree, ""),
        ),
        command=command,
    )


def _summary(result: "ServeResult") -> Section:
    lines = tuple((row.label, row.text) for row in rows(result))
    table = Table("All results", (Column("item"), Column("result")), lines)
    return Section("Summary", "summary", (), (Cards(tuple(_cards(result))), table))


def _cards(result: "ServeResult") -> list[Card]:
    memory = result.memory
    value, _, why = memory.verdict.partition(": ")
    verdict = Card("Memory", value, why, warning=not memory.fits)
    if result.ttft is None or result.latency is None:
        return [verdict]
    output = result.rates["output_tokens_per_s"]
    rate = f"{format_number(output, 3)} tokens/s"
    each = f"{format_number(output / result.devices, 3)} for each of {result.devices:,}"
    cards = [
        Card("Output throughput", rate, f"{each} devices"),
        Card(
            "Time to first token",
            format_seconds(result.ttft.mean),
            f"99 % within {format_seconds(result.ttft.p99)}",
        ),
    ]
    if result.tpot is not None:
        user = f"{format_number(1 / result.tpot.mean, 3)} tokens/s for each user"
        cards.append(Card("Time per token", format_seconds(result.tpot.mean), user))
    if result.goodput is not None:
        found = result.goodput
        text = f"{format_number(found.requests_per_s, 3)} requests/s within the limits"
        cards.append(Card("Goodput", percent(found.share), text, warning=not found.share))
    return [*cards, verdict]


def _load(result: "ServeResult") -> tuple[Section, ...]:
    """Return the charts over the load; no section for fewer than two loads."""
    charts = load_charts(result)
    if not charts:
        return ()
    return (Section("Load", "load", (), tuple(map(page_chart, charts))),)


def _time(result: "ServeResult") -> tuple[Section, ...]:
    charts = (request_strip(result), kv_chart(result))
    return (
        Section("Time of a token", "token", (), (page_chart(token_chart(result)),)),
        Section("Requests and KV cache in time", "time", (), tuple(map(page_chart, charts))),
    )


def _published(result: "ServeResult") -> tuple[Section, ...]:
    if not result.published:
        return ()
    lines = tuple((published(check).partition(";")[0], check.source) for check in result.published)
    table = Table("Published and predicted", (Column("metric"), Column("source")), lines)
    return (Section("Published numbers", "published", (), (table,)),)
