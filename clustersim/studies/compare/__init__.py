"""Compare runs: inputs, results and causes."""

from clustersim.studies.compare.answer import (
    BeforeAfter,
    CompareAnswer,
    Comparison,
    answer_of,
    compare,
    compare_runs,
    tokens_of,
)

__all__ = [
    "BeforeAfter",
    "CompareAnswer",
    "Comparison",
    "answer_of",
    "compare",
    "compare_runs",
    "tokens_of",
]
