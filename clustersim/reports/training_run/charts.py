"""Charts of a whole run: its calendar, goodput over intervals and sizes, its replications."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from clustersim.metrics.bill import Bill
from clustersim.render.charts.bars import Bar, Bars, Layer, StackedBars
from clustersim.render.charts.lines import Lines, Series, reference
from clustersim.render.charts.picture import Axis, Picture
from clustersim.render.tables import percent
from clustersim.reports.measures import part_kind, power_series
from clustersim.reports.training_run.text import account_shares
from clustersim.simulation.training_run.answer import CurvePoint, PowerLevels, TrainAnswer
from clustersim.units import format_duration, format_number, format_watts

MAX_DAYS: Final = 366
"""Days of a calendar that are drawn one by one."""


def charts_of(answer: TrainAnswer) -> dict[str, Picture]:
    """Return the charts of an answer by file name without ending."""
    charts: dict[str, Picture] = {"accounting": accounting_chart(answer)}
    if answer.calendar:
        charts["calendar"] = calendar_chart(answer)
    if answer.intervals:
        charts["intervals"] = interval_chart(answer)
        charts["sizes"] = size_chart(answer)
    if answer.replications.count > 1 and answer.replications.deviation_days:
        charts["replications"] = spread_chart(answer)
    if answer.power_levels is not None:
        charts["power"] = power_chart(answer, answer.power_levels)
    if answer.bill is not None and answer.calendar:
        charts["power-run"] = daily_power_chart(answer, answer.bill)
    if answer.checkpoint.step_slowdown > 1 or answer.checkpoint.drain_slowdown > 1:
        charts["contention"] = contention_chart(answer)
    return charts


def accounting_chart(answer: TrainAnswer) -> Bars:
    """Return where the elapsed time goes, without the useful part."""
    shares = account_shares(answer)[1:] or account_shares(answer)
    worst = max(shares, key=lambda pair: pair[1])
    elapsed = answer.accounting.elapsed
    return Bars(
        title=f"{percent(answer.goodput)} of the time is useful; the largest loss is {worst[0]}",
        caption=answer.title,
        description="Share of the elapsed time by part, without useful time.",
        contents="parts of the elapsed time",
        names="part",
        measure=Axis("share of the elapsed time", "%", zero=True),
        bars=tuple(
            Bar(
                name,
                100 * share,
                percent(share),
                part_kind(name),
                f"{name}: {format_duration(share * elapsed)}",
            )
            for name, share in shares
        ),
    )


def calendar_chart(answer: TrainAnswer) -> StackedBars:
    """Return the hours of each part in each day of the first replication."""
    hours = np.array(answer.calendar[:MAX_DAYS])
    names = [*vars(answer.accounting)]
    used = [place for place in range(len(names)) if hours[:, place].any()]
    useful = hours[:-1, 0] if len(hours) > 1 else hours[:, 0]
    worst = int(useful.argmin())
    return StackedBars(
        title=f"The worst day has {useful[worst]:.1f} useful hours (day {worst + 1})",
        caption=answer.title,
        description="Hours of each part of the elapsed time in each day of one replication.",
        contents="hours of each part by day",
        x=Axis("day of the run, from 0"),
        measure=Axis("time", "h", zero=True),
        layers=tuple(Layer(names[i], part_kind(names[i]), hours[:, i]) for i in used),
    )


def interval_chart(answer: TrainAnswer) -> Lines:
    """Return the goodput over checkpoint intervals, with the flat region and the chosen one."""
    given, minutes = answer.checkpoint, 60.0
    assert given.best_s is not None, "a run with failures has a best interval"
    assert given.flat_s is not None, "a run with failures has a flat region"
    curve = _curve("expected", answer.intervals, minutes)
    low, high = given.flat_s
    kept = [point for point in answer.intervals if low <= point.x <= high]
    flat = _curve("within 0.1 point of the best", kept, minutes, "series-2", "square")
    chosen = _star("chosen", given.every_s / minutes, answer)
    return Lines(
        title=f"Intervals from {format_duration(low)} to {format_duration(high)} are equally good",
        caption=answer.title,
        description="Goodput over the checkpoint interval in closed form, and the chosen interval.",
        contents="goodput over checkpoint intervals",
        x=Axis("checkpoint interval", "min", log=10),
        y=Axis("goodput", "%"),
        series=(curve, flat, chosen) if kept else (curve, chosen),
    )


def _curve(
    name: str,
    points: Sequence[CurvePoint],
    unit: float,
    colour: str = "series-0",
    marker: str = "circle",
) -> Series:
    x = tuple(point.x / unit for point in points)
    return Series(name, x, tuple(100 * point.goodput for point in points), colour, marker)


def _star(name: str, x: float, answer: TrainAnswer) -> Series:
    """Return the goodput of the job itself as a marked point."""
    return Series(name, (x,), (100 * answer.closed_form.goodput,), "warning", "star", "none")


def size_chart(answer: TrainAnswer) -> Lines:
    """Return the goodput over numbers of nodes, each with its best interval."""
    first, last = answer.sizes[0], answer.sizes[-1]
    return Lines(
        title=f"{last.x:,.0f} nodes would keep {percent(last.goodput)} of their time",
        caption=answer.title,
        description="Expected goodput over nodes with the failures, saves and restarts of this"
        " job, each size with its best interval.",
        contents="goodput over numbers of nodes",
        note="Saves and restarts take as long as in this job.",
        x=Axis("nodes", log=2),
        y=Axis("goodput", "%", limits=(0.0, 101.0)),
        series=(
            reference("no failures", (first.x, last.x), (100.0, 100.0)),
            _curve("expected", answer.sizes, 1.0),
            _star("this job", float(answer.nodes), answer),
        ),
    )


def spread_chart(answer: TrainAnswer) -> Lines:
    """Return the share of replications that end within a number of days."""
    spread = answer.replications
    return Lines(
        title=f"Nine of ten replications end within {format_number(spread.p90_days)} days",
        caption=f"{answer.title}; {spread.count:,} replications, seed {spread.seed}",
        description="Share of the replications that end within a number of days.",
        contents="quantiles of the days of the run",
        x=Axis("elapsed time", "d"),
        y=Axis("replications", "%", limits=(0.0, 101.0)),
        series=(
            Series(
                "replications",
                spread.quantiles_days,
                tuple(map(float, range(len(spread.quantiles_days)))),
                marker="",
            ),
        ),
    )


def power_chart(answer: TrainAnswer, levels: PowerLevels) -> Lines:
    """Return the power of the job over a step."""
    low, peak = min(levels.watts), max(levels.watts)
    _, unit, series = power_series(levels.time_s, levels.watts, peak)
    return Lines(
        title=f"In a step the machine draws between {format_watts(low)} and {format_watts(peak)}",
        caption=answer.title,
        description="A line of the power of the whole machine over a step of the last part.",
        note="Devices, hosts, fans, power supplies and switches, before the cooling of the site;"
        " each level is the mean of its interval.",
        contents="power over a step",
        x=Axis("time", "s", limits=(0.0, series.x[-1])),
        y=Axis("power", unit, zero=True),
        series=(series,),
    )


def daily_power_chart(answer: TrainAnswer, bill: Bill) -> Lines:
    """Return the mean power of the site on each day of the first replication."""
    seconds = vars(answer.accounting)
    watts = np.array(
        [
            bill.by_account[name] * 3.6e6 / seconds[name] if seconds[name] else 0.0
            for name in seconds
        ]
    )
    hours = np.array(answer.calendar[:MAX_DAYS])
    hours = hours[:-1] if len(hours) > 1 else hours
    daily = hours @ watts / hours.sum(axis=1)
    low, high = format_watts(float(daily.min())), format_watts(float(daily.max()))
    span = f"between {low} and {high}" if low != high else high
    days = tuple(map(float, range(len(daily) + 1)))
    _, unit, series = power_series(days, daily.tolist(), float(daily.max()))
    return Lines(
        title=f"The mean power of a day is {span}",
        caption=answer.title,
        description="Mean power of the site on each whole day of one replication.",
        note="With the cooling of the site, where it is given (costs.site).",
        contents="mean power by day",
        x=Axis("time", "d", limits=(0.0, series.x[-1])),
        y=Axis("mean power of a day", unit, zero=True),
        series=(series,),
    )


def contention_chart(answer: TrainAnswer) -> Bars:
    """Return by how much a drain and concurrent steps slow each other down."""
    given = answer.checkpoint
    both = (("step", given.step_slowdown), ("writing of a save", given.drain_slowdown))
    return Bars(
        title=f"Steps are {percent(given.step_slowdown - 1)} slower while a save is written",
        caption=answer.title,
        description="How much longer steps and the writing of a save take next to each other.",
        contents="longer times next to each other",
        names="activity",
        measure=Axis("longer than alone", "%", zero=True),
        bars=tuple(
            Bar(name, 100 * (factor - 1), percent(factor - 1), "communication", name)
            for name, factor in both
        ),
    )
