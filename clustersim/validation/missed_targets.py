"""Accuracy targets that are missed, with the likely cause and the measurement that would decide it.

    validation/missed_targets.yaml --targets--> missed?       --+--> Explained
                                   --causes---> which misses? --+

Causes are written by hand, all numbers are those of the validation: an entry without a miss is
reported as *reached*, and a miss without an entry has no cause.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from clustersim.catalog.checking import checked
from clustersim.catalog.facts import NotNegative, Strict
from clustersim.catalog.finding import find
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

    def figure_of(self, outcomes: Sequence[Outcome]) -> float | None:
        """Return the figure of the selected runs; None where it is undefined."""
        runs = [o for o in self.select(outcomes) if self.confidence in (None, o.confidence)]
        return FIGURES[self.figure](summarise(runs))

    def reached(self, figure: float) -> bool:
        """Whether a figure is within the bound."""
        if self.at_most is not None:
            return figure <= self.at_most
        assert self.at_least is not None, "checked when it was read"
        return figure >= self.at_least


class Cause(Selection):
    """The likely cause of the errors of some runs, and the measurement that would decide it."""

    cause: str
    decided_by: str


class TargetsFile(Strict):
    """``validation/missed_targets.yaml``."""

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
    return checked(TargetsFile, Tree.of(find("validation", "missed_targets")), CatalogError)


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
    cause : the likely cause; `null` for a miss without an entry in `validation/missed_targets.yaml`
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


@dataclass(frozen=True)
class _Miss:
    """A target that a group misses, with the figure."""

    group: str
    target: Target
    figure: float

    @property
    def answer(self) -> MissedTarget:
        target = self.target
        return MissedTarget(
            group=self.group,
            figure=target.figure,
            confidence=target.confidence,
            at_most=target.at_most,
            at_least=target.at_least,
            found=self.figure,
        )


@dataclass(frozen=True)
class _Explained:
    """Some runs, the targets that they miss, and the cause; None for a miss without an entry."""

    group: str
    cases: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    missed: tuple[_Miss, ...]
    cause: Cause | None

    @property
    def answer(self) -> ExplainedMiss:
        errors = [outcome.absolute_error for outcome in self.outcomes]
        sorted_runs = _worst_first(self.outcomes)
        worst = sorted_runs[0] if sorted_runs else None
        far = tuple(run.id for run in sorted_runs if run.absolute_error > FAR)
        return ExplainedMiss(
            group=self.group,
            cases=self.cases,
            count=len(errors),
            mean_abs_error=sum(errors) / len(errors) if errors else None,
            worst=worst.absolute_error if worst else None,
            worst_id=worst.id if worst else None,
            far=far,
            far_beyond=FAR,
            missed=tuple(miss.answer for miss in self.missed),
            reached=not self.missed and not far,
            cause=self.cause.cause if self.cause else None,
            decided_by=self.cause.decided_by if self.cause else None,
        )


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
    causes = [cause for cause in file.causes if all_cases or _has_runs(cause, graded)]
    entries = [_explained(cause, graded, misses) for cause in causes]
    return tuple(entry.answer for entry in [*entries, *_unexplained(entries, graded, misses)])


def _has_runs(cause: Cause, graded: Sequence[Outcome]) -> bool:
    return cause.group != ALL and bool(cause.select(graded))


def _misses(
    targets: Sequence[Target], graded: Sequence[Outcome], all_cases: bool
) -> Iterator[_Miss]:
    """Yield each missed target with each group that misses it."""
    groups = sorted({outcome.group for outcome in graded})
    for target in targets:
        if target.group == ALL:
            selected = [(ALL, graded)] if all_cases else []
        else:
            names = [name for name in groups if matches(target.group, name)]
            selected = [(name, [o for o in graded if o.group == name]) for name in names]
        for name, runs in selected:
            figure = target.figure_of(runs)
            if figure is not None and not target.reached(figure):
                yield _Miss(name, target, figure)


def _explained(cause: Cause, graded: Sequence[Outcome], misses: Sequence[_Miss]) -> _Explained:
    """Return a cause with its runs and the misses that it explains."""
    runs = cause.select(graded)
    missed = tuple(miss for miss in misses if _explains(cause, miss, runs))
    return _Explained(cause.group, tuple(cause.cases), tuple(runs), missed, cause)


def _explains(cause: Cause, miss: _Miss, runs: Sequence[Outcome]) -> bool:
    """Whether a cause explains a missed target of a group.

    One for some runs of a group does if their mean error is above the target of the group.
    """
    if cause.group == ALL or miss.group == ALL:
        return cause.group == miss.group
    if not matches(cause.group, miss.group):
        return False
    if not cause.cases or miss.target.figure != "mean":
        return not cause.cases
    errors = [run.absolute_error for run in runs if run.group == miss.group]
    return bool(errors) and not miss.target.reached(sum(errors) / len(errors))


def _unexplained(
    entries: Sequence[_Explained], graded: Sequence[Outcome], misses: Sequence[_Miss]
) -> Iterator[_Explained]:
    """Yield missed targets and runs with a large error that no cause explains."""
    explained = {id(miss) for entry in entries for miss in entry.missed}
    for miss in misses:
        if id(miss) not in explained:
            runs = graded if miss.group == ALL else [o for o in graded if o.group == miss.group]
            yield _Explained(miss.group, (), tuple(runs), (miss,), None)
    listed = {run.id for entry in entries if entry.group != ALL for run in entry.outcomes}
    for run in _worst_first(graded):
        if run.absolute_error > FAR and run.id not in listed:
            yield _Explained(run.group, (run.id,), (run,), (), None)


def _worst_first(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return sorted(outcomes, key=lambda outcome: (-outcome.absolute_error, outcome.id))
