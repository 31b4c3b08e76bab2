"""Accuracy targets that are missed, with the likely cause and the measurement that would decide it.

    tools/missed_targets.yaml --targets--> missed?       --+--> Explained
                                   --causes---> which misses? --+

Causes are written by hand, all numbers are those of the validation: an entry without a miss is
reported as *reached*, and a miss without an entry has no cause.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from clustersim.catalog.checking import checked
from clustersim.catalog.facts import NotNegative, Strict
from clustersim.catalog.reading import read_yaml
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError
from clustersim.validation.cases.machines import matches
from clustersim.validation.outcome import Outcome
from clustersim.validation.summary import ErrorSummary, RankingSummary, summarise

ALL: Final = "all"
"""The name of all groups together."""

FAR: Final = 0.25
"""Absolute error [unitless] above which a run needs a cause, whatever the target of its group."""


def _of_layouts(
    figure: Callable[[RankingSummary], float | None],
) -> Callable[[ErrorSummary], float | None]:
    return lambda errors: None if errors.layouts is None else figure(errors.layouts)


FIGURES: Final[Mapping[str, Callable[[ErrorSummary], float | None]]] = {
    "mean": lambda errors: errors.mean_abs_error,
    "median": lambda errors: errors.median_abs_error,
    "p90": lambda errors: errors.p90_abs_error,
    "tau": _of_layouts(lambda layouts: layouts.kendall_tau),
    "regret": _of_layouts(lambda layouts: layouts.regret),
}
"""Figures with a target: absolute errors of the metric, and ranks of the layouts of one job."""


# --- the file -------------------------------------------------------------------------------------


class Selection(Strict):
    """Some measured runs: a pattern over groups, or ``all``, and patterns over their cases."""

    group: str
    cases: list[str] = Field(default_factory=list)

    def select(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Return the selected runs."""
        return [
            outcome
            for outcome in outcomes
            if (self.group == ALL or matches(self.group, outcome.group))
            and (not self.cases or any(matches(pattern, outcome.id) for pattern in self.cases))
        ]


class Target(Selection):
    """A bound on a figure of each group that matches, or of its runs of high confidence."""

    confidence: Literal["high"] | None = None
    figure: Literal["mean", "median", "p90", "tau", "regret"] = "mean"
    at_most: NotNegative | None = None
    at_least: NotNegative | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError("needs either 'at_most' or 'at_least', and not both")
        return self

    def missed_by(self, group: str, outcomes: Sequence[Outcome]) -> "MissedTarget | None":
        """Return the missed target of a group; None where it is reached or undefined."""
        runs = [o for o in self.select(outcomes) if self.confidence in (None, o.confidence)]
        found = FIGURES[self.figure](summarise(runs))
        if found is None:
            return None
        bounds = self.at_most, self.at_least
        missed = MissedTarget(group, self.figure, self.confidence, *bounds, found)
        return None if missed.reached_by(found) else missed


class Cause(Selection):
    """The likely cause of the errors of some runs, and the measurement that would decide it."""

    cause: str
    decided_by: str


class TargetsFile(Strict):
    """``tools/missed_targets.yaml``."""

    kind: Literal["missed_targets"]
    targets: list[Target]
    causes: Annotated[list[Cause], Field(min_length=1)]


def read_targets() -> TargetsFile:
    """Return the shipped targets and causes.

    Raises
    ------
    CatalogError
        one line for each problem of the file.
    """
    document = read_yaml(Path(__file__).with_name("missed_targets.yaml"), CatalogError)
    return checked(TargetsFile, Tree.of(document), CatalogError)


# --- the answer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MissedTarget:
    """A target that a group, or `all`, misses.

    Attributes
    ----------
    group : the group that misses it
    figure : `mean`, `median` or `p90` of absolute errors, `tau` or `regret` of layouts
    confidence : of the sources that the target is for; `null` for all of them
    at_most : the upper bound of the figure
    at_least : its lower bound
    found : the figure
    """

    group: str
    figure: str
    confidence: str | None
    at_most: float | None
    at_least: float | None
    found: float

    def reached_by(self, figure: float) -> bool:
        """Whether a figure is within the bound."""
        if self.at_most is not None:
            return figure <= self.at_most
        return figure >= (self.at_least or 0.0)


