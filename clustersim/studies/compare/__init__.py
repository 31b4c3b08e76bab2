"""Compare scenarios of one kind: inputs, results and causes."""

from clustersim.studies.compare.answer import (
    BeforeAfter,
    CompareAnswer,
    Comparison,
    Difference,
    compare,
    compare_two,
)
from clustersim.studies.compare.compared import check_one_kind, kinds_of, required, usual_measure
from clustersim.studies.compare.inputs import Input, changed_inputs

__all__ = [
    "BeforeAfter",
    "CompareAnswer",
    "Comparison",
    "Difference",
    "Input",
    "changed_inputs",
    "check_one_kind",
    "compare",
    "compare_two",
    "kinds_of",
    "required",
    "usual_measure",
]
