"""The files of a whole training run: its charts with their data, and a page for a browser."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from clustersim.metrics.bill import Bill
from clustersim.render.charts.picture import Table, text_table
from clustersim.render.page.page import Block, Card, Cards, Page, Section
from clustersim.render.plotly import page_chart
from clustersim.render.study_folder import StudyFiles
from clustersim.render.tables import percent
from clustersim.reports.measures import expectation_cards
from clustersim.reports.published import metric_value, published_cards, published_table
from clustersim.reports.training_run.charts import charts_of
from clustersim.reports.training_run.text import rows
from clustersim.simulation.training_run.answer import TrainAnswer
from clustersim.units import (
    format_days,
    format_duration,
    format_kg,
    format_kwh,
    format_number,
    format_usd,
)


def files_of(answer: TrainAnswer, command: str = "") -> StudyFiles:
    """Return the files of an answer; `command` is what made it."""
    charts = charts_of(answer)
    tables = {f"{stem}.csv": chart.rows() for stem, chart in charts.items()}
    tables["causes.csv"] = _causes(answer)
    return StudyFiles(answer, partial(page, answer, command), tables, charts)


def _causes(answer: TrainAnswer) -> Iterator[Sequence[Any]]:
    yield ["cause", "failures", "restart_s"]
    for cause in answer.causes:
        yield [cause.name, cause.count, cause.restart_s]


def page(answer: TrainAnswer, command: str = "") -> Page:
    """Return the page of an answer; `command` is what made it."""
    charts = {name: page_chart(chart) for name, chart in charts_of(answer).items()}
    time = [charts[name] for name in ("accounting", "calendar", "replications") if name in charts]
    saves = [charts[name] for name in ("intervals", "contention") if name in charts]
    sizes = [charts[name] for name in ("sizes",) if name in charts]
    sections = (
        Section("Results", "answer", (), (Cards(tuple(_cards(answer))), _lines(answer))),
        Section("Time", "time", (), (*time, _accounting(answer))),
        Section("Checkpoints", "checkpoints", (), tuple(saves)) if saves else None,
        Section("Failures", "failures", (), (*sizes, _why(answer))) if answer.causes else None,
        _energy_and_price(answer, [charts[name] for name in POWER if name in charts]),
        Section("Steps and published numbers", "steps", (), tuple(_details(answer))),
    )
    return Page(
        title=answer.title,
        subtitle="A whole training run: days, failures and checkpoints",
        sections=tuple(section for section in sections if section is not None),
        command=command,
    )


def _cards(answer: TrainAnswer) -> Iterator[Card]:
    yield Card("duration", format_days(answer.days), f"{answer.devices:,} devices")
    yield Card(
        "goodput", percent(answer.goodput), "useful over elapsed time", bool(answer.warnings)
    )
    yield Card("interruptions", f"{answer.interruptions:,.0f}", "failures and planned stops")
    given = answer.checkpoint
    yield Card("size of a checkpoint", metric_value("checkpoint_bytes", given.bytes), given.mode)
    yield Card(
        "checkpoint interval",
        format_duration(given.every_s),
        f"save: {format_duration(given.block_s)}",
    )
    yield from expectation_cards(answer.expectations)
    yield from published_cards(answer.published)


POWER: Final = ("power", "power-run")
"""Charts of power."""


def _energy_and_price(answer: TrainAnswer, charts: Sequence[Block]) -> Section:
    """Return power, energy, emissions and price with what they are made of."""
    reasons = tuple(f"{KEYS[key]}: {why}." for key, why in answer.unavailable.items())
    if answer.bill is None:
        return Section("Energy and price", "energy", reasons)
    names = ("item", ">amount", "basis")
    table = text_table("Energy, emissions and price", names, _bill(answer, answer.bill))
    accounts = (
        (name, format_kwh(kwh), percent(kwh / answer.energy_kwh))
        for name, kwh in answer.bill.by_account.items()
        if answer.energy_kwh
    )
    names = ("part of the time", ">energy", ">share")
    parts = text_table("Energy by part of the elapsed time", names, accounts)
    return Section("Energy and price", "energy", reasons, (*charts, table, parts))


KEYS: Final = {
    "energy_kwh": "Energy",
    "power_w": "Power",
    "cost": "Price",
    "co2e_kg": "Emissions",
}
"""Values that may be missing, in words."""


def _bill(answer: TrainAnswer, bill: Bill) -> Iterator[tuple[str, str, str]]:
    """Yield each item with its amount and what it is computed from."""
    each = bill.per_trillion_tokens
    yield "energy of the machine", format_kwh(bill.machine_kwh), "power of what devices do"
    if answer.energy_kwh is not None and bill.site is not None:
        basis = f"PUE {bill.pue:g} of site {bill.site}"
        yield "energy of the site", format_kwh(answer.energy_kwh), basis
    yield "energy per trillion tokens", format_kwh(each["energy_kwh"]), ""
    if answer.co2e_kg is not None and bill.carbon is not None:
        basis = f"{1e3 * bill.carbon:g} g CO2e/kWh of site {bill.site}"
        yield "emissions", f"{format_kg(answer.co2e_kg)} CO2e", basis
        yield "emissions per trillion tokens", f"{format_kg(each['co2e_kg'])} CO2e", ""
    yield "device-hours", f"{bill.device_hours:,.0f} h", f"{answer.devices:,} devices"
    if answer.cost is None or bill.usd_per_device_hour is None:
        return
    rate, basis = f"{bill.usd_per_device_hour:.3g} USD/h", f"{bill.term}: {bill.quote}"
    yield "rate of a device", rate, basis
    yield "price of the devices", format_usd(bill.device_hours * bill.usd_per_device_hour), ""
    if bill.electricity_usd is None:
        yield "price of electricity", "-", "part of the rate"
    else:
        yield "price of electricity", format_usd(bill.electricity_usd), f"site {bill.site}"
    yield "price", format_usd(answer.cost), ""
    yield "price per trillion tokens", format_usd(each["cost"]), ""


def _lines(answer: TrainAnswer) -> Table:
    cells = ((row.label, row.text) for row in rows(answer))
    return text_table("All results", ("item", "result"), cells)


def _accounting(answer: TrainAnswer) -> Table:
    elapsed = answer.accounting.elapsed
    cells = (
        (name, format_duration(seconds), percent(seconds / elapsed))
        for name, seconds in vars(answer.accounting).items()
    )
    names = ("part", ">time", ">share")
    return text_table("Elapsed time by part, mean of the replications", names, cells)


def _why(answer: TrainAnswer) -> Table:
    cells = (
        (cause.name, f"{cause.count:,.1f}", format_duration(cause.restart_s))
        for cause in answer.causes
    )
    return text_table("Causes of failures", ("cause", ">failures", ">restart"), cells)


def _details(answer: TrainAnswer) -> Iterator[Block]:
    names = (">tokens", ">steps", ">step time [s]", ">batch", ">sequence", ">tokens/s", ">MFU")
    cells = (
        (
            f"{stage.tokens:,.0f}",
            f"{stage.steps:,}",
            format_number(stage.step_time_s),
            f"{stage.batch:,}",
            f"{stage.sequence:,}",
            f"{stage.tokens_per_s:,.0f}",
            percent(stage.mfu),
        )
        for stage in answer.stages
    )
    yield text_table("Parts of the run", names, cells)
    if answer.published:
        yield published_table(answer.published)
    if answer.assumed:
        yield text_table("Assumptions", ("key", "reason"), answer.assumed.items())
