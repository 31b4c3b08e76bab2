"""The pipelines of compared training steps on one time axis.

An answer has no blocks, so each step is replayed for its picture.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from clustersim.errors import CatalogError, ScenarioError
from clustersim.render.charts.timeline import Timeline, on_one_axis
from clustersim.render.plotly.timeline import MOST_BARS
from clustersim.render.tables import percent
from clustersim.reports.step.pipeline import pipeline
from clustersim.scenario.load import Loaded, load_any
from clustersim.simulation.step.simulate import simulate
from clustersim.units import format_seconds

if TYPE_CHECKING:
    from clustersim.studies.compare.answer import ComparedRun

MOST: Final = 6
"""Steps that are drawn: the first ones of a comparison."""


def timelines(runs: "Sequence[ComparedRun]") -> list[Timeline]:
    """Return the steps, one above the other; none of services and of files that are not here.

    An answer that is read back may be of another folder or another computer.
    """
    try:
        loaded = [load_any(run.scenario, run.settings) for run in runs[:MOST]]
    except (ScenarioError, CatalogError):
        return []
    drawn = [
        _timeline(run.name, each)
        for run, each in zip(runs, loaded, strict=False)
        if isinstance(each, Loaded)
    ]
    crowded = any(len(step.start) > MOST_BARS for step in drawn)
    return [replace(step, as_shares=crowded) for step in on_one_axis(drawn)] if drawn else []


def _timeline(name: str, loaded: Loaded) -> Timeline:
    result = simulate(loaded)
    bubble = percent(result.bubble_fraction)
    title = f"{name}: {format_seconds(result.step_time)}, of which bubbles are {bubble}"
    return replace(pipeline(result), title=title)


def headline(steps: Sequence[Timeline]) -> str:
    """Return which step is the shortest, by its title."""
    shortest = min(steps, key=lambda step: step.ends or 0.0)
    name, _, time = shortest.title.partition(", of which ")[0].rpartition(": ")
    return f"{name} has the shortest step, {time}"
