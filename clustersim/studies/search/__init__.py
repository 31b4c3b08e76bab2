"""Search: the best layout of a scenario, with proof."""

from clustersim.studies.search.answer import BestSharing, RankedLayout, SearchAnswer
from clustersim.studies.search.loop import MORE_TIME, Deadline, TimeOverError
from clustersim.studies.search.searching import search
from clustersim.studies.search.step.arguments import fixed_keys
from clustersim.studies.search.step.fastest import FastestLayout, LayoutSearch
from clustersim.studies.search.step.offloads import offloads_of

__all__ = [
    "MORE_TIME",
    "BestSharing",
    "Deadline",
    "FastestLayout",
    "LayoutSearch",
    "RankedLayout",
    "SearchAnswer",
    "TimeOverError",
    "fixed_keys",
    "offloads_of",
    "search",
]
