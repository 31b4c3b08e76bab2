"""Coverage of prediction intervals: how many measured runs lie within them.

    outcome --the runs of all other sources--> interval --contains the measured value?--> coverage

An interval is judged without the runs of the case's own source: with them it would prove nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from clustersim.metrics.prediction_interval import (
    LEVEL,
    MeasuredRuns,
    Nodes,
    Reach,
    reach_of,
    size_of,
)
from clustersim.validation.outcome import Outcome


def ratio_of(outcome: Outcome) -> float | None:
    """Return measured over predicted step time [unitless]; None where no whole step was graded."""
    grade = outcome.grade
    if grade is None or grade.time_error is None or outcome.accelerator is None:
        return None
    return 1 / (1 + grade.time_error)


@dataclass(frozen=True)
class GroupCoverage:
    """How many graded steps lie within their intervals.

    Attributes
    ----------
    count : graded steps with an interval, made without the runs of their own source
    inside : those whose measured value lies within it
    share : the second over the first; `null` without any
    without : graded steps without an interval: only their own source measured the accelerator
    """

    count: int
    inside: int
    share: float | None
    without: int


@dataclass(frozen=True)
class Coverage:
    """Coverage of the prediction intervals.

    Attributes
    ----------
    level : share of measured runs that intervals are made to contain
    all : of all cases
    groups : of each group with a graded step
    accelerators : of each accelerator with a graded step
    """

    level: float
    all: GroupCoverage
    groups: Mapping[str, GroupCoverage]
    accelerators: Mapping[str, GroupCoverage]


def coverage_of(outcomes: Sequence[Outcome], runs: Iterable[MeasuredRuns]) -> Coverage:
    """Return the coverage of all outcomes together, of each group and of each accelerator."""
    judged = list(_judged(outcomes, tuple(runs)))
    groups: defaultdict[str, list[bool | None]] = defaultdict(list)
    accelerators: defaultdict[str, list[bool | None]] = defaultdict(list)
    for outcome, inside in judged:
        groups[outcome.group].append(inside)
        accelerators[outcome.accelerator or ""].append(inside)
    return Coverage(
        level=LEVEL,
        all=_counted([inside for _, inside in judged]),
        groups={name: _counted(inside) for name, inside in sorted(groups.items())},
        accelerators={name: _counted(inside) for name, inside in sorted(accelerators.items())},
    )


def _counted(verdicts: Sequence[bool | None]) -> GroupCoverage:
    without, inside = verdicts.count(None), verdicts.count(True)
    count = len(verdicts) - without
    return GroupCoverage(count, inside, inside / count if count else None, without)


def _judged(
    outcomes: Sequence[Outcome], runs: tuple[MeasuredRuns, ...]
) -> Iterator[tuple[Outcome, bool | None]]:
    """Yield graded steps, and whether each lies within its interval; None without an interval."""

    @cache
    def reach(source: str, accelerator: str, nodes: Nodes) -> Reach:
        return reach_of((run for run in runs if run.source != source), accelerator, nodes)

    for outcome in outcomes:
        ratio = ratio_of(outcome)
        if ratio is None or outcome.accelerator is None or outcome.nodes is None:
            continue
        reached = reach(outcome.group, outcome.accelerator, size_of(outcome.nodes))
        if reached.below is None or reached.above is None:
            yield outcome, None
        else:
            yield outcome, 1 / reached.below <= ratio <= reached.above
