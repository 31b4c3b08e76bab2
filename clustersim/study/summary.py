"""The outcomes of many cases in a few numbers: the errors of a group, and how often each reason."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from clustersim.study.outcomes import Outcome
from clustersim.study.reasons import Reason


@dataclass(frozen=True)
class Tally:
    """The errors of a group [unitless].

    Attributes
    ----------
    count, gradable, gating : cases; those that ran; those of them that a tolerance may be held to
    mean_abs_error, median_abs_error : of `error`, over gradable cases; None without any
    gating_mean_abs_error : the same over gating cases
    worst : the largest absolute error, of the case `worst_id`
    bias : mean of `time_error`: above 0 where predictions are too slow
    memory_count, memory_mean_abs_error : of measured memory
    """

    count: int
    gradable: int
    gating: int
    mean_abs_error: float | None
    median_abs_error: float | None
    gating_mean_abs_error: float | None
    worst: float | None
    worst_id: str | None
    bias: float | None
    memory_count: int
    memory_mean_abs_error: float | None


def tally(outcomes: Sequence[Outcome]) -> Tally:
    """Sum up the outcomes of a group.

    >>> slow = Grade("step_time_s", None, measured=1.0, predicted=1.2, error=0.2, time_error=0.2)
    >>> fast = Grade("mfu_pct", "model", measured=40.0, predicted=50.0, error=0.25, time_error=-0.2)
    >>> sums = tally([Outcome("a", "x", grade=slow), Outcome("b", "x", grade=fast)])
    >>> sums.mean_abs_error, sums.bias, sums.worst_id
    (0.225, 0.0, 'b')
    """
    ran = [(outcome, outcome.grade) for outcome in outcomes if outcome.grade is not None]
    errors = [abs(grade.error) for _, grade in ran]
    gating = [abs(grade.error) for outcome, grade in ran if outcome.gates]
    memory = [abs(o.memory_error) for o in outcomes if o.memory_error is not None]
    worst = max(range(len(ran)), key=errors.__getitem__, default=None)
    return Tally(
        count=len(outcomes),
        gradable=len(ran),
        gating=len(gating),
        mean_abs_error=_mean(errors),
        median_abs_error=median(errors) if errors else None,
        gating_mean_abs_error=_mean(gating),
        worst=None if worst is None else errors[worst],
        worst_id=None if worst is None else ran[worst][0].id,
        bias=_mean([grade.time_error for _, grade in ran]),
        memory_count=len(memory),
        memory_mean_abs_error=_mean(memory),
    )


def _mean(values: list[float]) -> float | None:
    return fmean(values) if values else None


def count_reasons(reasons: Iterable[tuple[Reason, ...]]) -> list[dict[str, Any]]:
    """Return for each kind of reason how many cases have it, and how many no other: most first."""
    kinds = [{reason.kind for reason in found} for found in reasons]
    total = Counter(kind for found in kinds for kind in found)
    alone = Counter(kind for found in kinds if len(found) == 1 for kind in found)
    order = sorted(total, key=lambda kind: (-total[kind], kind))
    return [{"reason": kind, "cases": total[kind], "alone": alone[kind]} for kind in order]
