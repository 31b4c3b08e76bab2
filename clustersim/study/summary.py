"""The outcomes of many cases in a few numbers: how far off a group is, and which way."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from clustersim.study.outcomes import Outcome


@dataclass(frozen=True)
class Tally:
    """The errors of a group [unitless].

    Attributes
    ----------
    count, gradable, gating : cases; those that ran; those of them that a tolerance may be held to
    mean_abs_error, median_abs_error : of `error`, over gradable cases but those of memory alone;
        None without any
    gating_mean_abs_error : the same over gating cases
    worst : the largest absolute error, of the case `worst_id`
    bias : mean of `time_error`: above 0 where predictions are too slow
    memory_count, memory_mean_abs_error, memory_bias : of measured memory
    called_out_of_memory : runs that are predicted not to fit, and really ran
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
    memory_bias: float | None
    called_out_of_memory: int


def tally(outcomes: Sequence[Outcome]) -> Tally:
    """Sum up the outcomes of a group.

    >>> from clustersim.study.grading import Grade
    >>> slow = Grade("step_time_s", None, measured=1.0, predicted=1.2, error=0.2, time_error=0.2)
    >>> fast = Grade("mfu_pct", "model", measured=40.0, predicted=50.0, error=0.25, time_error=-0.2)
    >>> sums = tally([Outcome("a", "x", grade=slow), Outcome("b", "x", grade=fast)])
    >>> sums.mean_abs_error, sums.bias, sums.worst_id
    (0.225, 0.0, 'b')
    """
    graded = [(outcome, outcome.grade) for outcome in outcomes if outcome.grade is not None]
    ran = [(outcome, grade) for outcome, grade in graded if grade.time_error is not None]
    errors = [abs(grade.error) for _, grade in ran]
    gating = [abs(grade.error) for outcome, grade in ran if outcome.gates]
    memory = [o.memory_error for o in outcomes if o.memory_error is not None]
    worst = max(range(len(ran)), key=errors.__getitem__, default=None)
    return Tally(
        count=len(outcomes),
        gradable=len(graded),
        gating=len(gating),
        mean_abs_error=_mean(errors),
        median_abs_error=median(errors) if errors else None,
        gating_mean_abs_error=_mean(gating),
        worst=None if worst is None else errors[worst],
        worst_id=None if worst is None else ran[worst][0].id,
        bias=_mean([grade.time_error for _, grade in ran if grade.time_error is not None]),
        memory_count=len(memory),
        memory_mean_abs_error=_mean([abs(error) for error in memory]),
        memory_bias=_mean(memory),
        called_out_of_memory=sum(outcome.fits is False for outcome in outcomes),
    )


def _mean(values: list[float]) -> float | None:
    return fmean(values) if values else None
