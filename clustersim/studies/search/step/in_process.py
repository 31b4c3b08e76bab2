"""The fastest layout of a scenario, searched in this process: what other studies need of a search.

spaces --bounds--> layouts, the least bound first --replay--> the fastest that fits
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from clustersim.errors import PlanError
from clustersim.scenario.load import Loaded
from clustersim.simulation.step.check import scenario_problems
from clustersim.simulation.step.result import Result
from clustersim.simulation.step.simulate import simulate_if_it_fits
from clustersim.studies.search.step.candidates import part_bounds
from clustersim.studies.search.step.lower_bound.layout_values import Layout
from clustersim.studies.search.step.lower_bound.step_bound import StepBounds
from clustersim.studies.search.step.space import NO_VALUES, Choices, Space


class FastestLayout(NamedTuple):
    """The fastest layout of a scenario.

    Attributes
    ----------
    loaded : the scenario with this layout
    result : its replay
    gap : by how much another layout can be faster at most, share of its step time
    """

    loaded: Loaded
    result: Result
    gap: float


def search_layout(
    loaded: Loaded,
    fixed: Sequence[str] = (),
    values: Mapping[str, Sequence[Any]] = NO_VALUES,
    *,
    gap: float = 0.0,
) -> FastestLayout | None:
    """Return the fastest layout that fits in memory; None if none fits.

    Parameters
    ----------
    fixed : keys of the layout that keep the value of the scenario
    values : values of keys, instead of those that are generated
    gap : accept a layout if no other can be faster by more than this share

    Raises
    ------
    PlanError
        when the rules leave no layout, with the rule that excludes most.
    """
    bounds = StepBounds(loaded)
    if problems := scenario_problems(loaded, bounds.jobs.model(1)):
        raise PlanError("\n".join(problems))
    space = Space(bounds.jobs, Choices(loaded, fixed, values))
    if not space.valid:
        raise PlanError(space.excluded.most_common(1)[0][0])
    capacity = float(bounds.jobs.cluster.accelerator.memory_capacity)
    best: FastestLayout | None = None
    for seconds, layout in sorted(_bounded(space, bounds, capacity), key=lambda one: one[0]):
        if best is not None and seconds >= best.result.step_time * (1 - gap):
            return best._replace(gap=max(0.0, 1 - seconds / best.result.step_time))
        settings = {key: value for key, value in layout.settings.items() if key not in fixed}
        found = loaded.changed(settings)
        result = simulate_if_it_fits(found)
        if not isinstance(result, Result) or result.memory.fullest.peak > capacity:
            continue
        if best is None or result.step_time < best.result.step_time:
            best = FastestLayout(found, result, 0.0)
    return best


def _bounded(space: Space, bounds: StepBounds, capacity: float) -> Iterator[tuple[float, Layout]]:
    """Yield the layouts that may fit, with the bound of their step time [s]."""
    for layouts in space.layouts:
        part = part_bounds(bounds, layouts, capacity)
        places = zip(part.seconds.tolist(), part.shape.tolist(), part.column.tolist(), strict=True)
        for seconds, shape, column in places:
            yield seconds, layouts.layout(shape, column)
