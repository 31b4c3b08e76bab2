"""A sweep as its tables and figures see it: the plain values that ``--json`` prints, by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

FITS: Final = "fits"
DOES_NOT_FIT: Final = "does not fit"

COST: Final = {"memory": "memory_peak_bytes", "devices": "devices"}
"""The column of what a front is weighed against."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Told:
    """A sweep that has been run.

    Attributes
    ----------
    answer : what ``--json`` prints
    """

    answer: Mapping[str, Any]

    @property
    def title(self) -> str:
        """Of the scenario."""
        return str(self.answer["title"])

    @property
    def rows(self) -> Sequence[Row]:
        """A row for each combination."""
        points: Sequence[Row] = self.answer["points"]
        return points

    @property
    def axes(self) -> Mapping[str, list[Any]]:
        """The values of each axis, in order."""
        axes: Mapping[str, list[Any]] = self.answer["axes"]
        return axes

    @property
    def filled(self) -> Sequence[str]:
        """Keys that took up the remaining devices."""
        return [*self.answer["filled"]]

    @property
    def free(self) -> list[str]:
        """Axes with several values that were chosen, rather than filled."""
        return [
            key for key, values in self.axes.items() if key not in self.filled and len(values) > 1
        ]

    @property
    def by(self) -> str:
        """The measure that decides which is best."""
        return str(self.answer["by"])

    @property
    def against(self) -> str:
        """What the front is weighed against: memory or devices."""
        return str(self.answer["pareto"]["against"])

    @cached_property
    def ranked(self) -> list[Row]:
        """Rows that fit, the best first."""
        return [self.rows[i] for i in self.answer["ranked"]]

    @cached_property
    def front(self) -> list[Row]:
        """Rows that no other one beats, the cheapest first."""
        return [self.rows[i] for i in self.answer["pareto"]["positions"]]

    @property
    def more_is_better(self) -> bool:
        """Whether the best has the most of the measure."""
        return not self.ranked or self.ranked[0][self.by] >= self.ranked[-1][self.by]


__all__ = ["COST", "DOES_NOT_FIT", "FITS", "Row", "Told"]
