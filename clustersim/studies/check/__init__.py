"""Check a log against the prediction of its scenario: normal, slow or fast, and why."""

from clustersim.studies.check.anchor import STEP
from clustersim.studies.check.answer import CheckAnswer, check

__all__ = ["STEP", "CheckAnswer", "check"]
