"""The section of a page on disturbances: what they are, and what each costs over replications."""

from typing import TYPE_CHECKING, Final

from clustersim.render.charts import Axis, Step, Waterfall
from clustersim.render.charts.picture import Column, Table
from clustersim.render.page.page import Section
from clustersim.render.plotly import page_chart
from clustersim.render.tables import percent
from clustersim.reports.step.text import cost_of_blame, replicated_step
from clustersim.units import format_seconds

if TYPE_CHECKING:
    from clustersim.simulation.step.answer import DisturbanceAnswer, Replications
    from clustersim.simulation.step.result import Result

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
    names = ("name", "type", "devices", "time recovered without it")
    found = result.replications
    lines = tuple(
        (
            given.name,
            given.type,
            "" if given.devices is None else f"{given.devices:,}",
            "" if found is None else _cost(given, found),
        )
        for given in result.disturbances
    )
    shown = len(names) if found is not None else len(names) - 1
    columns = tuple(Column(name, place > 1) for place, name in enumerate(names[:shown]))
    return Table("Disturbances of the scenario", columns, tuple(line[:shown] for line in lines))


def _cost(given: "DisturbanceAnswer", found: "Replications") -> str:
    return next(cost_of_blame(blame) for blame in found.blame if blame.name == given.name)