@dataclass(frozen=True)
class ExplainedMiss:
    """Some runs with their errors, the targets that they miss, and the likely cause.

    Attributes
    ----------
    group : the group of the runs, or `all`; no entries for a file of your own
    cases : patterns over the runs of the entry; empty for all of the group
    count : graded runs of the entry
    mean_abs_error : mean of their absolute errors
    worst : the largest
    worst_id : the case of the largest
    far : runs with an absolute error above `far_beyond`, the worst first
    far_beyond : absolute error above which a run needs a cause
    missed : targets that are missed
    reached : whether nothing is missed any more, so that the entry is out of date
    cause : the likely cause; `null` for a miss without an entry in `tools/missed_targets.yaml`
    decided_by : the measurement that would decide it
    """

    group: str
    cases: tuple[str, ...]
    count: int
    mean_abs_error: float | None
    worst: float | None
    worst_id: str | None
    far: tuple[str, ...]
    far_beyond: float
    missed: tuple[MissedTarget, ...]
    reached: bool
    cause: str | None
    decided_by: str | None


def explained_misses(
    file: TargetsFile, outcomes: Sequence[Outcome], *, all_cases: bool
) -> tuple[ExplainedMiss, ...]:
    """Return the entries for some runs, in the order of the file; then misses without an entry.

    Parameters
    ----------
    all_cases : whether all measured cases ran: else targets for all of them, and causes without a
        run, are left out
    """
    graded = [outcome for outcome in outcomes if outcome.grade is not None]
    misses = list(_misses(file.targets, graded, all_cases))
    runs_of = [(cause, cause.select(graded)) for cause in file.causes]
    if not all_cases:
        runs_of = [(cause, runs) for cause, runs in runs_of if runs and cause.group != ALL]
    entries = [
        _entry(
            cause.group, cause.cases, runs, [m for m in misses if _explains(cause, m, runs)], cause
        )
        for cause, runs in runs_of
    ]
    listed = {run.id for cause, runs in runs_of if cause.group != ALL for run in runs}
    return (*entries, *_unexplained(entries, listed, graded, misses))


def _entry(
    group: str,
    cases: Sequence[str],
    runs: Sequence[Outcome],
    missed: Sequence[MissedTarget],
    cause: Cause | None = None,
) -> ExplainedMiss:
    """Return an entry with the errors of its runs."""
    runs = _worst_first(runs)
    far = tuple(run.id for run in runs if run.absolute_error > FAR)
    return ExplainedMiss(
        group=group,
        cases=tuple(cases),
        count=len(runs),
        mean_abs_error=_mean_error(runs),
        worst=runs[0].absolute_error if runs else None,
        worst_id=runs[0].id if runs else None,
        far=far,
        far_beyond=FAR,
        missed=tuple(missed),
        reached=not missed and not far,
        cause=cause.cause if cause else None,
        decided_by=cause.decided_by if cause else None,
    )


def _misses(
    targets: Sequence[Target], graded: Sequence[Outcome], all_cases: bool
) -> Iterator[MissedTarget]:
    """Yield each missed target with each group that misses it."""
    groups = sorted({outcome.group for outcome in graded})
    for target in targets:
        if target.group == ALL:
            selected = [(ALL, list(graded))] if all_cases else []
        else:
            names = [name for name in groups if matches(target.group, name)]
            selected = [(name, [o for o in graded if o.group == name]) for name in names]
        for name, runs in selected:
            missed = target.missed_by(name, runs)
            if missed is not None:
                yield missed


def _explains(cause: Cause, miss: MissedTarget, runs: Sequence[Outcome]) -> bool:
    """Whether a cause explains a missed target of a group.

    One for some runs of a group does if their mean error is above the target of the group.
    """
    if cause.group == ALL or miss.group == ALL:
        return cause.group == miss.group
    if not matches(cause.group, miss.group):
        return False
    if not cause.cases or miss.figure != "mean":
        return not cause.cases
    mean = _mean_error([run for run in runs if run.group == miss.group])
    return mean is not None and not miss.reached_by(mean)


def _unexplained(
    entries: Sequence[ExplainedMiss],
    listed: Collection[str],
    graded: Sequence[Outcome],
    misses: Sequence[MissedTarget],
) -> Iterator[ExplainedMiss]:
    """Yield missed targets and runs with a large error that no cause explains."""
    explained = {id(miss) for entry in entries for miss in entry.missed}
    for miss in misses:
        if id(miss) not in explained:
            runs = [o for o in graded if miss.group in (ALL, o.group)]
            yield _entry(miss.group, (), runs, [miss])
    for run in _worst_first(graded):
        if run.absolute_error > FAR and run.id not in listed:
            yield _entry(run.group, [run.id], [run], [])


def _worst_first(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return sorted(outcomes, key=lambda outcome: (-outcome.absolute_error, outcome.id))


def _mean_error(outcomes: Sequence[Outcome]) -> float | None:
    errors = [outcome.absolute_error for outcome in outcomes]
    return sum(errors) / len(errors) if errors else None
