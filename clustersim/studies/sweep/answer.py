"""The answer of a sweep: what ``clustersim sweep --json`` prints."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field

from clustersim.runs.table import Row
from clustersim.runs.variants import Value

MEASURES: Final = {
    "tokens_per_s": True,
    "tokens_per_s_per_device": True,
    "samples_per_s": True,
    "tflops_per_device_model": True,
    "tflops_per_device_hardware": True,
    "mfu": True,
    "hfu": True,
    "step_time_s": False,
    "days": False,
    "goodput": True,
    "energy": False,
    "cost": False,
}
"""Measures that layouts can be ranked by, and whether more is better."""

COSTS: Final = {"memory": "memory_peak_bytes", "devices": "devices"}
"""Columns of the costs that a measure is compared with."""


@dataclass(frozen=True)
class VerdictCounts:
    """Number of combinations by verdict.

    Attributes
    ----------
    fits : layouts that fit in memory
    does_not_fit : layouts that need more memory than a device has; they are not replayed
    invalid : combinations that are not allowed
    failed : runs that ended in a fault of clustersim
    """

    fits: int
    does_not_fit: int
    invalid: Annotated[int, Field(alias="refused")]
    failed: int


@dataclass(frozen=True)
class ValueChange:
    """A value of the scenario that the best layout changes.

    Attributes
    ----------
    from_ : value of the scenario; null if it has none
    to : value of the best layout
    """

    from_: Annotated[Any, Field(alias="from")]
    to: Value


@dataclass(frozen=True)
class ParetoFront:
    """Layouts that no other layout beats in both the measure and the cost.

    Attributes
    ----------
    against : cost that the measure is compared with: `memory` or `devices`
    positions : positions of these layouts in `points`, the cheapest first
    """

    against: str
    positions: tuple[int, ...]


@dataclass(frozen=True)
class ReasonCount:
    """A reason that several combinations share, apart from the numbers in it.

    Attributes
    ----------
    why : reason of the first of these combinations
    count : number of combinations, which may have other reasons as well
    example : values of the first of them
    values : values of axes with which all combinations have this reason; empty where there are
        none, or where all combinations have it
    """

    why: str
    count: int
    example: Mapping[str, Value]
    values: Mapping[str, tuple[Value, ...]]


@dataclass(frozen=True)
class SweepAnswer:
    """All combinations of some values: the best, the front, and why others are invalid.

    Attributes
    ----------
    name : file name of the scenario without its suffix
    title : title of the scenario
    axes : values of each axis, in order
    filled : keys that take the remaining devices (`fill`)
    by : measure that decides which layout is best
    counts : number of combinations by verdict
    fresh : number of runs that were not in the run cache
    best : position of the best layout in `points`; null where none fits
    ranked : positions of the layouts that fit, the best first
    changed : values of the scenario that the best layout changes
    pareto : layouts that no other layout beats in both the measure and the cost
    invalid : reasons of invalid combinations, the most frequent first
    failed : reasons of runs that failed
    points : a row for each combination, the last axis changing fastest
    """

    name: str
    title: str
    axes: Mapping[str, tuple[Value, ...]]
    filled: tuple[str, ...]
    by: str
    counts: VerdictCounts
    fresh: int
    best: int | None
    ranked: tuple[int, ...]
    changed: Mapping[str, ValueChange]
    pareto: ParetoFront
    invalid: Annotated[tuple[ReasonCount, ...], Field(alias="refused")]
    failed: tuple[ReasonCount, ...]
    points: tuple[Row, ...]

    @property
    def fitting(self) -> list[Row]:
        """Rows that fit, the best first."""
        return [self.points[i] for i in self.ranked]

    @property
    def front(self) -> list[Row]:
        """Rows of the front, the cheapest first."""
        return [self.points[i] for i in self.pareto.positions]

    @property
    def chosen(self) -> list[str]:
        """Axes with several values that are not filled."""
        axes = self.axes.items()
        return [key for key, values in axes if key not in self.filled and len(values) > 1]

    @property
    def varying(self) -> list[str]:
        """Axes that are chosen or filled."""
        return [key for key in self.axes if key in self.chosen or key in self.filled]

    @property
    def more_is_better(self) -> bool:
        """Whether the best layout has the largest value of the measure."""
        return MEASURES[self.by]
