"""What a validation promised and did not reach, with the likely cause and what would decide it.

    validation/missed_targets.yaml --promises--> missed?  --+--> Finding
                              --causes----> whose?   --+

Causes are written by hand, all numbers beside them come from the run: an entry that is no longer
true is told as *reached*, and a miss that no entry tells of has no cause.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from clustersim.catalog.checking import checked
from clustersim.catalog.facts import NotNegative, Strict
from clustersim.catalog.finding import find
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError
from clustersim.validation.cases.machines import alike
from clustersim.validation.outcomes import Outcome
from clustersim.validation.summary import Layouts, Tally, tally

ALL: Final = "all"
"""The name of all groups together, as the tables have it."""

FAR: Final = 0.25
"""A run that is further off [unitless] wants a cause, whatever its group was promised."""


def _ranked(figure: Callable[[Layouts], float | None]) -> Callable[[Tally], float | None]:
    return lambda sums: None if sums.layouts is None else figure(sums.layouts)


FIGURES: Final[Mapping[str, Callable[[Tally], float | None]]] = {
    "mean": lambda sums: sums.mean_abs_error,
    "median": lambda sums: sums.median_abs_error,
    "p90": lambda sums: sums.p90_abs_error,
    "tau": _ranked(lambda layouts: layouts.kendall_tau),
    "regret": _ranked(lambda layouts: layouts.regret),
}
"""What may be promised: errors of the metric, and how layouts of one job are ranked."""


class Selection(Strict):
    """Some measured runs: a pattern over groups, or ``all``, and patterns over their cases."""

    group: str
    cases: list[str] = Field(default_factory=list)

    def of(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Return the runs that are meant."""
        return [
            outcome
            for outcome in outcomes
            if (self.group == ALL or alike(self.group, outcome.group))
            and (not self.cases or any(alike(pattern, outcome.id) for pattern in self.cases))
        ]


class Promise(Selection):
    """A bound on a figure of each group that matches, perhaps of its sure runs alone."""

    confidence: Literal["high"] | None = None
    figure: Literal["mean", "median", "p90", "tau", "regret"] = "mean"
    at_most: NotNegative | None = None
    at_least: NotNegative | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError("needs either 'at_most' or 'at_least', and not both")
        return self

    def found(self, outcomes: Sequence[Outcome]) -> float | None:
        """Return the figure of the runs that are meant; None where there is none."""
        sure = [o for o in self.of(outcomes) if self.confidence in (None, o.confidence)]
        return FIGURES[self.figure](tally(sure))

    def kept(self, found: float) -> bool:
        """Whether a figure is within the bound."""
        if self.at_most is not None:
            return found <= self.at_most
        assert self.at_least is not None, "checked when it was read"
        return found >= self.at_least


class Cause(Selection):
    """Why some runs are missed, as far as is known, and what would decide it."""

    cause: str
    decided_by: str


class Unreached(Strict):
    """``validation/missed_targets.yaml``."""

    kind: Literal["missed_targets"]
    promises: list[Promise]
    causes: Annotated[list[Cause], Field(min_length=1)]


@dataclass(frozen=True)
class Missed:
    """A promise that a group, or `ALL`, does not keep, and the figure found [unitless]."""

    group: str
    promise: Promise
    found: float

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        told = self.promise.model_dump(include={"figure", "confidence", "at_most", "at_least"})
        return {"group": self.group, **told, "found": self.found}


