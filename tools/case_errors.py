"""How far predictions of measured cases are off, by machine, software and kind of number.

cases of a validation --kind of each number--> errors of (machine, software, kind) --> rows
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from statistics import median
from typing import Final, NamedTuple

import numpy as np

from clustersim.catalog.finding import entry_names
from clustersim.render.tables import ResultTable, Rows, percent
from clustersim.validation.answer import Validation
from clustersim.validation.outcome import CaseAnswer

NONE: Final = "no accelerator"
"""In place of the accelerator of a case that has none."""

KINDS: Final = {
    metric: kind
    for kind, metrics in {
        "training step": (
            "step_time_s tokens_per_s_per_gpu tflops_per_gpu mfu_pct hfu_pct samples_per_s"
        ),
        "layer of a step": "layer_total_ms layer_forward_ms layer_backward_ms",
        "whole run": "run_time_s",
        "service: request": "latency_s",
        "service: first token": "ttft_ms",
        "service: each token": "tpot_ms",
        "service: throughput": "output_tok_s output_tok_s_per_gpu input_tok_s_per_gpu",
    }.items()
    for metric in metrics.split()
}
"""What is predicted, by the metric that is compared."""


TIMES: Final = ("time_s", "latency_s", "_ms")
"""Endings of metrics that are times; all others are rates."""


class CaseError(NamedTuple):
    """The error of one number of a case: predicted over measured, less one.

    Attributes
    ----------
    slower : the error of the time, above 0 where the prediction is too slow
    """

    machine: str
    software: str
    kind: str
    error: float
    slower: float


def case_errors(cases: Iterable[CaseAnswer]) -> Iterator[CaseError]:
    """Yield the error of each number that is compared; memory has a page of its own."""
    for case in cases:
        numbers = [(each.metric, each.error) for each in case.metrics]
        if not numbers and case.metric is not None and case.error is not None:
            numbers = [(case.metric, case.error)]
        software = case.framework or case.layout.get("engine", "")
        for metric, error in numbers:
            if metric in KINDS:
                slower = error if metric.endswith(TIMES) else 1 / (1 + error) - 1
                yield CaseError(case.accelerator or NONE, software, KINDS[metric], error, slower)


def _rows_by(key: Callable[[CaseError], tuple[str, ...]]) -> Callable[[Validation], Rows]:
    """Return a function that yields a row with the errors of each key."""

    def rows(answer: Validation) -> Rows:
        errors = defaultdict[tuple[str, ...], list[CaseError]](list)
        for each in case_errors(answer.cases):
            errors[key(each)].append(each)
        for cells, group in sorted(errors.items()):
            sizes = [abs(each.error) for each in group]
            p90, bias = float(np.quantile(sizes, 0.9)), median(each.slower for each in group)
            yield *cells, str(len(group)), percent(median(sizes)), percent(p90), percent(bias, "+")

    return rows


FIGURES: Final = (">numbers", ">median error", ">90th percentile", ">bias of the time")

BY_MACHINE: Final = ResultTable(
    "By machine and kind",
    ("accelerator", "kind", *FIGURES),
    _rows_by(lambda each: (each.machine, each.kind)),
)
BY_SOFTWARE: Final = ResultTable(
    "By machine, software and kind",
    ("accelerator", "framework or engine", "kind", *FIGURES),
    _rows_by(lambda each: (each.machine, each.software, each.kind)),
)


def unmeasured(answer: Validation) -> list[str]:
    """Return the accelerators of the catalogue that no graded case has."""
    measured = {each.machine for each in case_errors(answer.cases)}
    return [name for name in entry_names("accelerator") if name not in measured]
