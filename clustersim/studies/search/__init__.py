"""Search: the best layout of a scenario, with proof."""

from clustersim.studies.search.answer import SearchAnswer
from clustersim.studies.search.searching import search

__all__ = ["SearchAnswer", "search"]
