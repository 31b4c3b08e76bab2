"""Compare runs: inputs, results and causes."""

from clustersim.studies.compare.answer import (
    BeforeAfter,
    CompareAnswer,
    Comparison,
    Difference,
    answer_of,
    compare,
    compare_runs,
    names_of,
    tokens_of,
)
from clustersim.studies.compare.inputs import Input, changed_inputs

__all__ = [
    "BeforeAfter",
    "CompareAnswer",
    "Comparison",
    "Difference",
    "Input",
    "answer_of",
    "changed_inputs",
    "compare",
    "compare_runs",
    "names_of",
    "tokens_of",
]
