"""How often measured values fall into the intervals that would have been told.

    outcome --the runs of all other sources--> interval --holds the measured value?--> coverage

The runs of a case's own source are left out: an interval that has seen them proves nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from clustersim.metrics.prediction_interval import (
    LEVEL,
    MeasuredRuns,
    Nodes,
    Reach,
    reach_of,
    size_of,
)
from clustersim.validation.interval_data import ratio_of
from clustersim.validation.outcomes import Outcome


@dataclass(frozen=True)
class Coverage:
    """How many graded runs have an interval, how many of them are inside, how many have none."""

    count: int
    inside: int
    without: int

    @property
    def share(self) -> float | None:
        """Runs inside over those with an interval [unitless]; None without any."""
        return self.inside / self.count if self.count else None

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        return {
            "count": self.count,
            "inside": self.inside,
            "share": self.share,
            "without": self.without,
        }


def coverage(outcomes: Sequence[Outcome], runs: Iterable[MeasuredRuns]) -> dict[str, Coverage]:
    """Return the coverage of each group with a graded step, by name."""
    held: dict[str, list[bool | None]] = {}
    for outcome, verdict in _verdicts(outcomes, tuple(runs)):
        held.setdefault(outcome.group, []).append(verdict)
    return {
        name: Coverage(
            count=len(verdicts) - verdicts.count(None),
            inside=verdicts.count(True),
            without=verdicts.count(None),
        )
        for name, verdicts in sorted(held.items())
    }


def to_json(groups: Mapping[str, Coverage]) -> dict[str, Any]:
    """Return coverages as plain values: the level, all cases together, each group."""
    whole = Coverage(
        count=sum(each.count for each in groups.values()),
        inside=sum(each.inside for each in groups.values()),
        without=sum(each.without for each in groups.values()),
    )
    return {
        "level": LEVEL,
        "all": whole.to_json(),
        "groups": {name: each.to_json() for name, each in groups.items()},
    }


def _verdicts(
    outcomes: Sequence[Outcome], runs: tuple[MeasuredRuns, ...]
) -> Iterable[tuple[Outcome, bool | None]]:
    """Yield graded steps, and whether each is in its interval; None where there is none."""

    @cache
    def reach(source: str, accelerator: str, nodes: Nodes) -> Reach:
        return reach_of((run for run in runs if run.source != source), accelerator, nodes)

    for outcome in outcomes:
        ratio = ratio_of(outcome)
        if ratio is None or outcome.accelerator is None or outcome.nodes is None:
            continue
        factor = reach(outcome.group, outcome.accelerator, size_of(outcome.nodes)).factor
        yield outcome, None if factor is None else 1 / factor <= ratio <= factor
