"""Compare scenarios of one kind: inputs, results and causes."""

from clustersim.studies.compare.answer import BeforeAfter, CompareAnswer, compare, compare_two
from clustersim.studies.compare.compared import check_one_kind, required, usual_measure

__all__ = [
    "BeforeAfter",
    "CompareAnswer",
    "check_one_kind",
    "compare",
    "compare_two",
    "required",
    "usual_measure",
]
