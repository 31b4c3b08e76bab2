"""What a sweep says: the best layouts, the front, why the others cannot be.

variants, runs --> Sweep --> counts by verdict, best, Pareto front, reasons, rows
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from clustersim.catalog.tree import is_fact
from clustersim.runs.table import DOES_NOT_FIT, FITS, row, verdict_of
from clustersim.runs.variants import FAILED, INVALID, Run, Value, Variant
from clustersim.scenario.load import Loaded
from clustersim.studies.sweep.grid import FILL, points_of

BY: Final = {
    "tokens_per_s": True,
    "tokens_per_s_per_device": True,
    "samples_per_s": True,
    "tflops_per_device_model": True,
    "tflops_per_device_hardware": True,
    "mfu": True,
    "hfu": True,
    "step_time_s": False,
}
"""Measures that layouts can be ranked by, and whether more is better."""

Against = Literal["memory", "devices"]
COST: Final[Mapping[Against, str]] = {"memory": "memory_peak_bytes", "devices": "devices"}
"""The column of what throughput is paid with."""

Row = dict[str, Any]

_PLACE: Final = re.compile(r"^(--set \S+|[^:]*\.ya?ml(:\d+)?): ")
"""File and line, or a setting that another study spelled in another way."""


@dataclass(frozen=True)
class Group:
    """Combinations that cannot be for one reason.

    Attributes
    ----------
    why : of the first of them, in a line
    count : of them
    example : the point of the first
    """

    why: str
    count: int
    example: Mapping[str, Value]


@dataclass(frozen=True)
class Sweep:
    """A sweep that has been run.

    Attributes
    ----------
    base : the scenario without the axes
    filled : keys that take up the remaining devices
    by : the measure that decides which is best
    against : what the Pareto front weighs it against
    """

    base: Loaded
    variants: Sequence[Variant]
    runs: Sequence[Run]
    filled: tuple[str, ...] = ()
    by: str = "tokens_per_s"
    against: Against = "memory"

    @property
    def title(self) -> str:
        """Of the scenario."""
        return self.base.scenario.title

    @cached_property
    def rows(self) -> list[Row]:
        """A row for each combination, with its position, point, verdict and numbers."""
        both = zip(self.variants, self.runs, strict=True)
        return [{"position": i, **row(*each)} for i, each in enumerate(both)]

    @cached_property
    def axes(self) -> dict[str, list[Value]]:
        """The values of each axis, in the order in which they were given."""
        found = points_of(self.variants)
        return {key: [v for v in values if v != FILL] for key, values in found.items()}

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many combinations have each verdict."""
        found = Counter(verdict_of(run) for run in self.runs)
        return {
            "fits": found[FITS],
            "does_not_fit": found[DOES_NOT_FIT],
            "refused": found[INVALID],
            "failed": found[FAILED],
        }

    @property
    def fresh(self) -> int:
        """Runs that were not in the store."""
        return sum(run.fresh for run in {run.key: run for run in self.runs}.values())

    @cached_property
    def ranked(self) -> list[Row]:
        """Rows that fit, the best first; of two alike the one that needs less memory."""
        sign = -1 if BY[self.by] else 1
        fitting = [each for each in self.rows if each["verdict"] == FITS]
        return sorted(fitting, key=lambda r: (sign * r[self.by], r["memory_peak_bytes"]))

    @cached_property
    def front(self) -> list[Row]:
        """Rows that fit and that no other one beats in both, the cheapest first."""
        cost = COST[self.against]
        found: list[Row] = []
        best = float("inf")  # place among all by the measure, the lower the better
        place = {each["position"]: i for i, each in enumerate(self.ranked)}
        for each in sorted(self.ranked, key=lambda r: (r[cost], place[r["position"]])):
            if place[each["position"]] < best and (not found or self._above(each, found[-1])):
                found.append(each)
                best = place[each["position"]]
        return found

    def _above(self, one: Row, other: Row) -> bool:
        """Whether a row is better than another one, not as good as it."""
        ahead = one[self.by] - other[self.by]
        return bool(ahead > 0 if BY[self.by] else ahead < 0)

    @cached_property
    def changed(self) -> dict[str, tuple[Any, Value]]:
        """What the best differs in from the scenario as it is: from and to."""
        if not self.ranked:
            return {}
        point = self.variants[self.ranked[0]["position"]].point
        both = {key: (_said(self.base, key), value) for key, value in point.items()}
        return {key: (old, new) for key, (old, new) in both.items() if old != new}

    def reasons(self, verdict: str = INVALID) -> list[Group]:
        """Return why combinations cannot be, the most frequent reason first."""
        heaps: dict[str, list[int]] = {}
        for position, run in enumerate(self.runs):
            if run.verdict == verdict:
                heaps.setdefault(_kind(self._why(position)), []).append(position)
        ordered = sorted(heaps.values(), key=lambda heap: (-len(heap), heap[0]))
        return [
            Group(self._why(i), len(heap), dict(self.variants[i].point))
            for heap in ordered
            for i in heap[:1]
        ]

    def _why(self, position: int) -> str:
        """Return a reason without the place that it begins with, where a value was set."""
        why = self.runs[position].why or ""
        for setting in self.variants[position].settings:
            why = why.removeprefix(f"--set {setting}: ")
        return _PLACE.sub("", why)

    def to_json(self) -> dict[str, Any]:
        """Return the sweep as plain values; the keys are stable and documented."""
        return {
            "name": self.base.name,
            "title": self.title,
            "axes": self.axes,
            "filled": [*self.filled],
            "by": self.by,
            "counts": self.counts,
            "fresh": self.fresh,
            "best": self.ranked[0]["position"] if self.ranked else None,
            "ranked": [each["position"] for each in self.ranked],
            "changed": {k: {"from": old, "to": new} for k, (old, new) in self.changed.items()},
            "pareto": {
                "against": self.against,
                "positions": [each["position"] for each in self.front],
            },
            "refused": [vars(group) for group in self.reasons()],
            "failed": [vars(group) for group in self.reasons(FAILED)],
            "points": self.rows,
        }


def against_of(runs: Sequence[Run], wanted: str | None = None) -> Against:
    """Return what the measure is weighed against: devices where their number differs."""
    if wanted is not None:
        return "devices" if wanted == "devices" else "memory"
    counts = {row["devices"] for row in (row(Variant(""), run) for run in runs) if "devices" in row}
    return "devices" if len(counts) > 1 else "memory"


def _said(base: Loaded, key: str) -> Any:
    """Return what a scenario says at a key, with the default where it says nothing."""
    value: Any = base.scenario.model_dump(mode="json", by_alias=True)
    for part in key.replace("[", ".").replace("]", "").split("."):
        if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict):
            value = value.get(part)
        else:
            return None
    value = value["value"] if is_fact(value) else value
    return value.get("name", value) if isinstance(value, dict) else value


def _kind(why: str) -> str:
    """Return what a reason has in common with others: no numbers and no advice."""
    bare = re.sub(r"\([^()]*\)", "", why)
    return re.sub(r"\d[\d,.]*", "#", bare)


__all__ = ["BY", "COST", "Against", "Group", "Row", "Sweep", "against_of"]
