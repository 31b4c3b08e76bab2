"""Search: the best layout of a scenario, with proof."""

from clustersim.studies.search.answer import RankedLayout, SearchAnswer
from clustersim.studies.search.searching import search
from clustersim.studies.search.step.arguments import fixed_keys
from clustersim.studies.search.step.candidates import search_layout

__all__ = [
    "RankedLayout",
    "SearchAnswer",
    "fixed_keys",
    "search",
    "search_layout",
]
