"""Sweep: all combinations of some values, and the best layout that fits."""

from clustersim.studies.sweep.answer import SweepAnswer
from clustersim.studies.sweep.ranking import sweep

__all__ = ["SweepAnswer", "sweep"]
