"""All valid layouts of some scenarios with the bounds of their objective, the most promising first.

spaces --a task for each number of stages--> bounds of time and memory --sorted--> candidates
"""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.catalog.changes import Change
from clustersim.scenario.load import Loaded, load
from clustersim.simulation.lower_bound.layout_values import Layout
from clustersim.simulation.lower_bound.step_bound import StepBounds
from clustersim.studies.search.space import Space, StageLayouts


@dataclass(frozen=True)
class Base:
    """A scenario whose layouts are searched.

    Attributes
    ----------
    scenario, changes : file or name, and its changes
    loaded : both together
    space : its layouts
    key : cache key of the scenario
    scale : objective of a step of one second; for a time, 1
    capacity : memory of a device that may be used [B]
    fixed : keys that are no part of the settings of a layout
    common : changes of all scenarios that are searched, the first of `changes` [count]
    """

    scenario: str
    changes: tuple[Change, ...]
    loaded: Loaded
    key: str
    space: Space
    scale: float
    capacity: float
    fixed: tuple[str, ...] = ()
    common: int = 0

    def settings(self, layout: Layout) -> dict[str, Any]:
        """Return the values of the keys of a layout that were searched."""
        values = layout.settings
        return {key: value for key, value in values.items() if key not in self.fixed}


def excluded_by_rule(bases: Sequence[Base]) -> Counter[str]:
    """Return how many layouts each rule excludes."""
    total: Counter[str] = Counter()
    for base in bases:
        total.update(base.space.excluded)
    return total


@dataclass(frozen=True, eq=False)
class Candidates:
    """Layouts that memory does not exclude, by the best objective that their bound allows.

    Attributes
    ----------
    cost : step time over `Base.scale`, a lower bound, in ascending order
    part : scenario and number of stages, as an index into `parts`
    shape, column : of each candidate in its part
    parts : of the spaces
    memory : layouts that the bound of their memory excludes [count]
    """

    cost: Floats
    part: Integers
    shape: Integers
    column: Integers
    parts: tuple[tuple[Base, StageLayouts], ...]
    memory: int

    def __len__(self) -> int:
        return len(self.cost)

    def layout(self, at: int) -> tuple[Base, Layout]:
        """Return a candidate with its scenario."""
        base, layouts = self.parts[self.part[at]]
        return base, layouts.layout(int(self.shape[at]), int(self.column[at]))


OnBounds = Callable[[int, int], None]
"""Is called with the number of layouts that are bounded and of all valid ones."""


def candidates_of(bases: Sequence[Base], executor: Executor, on_bounds: OnBounds) -> Candidates:
    """Return the candidates of some scenarios.

    Parameters
    ----------
    executor : computes the bounds of each scenario and number of stages
    on_bounds : is called with the progress
    """
    parts = [(base, layouts) for base in bases for layouts in base.space.layouts]
    heaviest = sorted(range(len(parts)), key=lambda at: -len(parts[at][1].columns))
    futures = {at: executor.submit(_bounds, *_task(*parts[at])) for at in heaviest}
    sizes = {future: int(parts[at][1].allowed.sum()) for at, future in futures.items()}
    bounded = 0
    for future in as_completed(futures.values()):
        bounded += sizes[future]
        on_bounds(bounded, sum(sizes.values()))
    bounds, memory = [], 0
    for at, (base, _) in enumerate(parts):
        found = futures[at].result()
        memory += found.excluded
        places = np.full(len(found.seconds), at)
        bounds.append((found.seconds / base.scale, places, found.shape, found.column))
    cost, part, shape, column = (np.concatenate(each) for each in zip(*bounds, strict=True))
    order = np.argsort(cost, kind="stable")
    return Candidates(cost[order], part[order], shape[order], column[order], tuple(parts), memory)


class PartBounds(NamedTuple):
    """Bounds of the layouts of one number of stages.

    Attributes
    ----------
    seconds : of the step time of those that memory does not exclude [s]
    shape, column : of each of them
    excluded : layouts that memory excludes [count]
    """

    seconds: Floats
    shape: Integers
    column: Integers
    excluded: int


class ScenarioOfBounds(NamedTuple):
    """A scenario as it travels to the process that computes its bounds."""

    scenario: str
    changes: tuple[Change, ...]
    key: str


def _task(base: Base, layouts: StageLayouts) -> tuple[ScenarioOfBounds, StageLayouts, float]:
    return ScenarioOfBounds(base.scenario, base.changes, base.key), layouts, base.capacity


def _bounds(given: ScenarioOfBounds, layouts: StageLayouts, capacity: float) -> PartBounds:
    return part_bounds(_bounds_of(given), layouts, capacity)


def part_bounds(bounds: StepBounds, layouts: StageLayouts, capacity: float) -> PartBounds:
    """Return bounds of the layouts that can fit, and how many cannot.

    Parameters
    ----------
    capacity : memory of a device that may be used [B]
    """
    columns = bounds.tables.columns(layouts.columns, layouts.stages)
    seconds, shapes, places, excluded = [np.zeros(0)], [_NONE], [_NONE], 0
    for number, (shape, allowed) in enumerate(zip(layouts.shapes, layouts.allowed, strict=True)):
        fits = bounds.memory(shape, columns) <= capacity
        excluded += int((allowed & ~fits).sum())
        kept = np.flatnonzero(allowed & fits)
        if len(kept):
            seconds.append(bounds.seconds(shape, columns)[kept])
            shapes.append(np.full(len(kept), number))
            places.append(kept)
    return PartBounds(
        np.concatenate(seconds), np.concatenate(shapes), np.concatenate(places), excluded
    )


_NONE = np.zeros(0, dtype=np.int64)
_KNOWN: dict[str, StepBounds] = {}


def _bounds_of(given: ScenarioOfBounds) -> StepBounds:
    """Return the bounds of a scenario; each process keeps those of the latest one."""
    if given.key not in _KNOWN:
        _KNOWN.clear()
        _KNOWN[given.key] = StepBounds(load(given.scenario, given.changes))
    return _KNOWN[given.key]


__all__ = ["Base", "Candidates", "OnBounds", "candidates_of", "excluded_by_rule", "part_bounds"]