@dataclass(frozen=True)
class Finding:
    """Some runs with the errors of today, the promises they miss, and the cause.

    Attributes
    ----------
    cases : patterns that the cause tells of; of all runs of the group if empty
    far : runs further off than `FAR`, the worst first
    cause : None for a miss that no entry tells of
    """

    group: str
    cases: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    missed: tuple[Missed, ...]
    cause: Cause | None

    @property
    def far(self) -> tuple[Outcome, ...]:
        """Runs that are further off than any run should be, the worst first."""
        return tuple(outcome for outcome in _worst_first(self.outcomes) if _error(outcome) > FAR)

    @property
    def reached(self) -> bool:
        """Whether nothing is missed any more."""
        return not self.missed and not self.far

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the keys are stable and documented."""
        errors = [_error(outcome) for outcome in self.outcomes]
        worst = next(iter(_worst_first(self.outcomes)), None)
        return {
            "group": self.group,
            "cases": list(self.cases),
            "count": len(errors),
            "mean_abs_error": sum(errors) / len(errors) if errors else None,
            "worst": worst and _error(worst),
            "worst_id": worst and worst.id,
            "far": [outcome.id for outcome in self.far],
            "far_beyond": FAR,
            "missed": [each.to_json() for each in self.missed],
            "reached": self.reached,
            "cause": self.cause and self.cause.cause,
            "decided_by": self.cause and self.cause.decided_by,
        }


def read_unreached() -> Unreached:
    """Return the shipped promises and causes.

    Raises
    ------
    CatalogError
        one line for each problem of the file.
    """
    return checked(Unreached, Tree.of(find("validation", "missed_targets")), CatalogError)


def findings(known: Unreached, outcomes: Sequence[Outcome], *, whole: bool) -> list[Finding]:
    """Return what is told of these runs, in the order of the file; then what nothing is told of.

    Parameters
    ----------
    whole : whether all measured cases ran: else promises on all of them, and causes without a run,
        are left out
    """
    graded = [outcome for outcome in outcomes if outcome.grade is not None]
    missed = list(_missed(known.promises, graded, whole))
    told = [_told(cause, graded, missed) for cause in known.causes if whole or _runs(cause, graded)]
    return told + list(_untold(told, graded, missed))


def _runs(cause: Cause, graded: Sequence[Outcome]) -> bool:
    return cause.group != ALL and bool(cause.of(graded))


def _missed(
    promises: Sequence[Promise], graded: Sequence[Outcome], whole: bool
) -> Iterator[Missed]:
    """Yield each promise that is not kept, with each group that does not keep it."""
    groups = sorted({outcome.group for outcome in graded})
    for promise in promises:
        if promise.group == ALL:
            meant = [(ALL, graded)] if whole else []
        else:
            names = [name for name in groups if alike(promise.group, name)]
            meant = [(name, [o for o in graded if o.group == name]) for name in names]
        for name, runs in meant:
            found = promise.found(runs)
            if found is not None and not promise.kept(found):
                yield Missed(name, promise, found)


def _told(cause: Cause, graded: Sequence[Outcome], missed: Sequence[Missed]) -> Finding:
    """Return a cause with its runs, and the promises that it answers for."""
    runs = cause.of(graded)
    mine = [each for each in missed if _answers(cause, each, runs)]
    return Finding(cause.group, tuple(cause.cases), tuple(runs), tuple(mine), cause)


def _answers(cause: Cause, missed: Missed, runs: Sequence[Outcome]) -> bool:
    """Whether a cause is one for a promise that a group does not keep.

    One for some runs of a group is, if they are further off than the group may be on average.
    """
    if cause.group == ALL or missed.group == ALL:
        return cause.group == missed.group
    if not alike(cause.group, missed.group):
        return False
    if not cause.cases or missed.promise.figure != "mean":
        return not cause.cases
    own = [_error(run) for run in runs if run.group == missed.group]
    return bool(own) and not missed.promise.kept(sum(own) / len(own))


def _untold(
    told: Sequence[Finding], graded: Sequence[Outcome], missed: Sequence[Missed]
) -> Iterator[Finding]:
    """Yield promises and runs that are missed and that no cause tells of."""
    answered = {id(each) for finding in told for each in finding.missed}
    for each in missed:
        if id(each) not in answered:
            runs = graded if each.group == ALL else [o for o in graded if o.group == each.group]
            yield Finding(each.group, (), tuple(runs), (each,), None)
    known = {run.id for finding in told if finding.group != ALL for run in finding.outcomes}
    for run in _worst_first(graded):
        if _error(run) > FAR and run.id not in known:
            yield Finding(run.group, (run.id,), (run,), (), None)


def _worst_first(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return sorted(outcomes, key=lambda outcome: (-_error(outcome), outcome.id))


def _error(outcome: Outcome) -> float:
    """Return the absolute error of a graded run [unitless]."""
    assert outcome.grade is not None, "only graded runs are looked at"
    return abs(outcome.grade.error)
