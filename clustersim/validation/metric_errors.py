"""Errors of measured inference by metric: a case has several, each with its own accuracy."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from clustersim.validation.grading import Grade
from clustersim.validation.outcome import Outcome


@dataclass(frozen=True)
class MetricErrors:
    """The errors of a metric over scored cases: predicted over measured, less one.

    Attributes
    ----------
    metric : a key of the file of cases
    count : scored cases with a measurement of it
    median_abs_error : median of the absolute errors
    mean_abs_error : their mean
    p90_abs_error : their 90th percentile
    bias : median of the errors
    roofline_count : cases that a one-line roofline with a closed queue predicts as well
    roofline_median_abs_error : median of its absolute errors on these; null without any
    same_median_abs_error : median of the absolute errors of clustersim on these; null without any
    """

    metric: str
    count: int
    median_abs_error: float
    mean_abs_error: float
    p90_abs_error: float
    bias: float
    roofline_count: int
    roofline_median_abs_error: float | None
    same_median_abs_error: float | None


def metric_errors(outcomes: Sequence[Outcome]) -> tuple[MetricErrors, ...]:
    """Return the errors of each metric of scored inference cases, in order of appearance."""
    found: dict[str, list[tuple[Grade, float | None]]] = {}
    for outcome in outcomes:
        for grade in _scored(outcome):
            found.setdefault(grade.metric, []).append((grade, outcome.baselines.get(grade.metric)))
    return tuple(_errors(metric, graded) for metric, graded in found.items())


def _scored(outcome: Outcome) -> Iterator[Grade]:
    if outcome.is_inference and outcome.scored and outcome.grade is not None:
        yield from (outcome.grade, *outcome.others)


def _errors(metric: str, graded: Sequence[tuple[Grade, float | None]]) -> MetricErrors:
    errors = [grade.error for grade, _ in graded]
    absolute = [abs(error) for error in errors]
    same = [(abs(grade.error), abs(other)) for grade, other in graded if other is not None]
    return MetricErrors(
        metric=metric,
        count=len(errors),
        median_abs_error=median(absolute),
        mean_abs_error=fmean(absolute),
        p90_abs_error=float(np.percentile(absolute, 90)),
        bias=median(errors),
        roofline_count=len(same),
        roofline_median_abs_error=median(other for _, other in same) if same else None,
        same_median_abs_error=median(own for own, _ in same) if same else None,
    )
