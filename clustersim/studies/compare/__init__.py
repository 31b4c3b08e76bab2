"""Compare runs: inputs, results and causes."""

from clustersim.studies.compare.answer import (
    CompareAnswer,
    Comparison,
    answer_of,
    bottleneck,
    compare,
    compare_runs,
    tokens_of,
)

__all__ = [
    "CompareAnswer",
    "Comparison",
    "answer_of",
    "bottleneck",
    "compare",
    "compare_runs",
    "tokens_of",
]
