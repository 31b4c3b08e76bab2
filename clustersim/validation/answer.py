"""The answer of `clustersim validate`: its fields are the keys of ``--json``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clustersim.metrics.prediction_interval import MeasuredRuns, shipped_interval_data
from clustersim.validation.cases.reasons import ReasonCount, count_reasons
from clustersim.validation.claims import ClaimVerdict
from clustersim.validation.curves import CurveErrors
from clustersim.validation.intervals import Coverage, coverage_of
from clustersim.validation.missed_targets import ExplainedMiss
from clustersim.validation.outcome import CaseAnswer, Outcome
from clustersim.validation.ranking import JobRanking, job_runs
from clustersim.validation.summary import ErrorSummary, summarise


@dataclass(frozen=True)
class Validation:
    """Measured cases with their predictions and errors.

    Errors are predicted over measured, less one; figures without a measurement are `null`.

    Attributes
    ----------
    cases : every case, in the order of its file
    groups : errors of each group, by name
    all : errors of all cases together
    reasons : why cases are not gradable
    layouts : jobs that were measured in several layouts
    curves : measured curves of collectives; with all shipped cases
    claims : claims of papers; with all shipped cases, or on request
    unreached : missed accuracy targets; with shipped cases
    coverage : how often prediction intervals hold
    """

    cases: tuple[CaseAnswer, ...]
    groups: Mapping[str, ErrorSummary]
    all: ErrorSummary
    reasons: tuple[ReasonCount, ...]
    layouts: tuple[JobRanking, ...]
    curves: tuple[CurveErrors, ...]
    claims: tuple[ClaimVerdict, ...]
    unreached: tuple[ExplainedMiss, ...]
    coverage: Coverage

    @property
    def sums(self) -> list[tuple[str, ErrorSummary]]:
        """The errors of each group by name, then those of all cases."""
        return [*self.groups.items(), ("all", self.all)]


def validation_of(
    outcomes: Sequence[Outcome],
    *,
    curves: tuple[CurveErrors, ...] = (),
    claims: tuple[ClaimVerdict, ...] = (),
    unreached: tuple[ExplainedMiss, ...] = (),
    interval_data: Sequence[MeasuredRuns] | None = None,
) -> Validation:
    """Return the answer for some outcomes.

    Parameters
    ----------
    interval_data : the runs that prediction intervals are made from; the shipped ones without it
    """
    runs = shipped_interval_data() if interval_data is None else interval_data
    groups = sorted({outcome.group for outcome in outcomes})
    return Validation(
        cases=tuple(outcome.answer for outcome in outcomes),
        groups={name: summarise([o for o in outcomes if o.group == name]) for name in groups},
        all=summarise(outcomes),
        reasons=count_reasons(o.reasons for o in outcomes if not o.gradable),
        layouts=tuple(job.answer for job in job_runs(outcomes)),
        curves=curves,
        claims=claims,
        unreached=unreached,
        coverage=coverage_of(outcomes, runs),
    )
