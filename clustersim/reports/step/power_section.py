"""Electrical power of a run on its page: over the step, and by component of machine and step."""

from typing import TYPE_CHECKING

from clustersim.cost.power import STATE_OF, missing_power
from clustersim.render.charts import Axis, Lines, Series
from clustersim.render.charts.lines import reference
from clustersim.render.charts.picture import Column, Table
from clustersim.render.page.page import Block, Section
from clustersim.render.plotly import page_chart
from clustersim.render.tables import percent, words
from clustersim.reports.step.text import power_text
from clustersim.units import format_joules, format_watts

if TYPE_CHECKING:
    from clustersim.simulation.step.result import Result

LEVELS = 400
"""Levels of power that are drawn, each the mean of an interval."""


def power_section(result: "Result") -> Section:
    """Return the section about power, or the file that states none."""
    energy = result.energy
    if energy is None:
        text = f"Not known: {missing_power(result.scenario.cluster)}."
        return Section("Power and energy", "power", (text,))
    text = f"{power_text(result)}."
    blocks: tuple[Block, ...] = (_machine(result), _parts(result))
    chart = power_over_time(result)
    blocks = blocks if chart is None else (page_chart(chart), *blocks)
    return Section("Power and energy", "power", (text,), blocks)


def power_over_time(result: "Result") -> Lines | None:
    """Return the power of the machine over the step; None where it is not known."""
    energy, trace = result.energy, result.power
    if energy is None or trace is None:
        return None
    thin = trace.thinned(LEVELS)
    factor, unit = (1e6, "MW") if trace.peak >= 1e6 else (1e3, "kW")
    times = tuple(thin.time.tolist())
    levels = [level / factor for level in thin.watts.tolist()]
    mean, peak = energy.mean.total, trace.peak
    low = float(trace.watts.min())
    swing = f"{format_watts(low)} and {format_watts(peak)}"
    return Lines(
        title=f"The machine draws between {swing}, {format_watts(mean)} on average",
        caption=f"{result.scenario.title} ({result.name})",
        description="A line of the power of the whole machine over the step, and its mean.",
        note="Devices, hosts, fans, power supplies and switches, before the cooling of the site."
        f" Each of up to {LEVELS} levels is the mean of its interval.",
        contents="power over the step",
        x=Axis("time", "s"),
        y=Axis("power", unit),
        series=(
            Series("power", times, (*levels, levels[-1]), marker="", stroke="steps"),
            reference("mean", (times[0], times[-1]), (mean / factor, mean / factor)),
        ),
    )


def _machine(result: "Result") -> Table:
    """Return the mean power by component of the machine."""
    energy = result.energy
    assert energy is not None
    lines = tuple(
        (name, format_watts(watts), percent(watts / energy.mean.total))
        for name, watts in energy.mean._asdict().items()
    )
    columns = (Column("component"), Column("mean power", True), Column("share", True))
    return Table("Mean power by component of the machine", columns, lines)


def _parts(result: "Result") -> Table:
    """Return the energy of the devices by component of the step, the largest first."""
    energy = result.energy
    assert energy is not None
    total = sum(energy.by_part.values())
    ordered = sorted(energy.by_part.items(), key=lambda item: -item[1])
    lines = tuple(
        (words(part), STATE_OF[part], format_joules(joules), percent(joules / total))
        for part, joules in ordered
        if joules > 0
    )
    columns = (Column("component"), Column("state"), Column("energy", True), Column("share", True))
    return Table("Energy of the devices by component of the step", columns, lines)
