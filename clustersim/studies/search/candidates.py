"""All valid layouts of some scenarios with the bounds of their objective, the most promising first.

spaces --a task for each number of stages--> bounds of time and memory --sorted--> candidates
"""

from collections.abc import Sequence
from concurrent.futures import Executor
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
    scale : objective of a step of one second; for a time, 1
    capacity : memory of a device that may be used [B]
    fixed : keys that are no part of the settings of a layout
    common : changes of all scenarios that are searched, the first of `changes` [count]
    """

    scenario: str
    changes: tuple[Change, ...]
    loaded: Loaded
    space: Space
    scale: float
    capacity: float
    fixed: tuple[str, ...] = ()
    common: int = 0

    def settings(self, layout: Layout) -> dict[str, Any]:
        """Return the values of the keys of a layout that were searched."""
        values = layout.settings
        return {key: value for key, value in values.items() if key not in self.fixed}


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


def candidates_of(bases: Sequence[Base], executor: Executor) -> Candidates:
    """Return the candidates of some scenarios.

    Parameters
    ----------
    executor : computes the bounds of each scenario and number of stages
    """
    parts = [(base, layouts) for base in bases for layouts in base.space.layouts]
    heaviest = sorted(range(len(parts)), key=lambda at: -len(parts[at][1].columns))
    futures = {at: executor.submit(_bounds, *_task(*parts[at])) for at in heaviest}
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


def _task(base: Base, layouts: StageLayouts) -> tuple[str, tuple[Change, ...], StageLayouts, float]:
    return base.scenario, base.changes, layouts, base.capacity


def _bounds(
    scenario: str, changes: tuple[Change, ...], layouts: StageLayouts, capacity: float
) -> PartBounds:
    """Return bounds of the layouts that can fit, and how many cannot."""
    bounds = bounds_of(scenario, changes)
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
_KNOWN: dict[tuple[str, tuple[str, ...]], StepBounds] = {}


def bounds_of(scenario: str, changes: Sequence[Change]) -> StepBounds:
    """Return the bounds of a scenario, kept in each process."""
    key = scenario, tuple(map(str, changes))
    if key not in _KNOWN:
        _KNOWN.clear()
        _KNOWN[key] = StepBounds(load(scenario, changes))
    return _KNOWN[key]


__all__ = ["Base", "Candidates", "bounds_of", "candidates_of"]
