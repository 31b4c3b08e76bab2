"""The table of all algorithms of collectives: a new one is a file, and a line here."""

from typing import Final

from clustersim.cost.closed_form import GroupSpan
from clustersim.program.collectives import rounds, switched
from clustersim.program.collectives.algorithm import Algorithm
from clustersim.program.collectives.double_tree import TREE
from clustersim.program.collectives.ring import HIERARCHICAL, RING
from clustersim.program.collectives.torus import TORUS
from clustersim.topology.library import Library

ALGORITHMS: Final[dict[str, Algorithm]] = {
    algorithm.name: algorithm
    for algorithm in (
        RING,
        TREE,
        switched.NVLS,
        switched.NVLS_TREE,
        switched.SHARP,
        HIERARCHICAL,
        TORUS,
        rounds.HALVING_DOUBLING,
        rounds.DOUBLING,
        rounds.BINOMIAL,
        rounds.BRUCK,
        rounds.PAIRWISE,
        rounds.GROUPED,
        rounds.DISSEMINATION,
    )
}


def scalar_reduction(span: GroupSpan, library: Library) -> float:
    """Return the time of an all-reduce of one number: the quickest algorithm's latency [s]."""
    algorithms = (RING,) if span.nodes == 1 else (RING, TREE)
    costs = (
        algorithm.cost("all-reduce", 0.0, span, 0.0, 1.0, library)
        for algorithm in algorithms
        if algorithm.name in library.algorithms
    )
    return min(cost.latency for cost in costs)
