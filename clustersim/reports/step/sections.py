"""Sections of the page of a run: its power, its disturbances, and the source of every value."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from clustersim.catalog.tree import Tree
from clustersim.catalog.writing import to_yaml
from clustersim.cost.power import STATE_OF, missing_power
from clustersim.render.charts.bars import Step, Waterfall
from clustersim.render.charts.lines import Lines, reference
from clustersim.render.charts.picture import Axis, Table, text_table
from clustersim.render.page.page import Block, Folds, Listing, Section
from clustersim.render.plotly import page_chart
from clustersim.render.tables import format_value, percent, words
from clustersim.reports.measures import power_series
from clustersim.reports.show import FactRow, fact_rows
from clustersim.reports.step.text import cost_of_blame, power_text, replicated_step
from clustersim.units import counted, format_joules, format_seconds, format_watts

if TYPE_CHECKING:
    from clustersim.simulation.step.answer import DisturbanceAnswer, Replications
    from clustersim.simulation.step.result import Result


RECORDS: Final = (
    ("cluster",),
    ("cluster", "node", "accelerator"),
    ("cluster", "node", "library"),
    ("model",),
    ("framework",),
    ("engine",),
)
"""Places of the catalogue records in a scenario in which all names are resolved."""

_UNUSED: Final = ("published", "scaling")
"""Keys of a scenario that no result of a run depends on."""


def sources_section(tree: Tree) -> Section:
    """Return all values of a scenario and of its records, each with its source."""
    rows = list(_rows(tree))
    records = {".".join(path) for path in RECORDS} | {"cluster.node"}
    assumed = sum(row.assumed is not None for row in rows)
    sourced = sum(row.source is not None and row.key not in records for row in rows)
    text = (
        f"Of {counted(len(rows), 'value')}, {sourced:,} have a source"
        f" ({percent(sourced / len(rows))}) and {assumed:,} are assumed, with the reason. The"
        " remaining values define the run or the structure of a component; the file that sets them"
        " is given."
    )
    folds = Folds("Find values by words", tuple(_tables(rows, tree)))
    return Section("Sources and assumptions", "sources", (text,), (folds,))


def _tables(rows: Sequence[FactRow], tree: Tree) -> Iterator[Table]:
    """Yield a table for the scenario and for each of its records, with the keys below it."""
    places = [*map(".".join, RECORDS), "cluster.node"]
    names = {
        row.key: f"{row.key.rpartition('.')[2]} {row.value}" for row in rows if row.key in places
    }
    for record in ["", *(row.key for row in rows if row.key in names)]:
        of_record = [row for row in rows if _record_of(row.key, names) == record]
        lines = [
            (
                row.key.removeprefix(f"{record}."),
                format_value(row.value),
                row.confidence or "",
                row.proof or _place(row.key, tree),
            )
            for row in of_record
        ]
        assumed = sum(row.assumed is not None for row in of_record)
        count = f"{counted(len(lines), 'value')}, {assumed:,} assumed"
        columns = ("key", "value", "confidence", "source or reason")
        name = names.get(record, "scenario")
        caption = f"{name[0].upper()}{name[1:]}: {count}"
        if lines:
            yield replace(text_table(caption, columns, lines), sorts=True)


def _record_of(key: str, records: Mapping[str, str]) -> str:
    """Return the innermost record that has a key; a record itself is part of the scenario."""
    above = [place for place in records if key.startswith(f"{place}.")]
    return "" if key in records else max(above, key=len, default="")


def scenario(tree: Tree, text: str) -> Section:
    """Return the scenario with all names resolved, and the text of its file if there is one."""
    prose = "With all names resolved and all settings applied, so this file alone can be run."
    resolved = Listing("Scenario with all names resolved", to_yaml(tree.data))
    original = [Listing("Scenario file", text)] if text else []
    return Section("Scenario", "scenario", (prose,), (*original, resolved))


def _rows(tree: Tree) -> Iterator[FactRow]:
    """Yield the scenario's own values, then those of each of its records.

    The reason that a scenario gives for a value does not apply to a value set in its place.
    """
    for row in fact_rows({key: tree.data[key] for key in tree.data if key not in _UNUSED}):
        is_set = _place(row.key, tree).startswith("--set")
        yield replace(row, assumed=None, note=None) if is_set else row
    for path in RECORDS:
        record: Any = tree.data
        for key in path:
            record = record.get(key) if isinstance(record, Mapping) else None
        if isinstance(record, Mapping):
            yield from fact_rows(record, ".".join(path))


def _place(key: str, tree: Tree) -> str:
    """Return the file and line that set a value, or the option."""
    path = tuple(
        int(part) if part.isdecimal() else part
        for part in key.replace("[", ".").replace("]", "").split(".")
    )
    place = tree.place(path)
    if place.file.startswith("--set"):
        return place.file
    name = PurePath(place.file).name  # without the folder, which is private
    return name if place.line is None else f"{name}:{place.line}"


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
    factor, unit, series = power_series(thin.time.tolist(), thin.watts.tolist(), trace.peak)
    mean = energy.mean.total
    swing = f"{format_watts(float(thin.watts.min()))} and {format_watts(float(thin.watts.max()))}"
    return Lines(
        title=f"The machine draws between {swing}, {format_watts(mean)} on average",
        caption=f"{result.scenario.title} ({result.name})",
        description="A line of the power of the whole machine over the step, and its mean.",
        note="Devices, hosts, fans, power supplies and switches, before the cooling of the site."
        f" Each of up to {LEVELS} levels is the mean of its interval.",
        contents="power over the step",
        x=Axis("time", "s", limits=(0.0, series.x[-1])),
        y=Axis("power", unit, zero=True),
        series=(
            series,
            reference("mean", (series.x[0], series.x[-1]), [mean / factor] * 2),
        ),
    )


def _machine(result: "Result") -> Table:
    """Return the mean power by component of the machine."""
    energy = result.energy
    assert energy is not None
    lines = (
        (name, format_watts(watts), percent(watts / energy.mean.total))
        for name, watts in energy.mean._asdict().items()
    )
    names = ("component", ">mean power", ">share")
    return text_table("Mean power by component of the machine", names, lines)


def _parts(result: "Result") -> Table:
    """Return the energy of the devices by component of the step, the largest first."""
    energy = result.energy
    assert energy is not None
    total = sum(energy.by_part.values())
    ordered = sorted(energy.by_part.items(), key=lambda item: -item[1])
    lines = (
        (words(part), STATE_OF[part], format_joules(joules), percent(joules / total))
        for part, joules in ordered
        if joules > 0
    )
    names = ("component", "state", ">energy", ">share")
    return text_table("Energy of the devices by component of the step", names, lines)


HEADING: Final = "Disturbances"


def disturbances(result: "Result") -> list[Section]:
    """Return the section on disturbances; none where no rank differs by one."""
    if not result.disturbances:
        return []
    found = result.replications
    component = format_seconds(result.attribution["disturbance"], 3)
    text = (
        f"Blocks take {component} longer than those of undisturbed ranks, mean of all ranks; the"
        " others wait for the slowest (bubbles).",
        "" if found is None else f"{replicated_step(found)}.",
    )
    charts = () if found is None else (page_chart(costs_chart(result)),)
    return [Section(HEADING, "disturbances", tuple(filter(None, text)), (*charts, _table(result)))]


def costs_chart(result: "Result") -> Waterfall:
    """Return the way from the mean step to the undisturbed one: what each disturbance costs."""
    found = result.replications
    assert found is not None
    steps = [Step(blame.name, "imbalance", -blame.recovered_s) for blame in found.blame]
    joint = sum(blame.recovered_s for blame in found.blame) - found.recovered_s
    if len(found.blame) > 1:
        steps.append(Step("interaction", "other", joint))
    share = percent(found.recovered_s / found.mean_s)
    return Waterfall(
        title=f"Without all disturbances a step takes {share} less",
        caption=f"{result.scenario.title} ({result.name})",
        description=f"{len(found.blame)} disturbances lead from the mean of {found.count} steps to"
        " the undisturbed step.",
        note="Each bar is what is recovered when this disturbance alone is removed; the"
        " interaction is what several hide from each other.",
        contents="time recovered without each disturbance",
        measure=Axis("step time", "s"),
        first="mean step",
        last="undisturbed",
        start=found.mean_s,
        steps=tuple(steps),
    ).in_unit()


def _table(result: "Result") -> Table:
    """Return each disturbance with the devices that it concerns, and what it costs."""
    replications = result.replications
    names = ["name", "type", ">devices"]
    lines = [
        [each.name, each.type, "" if each.devices is None else f"{each.devices:,}"]
        for each in result.disturbances
    ]
    if replications is not None:
        names.append(">time recovered without it")
        for line, each in zip(lines, result.disturbances, strict=True):
            line.append(_cost(each, replications))
    return text_table("Disturbances of the scenario", names, lines)


def _cost(given: "DisturbanceAnswer", found: "Replications") -> str:
    return next(cost_of_blame(blame) for blame in found.blame if blame.name == given.name)
