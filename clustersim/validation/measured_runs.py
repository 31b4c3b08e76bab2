"""Graded outcomes as measured runs: the evidence of prediction intervals."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from clustersim.answers import answer_from
from clustersim.evidence import MeasuredRun
from clustersim.validation.outcome import Outcome

METRICS: Final[Mapping[str, str]] = {
    "ttft_ms": "ttft",
    "tpot_ms": "tpot",
    "latency_s": "latency",
    "output_tok_s": "throughput",
    "output_tok_s_per_gpu": "throughput",
    "input_tok_s_per_gpu": "throughput",
}
"""Metrics of services, by the keys of cases."""

DEGREES: Final = (
    "tensor", "pipeline", "data", "context", "expert", "attention_data", "zero", "shard", "micro",
)  # fmt: skip
"""Settings of a layout that its text names where they have an effect."""


def measured_runs(outcomes: Iterable[Outcome]) -> list[MeasuredRun]:
    """Return graded steps and services as measured runs, one for each of their metrics.

    A case with assumed settings counts: the user of a prediction has to assume settings as well.
    """
    return [run for outcome in outcomes for run in _runs(outcome)]


def _runs(outcome: Outcome) -> Iterator[MeasuredRun]:
    grades = () if outcome.grade is None else (outcome.grade, *outcome.others)
    for grade in grades:
        metric = METRICS.get(grade.metric) if outcome.is_inference else "step_time"
        if grade.time_error is None or outcome.traits is None or metric is None:
            continue
        yield answer_from(
            MeasuredRun,
            outcome.traits,
            run=outcome.id,
            model=outcome.model,
            source=_source(outcome),
            metric=metric,
            ratio=1 / (1 + grade.time_error),
            layout=layout_text(outcome.layout),
        )


def _source(outcome: Outcome) -> str:
    """Return what has errors of its own: a group; of services, a machine and an engine of it."""
    traits = outcome.traits
    if not outcome.is_inference or traits is None:
        return outcome.group
    return f"{outcome.group} {traits.accelerator} {traits.software}"


def layout_text(layout: Mapping[str, Any]) -> str:
    """Return the degrees of a layout in words.

    >>> layout_text({"tensor": 8, "pipeline": 1, "data": 4, "micro": 1, "zero": 1})
    'tensor 8 data 4 zero 1 micro 1'
    """
    kept = {name: layout.get(name) for name in DEGREES}
    named = {name: value for name, value in kept.items() if value not in (None, 0, False)}
    return " ".join(
        f"{name.replace('_', ' ')} {value}"
        for name, value in named.items()
        if value != 1 or name in ("zero", "micro")
    )
