"""Compare runs: inputs, results and causes."""

from clustersim.studies.compare.answer import (
    CompareAnswer,
    Comparison,
    compare,
    compare_runs,
    tokens_of,
)
from clustersim.studies.compare.before_after import BeforeAfter, Difference
from clustersim.studies.compare.compared import read_compared, required
from clustersim.studies.compare.inputs import Input, changed_inputs

__all__ = [
    "BeforeAfter",
    "CompareAnswer",
    "Comparison",
    "Difference",
    "Input",
    "changed_inputs",
    "compare",
    "compare_runs",
    "read_compared",
    "required",
    "tokens_of",
]
