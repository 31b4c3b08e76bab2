"""The answer of a sweep: what ``clustersim sweep --json`` prints."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from clustersim.answers import Presentable, record
from clustersim.runs.table import Row
from clustersim.runs.variants import Value
from clustersim.simulation.measures import ALIASES, Kind, Measure, ParetoFront, measures_of

MISSES: Final = "misses a limit"
"""Verdict of a combination that fits, but not within the limits."""


@record
class VerdictCounts:
    """Number of combinations by verdict; each has one.

    Attributes
    ----------
    fits : combinations that fit in memory, with room, and are within the limits
    tight : combinations that are, with less room than the errors of memory predictions
    misses : combinations that fit, but miss a limit
    does_not_fit : combinations that need more memory than a device has, by more than the errors of
        memory predictions; they are not replayed
    probably_does_not_fit : those that need more by less than that; they are not replayed either
    invalid : combinations that are not allowed
    failed : runs that ended in a fault of clustersim
    """

    fits: int
    tight: int
    misses: int
    does_not_fit: int
    invalid: Annotated[int, Field(alias="refused")]
    failed: int
    probably_does_not_fit: int = 0

    @property
    def within(self) -> int:
        """Number of combinations that fit in memory, with room or tight, within the limits."""
        return self.fits + self.tight


@record
class ValueChange:
    """A value of the scenario that the best layout changes.

    Attributes
    ----------
    from_ : value of the scenario; null if it has none
    to : value of the best layout
    """

    from_: Annotated[Any, Field(alias="from")]
    to: Value


@record
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


@record
class SweepAnswer(Presentable):
    """All combinations of some values: the best, the front, and why others are invalid.

    Attributes
    ----------
    name : file name of the scenario without its suffix
    title : title of the scenario
    axes : values of each axis, in order
    kinds : kinds of its measures: `step`, `training run`, `service`
    filled : keys that take the remaining devices (`fill`)
    by : measure that decides which combination is best
    limits : worst values that are allowed, by measure
    counts : number of combinations by verdict
    fresh : number of runs that were not in the run cache
    best : position of the best layout in `points`; null where none fits
    ranked : positions of the layouts that fit, the best first
    changed : values of the scenario that the best layout changes
    pareto : layouts that no other layout beats in both the measure and the cost
    invalid : reasons of invalid combinations, the most frequent first
    failed : reasons of runs that failed
    unranked : reasons of combinations that fit, but whose measure is not known
    rate : price of a device with its quotes, of several kinds the best's first; null where `by`
        does not depend on it
    points : a row for each combination, the last axis changing fastest
    """

    name: str
    title: str
    axes: Mapping[str, tuple[Value, ...]]
    kinds: tuple[Kind, ...]
    filled: tuple[str, ...]
    by: str
    limits: Mapping[str, float]
    counts: VerdictCounts
    fresh: int
    best: int | None
    ranked: tuple[int, ...]
    changed: Mapping[str, ValueChange]
    pareto: ParetoFront
    invalid: Annotated[tuple[ReasonCount, ...], Field(alias="refused")]
    failed: tuple[ReasonCount, ...]
    points: tuple[Row, ...]
    unranked: tuple[ReasonCount, ...] = ()
    rate: str | None = None

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
    def measure(self) -> Measure:
        """The measure that decides which combination is best."""
        return measures_of(self.kinds)[self.by]

    @property
    def cost(self) -> Measure:
        """The measure that it is compared with in the front."""
        return measures_of(self.kinds)[ALIASES.get(self.pareto.against, self.pareto.against)]
