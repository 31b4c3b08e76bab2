"""The fastest layout of a scenario in one process, by a gap that can be reduced afterwards.

space --bounds--> layouts, the least bound first --replays--> best --smaller gap--> more replays

Where links are shared, bounds are far below the steps and replays are long.  A search ends when
many transfers were replayed without a better layout, at the gap that is left.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from clustersim.errors import PlanError
from clustersim.scenario.load import Loaded
from clustersim.simulation.step.check import scenario_problems
from clustersim.simulation.step.result import Result
from clustersim.simulation.step.simulate import simulate_if_it_fits
from clustersim.studies.search.step.candidates import part_bounds
from clustersim.studies.search.step.lower_bound.layout_values import Layout
from clustersim.studies.search.step.lower_bound.step_bound import StepBounds
from clustersim.studies.search.step.space import NO_VALUES, Choices, Space

PATIENCE: Final = 25_000
"""Transfers and collectives that are replayed without a better layout before a search ends: a
choice, some 2 s where each is an event."""

AROUND: Final = 2_000
"""What each replay counts in addition: a choice, so that at most a dozen are in vain."""


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


class LayoutSearch:
    """The layouts of a scenario, replayed in the order of their bounds.

    Parameters
    ----------
    fixed : keys of the layout that keep the value of the scenario
    values : values of keys, instead of those that are generated

    Raises
    ------
    PlanError
        when the rules leave no layout, with the rule that excludes most.
    """

    def __init__(
        self,
        loaded: Loaded,
        fixed: Sequence[str] = (),
        values: Mapping[str, Sequence[Any]] = NO_VALUES,
    ) -> None:
        self._loaded, self._fixed = loaded, fixed
        bounds = StepBounds(loaded)
        if problems := scenario_problems(loaded, bounds.jobs.model(1)):
            raise PlanError("\n".join(problems))
        space = Space(bounds.jobs, Choices(loaded, fixed, values))
        if not space.valid:
            most = space.excluded.most_common(1)
            raise PlanError(most[0][0] if most else space.choices.lacking)
        self._capacity = float(bounds.jobs.cluster.accelerator.memory_capacity)
        self._layouts = space.layouts
        parts = [part_bounds(bounds, layouts, self._capacity) for layouts in space.layouts]
        seconds = np.concatenate([part.seconds for part in parts])
        order = np.argsort(seconds, kind="stable")
        self._seconds = seconds[order]
        number = np.repeat(np.arange(len(parts)), [len(part.seconds) for part in parts])
        shape, column = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("shape", "column")
        )
        self._places = np.stack([number, shape, column], axis=1)[order]
        self._replayed = 0
        self._in_vain = 0
        self._best: FastestLayout | None = None

    def fastest(self, gap: float) -> FastestLayout | None:
        """Return the fastest layout that fits in memory; None if none fits.

        Replays of an earlier search, to a larger gap, are not repeated.  The gap of the answer is
        larger than the requested one where `PATIENCE` ended the search.

        Parameters
        ----------
        gap : accept a layout if no other can be faster by more than this share
        """
        while self._replayed < len(self._seconds):
            seconds, best = float(self._seconds[self._replayed]), self._best
            if best is not None:
                left = max(0.0, 1 - seconds / best.result.step_time)
                if left <= gap or self._in_vain >= PATIENCE:
                    return best._replace(gap=left)
            number, shape, column = self._places[self._replayed].tolist()
            self._replayed += 1
            self._replay(self._layouts[number].layout(shape, column))
        return self._best

    def _replay(self, layout: Layout) -> None:
        """Replay a layout, which is the best so far if it is faster than others and fits."""
        settings = {k: value for k, value in layout.settings.items() if k not in self._fixed}
        found = self._loaded.changed(settings)
        result = simulate_if_it_fits(found)
        if not isinstance(result, Result) or result.memory.fullest.peak > self._capacity:
            return
        self._in_vain += AROUND + result.activities
        if self._best is None or result.step_time < self._best.result.step_time:
            self._best, self._in_vain = FastestLayout(found, result, 0.0), 0
