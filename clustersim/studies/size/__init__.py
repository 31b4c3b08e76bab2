"""The model that is worth training on a machine, and what training a model takes."""

from clustersim.studies.size.answer import SizeAnswer
from clustersim.studies.size.layouts import Machine, Trained, fastest_layout
from clustersim.studies.size.solution import size

__all__ = ["Machine", "SizeAnswer", "Trained", "fastest_layout", "size"]
