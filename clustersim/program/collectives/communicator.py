"""A communicator: groups of ranks, and the algorithm of their library for each operation and size.

    groups --by algorithm--> loads on links --cost--> choice of the tuner --> traffic

As NCCL does at start-up, it computes the rings and trees of its ranks once; each call uses the
algorithm and protocol that the tuner ranks fastest, unless the scenario prescribes one.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from clustersim.cost import closed_form
from clustersim.cost.closed_form import Cost, StepCounts
from clustersim.errors import PlanError
from clustersim.program.collectives import switched, torus_rings
from clustersim.program.collectives.double_tree import tree_edges
from clustersim.program.collectives.link_load import (
    Load,
    Phase,
    by_node,
    exchange,
    phase_of,
    span_of,
)
from clustersim.program.collectives.ring import channels, hierarchical_edges, ring_edges
from clustersim.program.collectives.rounds import ROUNDS
from clustersim.topology.cluster import Cluster
from clustersim.traffic import Traffic

HALVES = ("all-reduce", "reduce-scatter", "all-gather")

RUNS: dict[str, tuple[str, ...]] = {
    "ring": (*HALVES, "broadcast", "reduce", "barrier"),
    "tree": ("all-reduce", "barrier"),
    "nvls": HALVES,
    "nvls-tree": ("all-reduce",),
    "sharp": ("all-reduce",),
    "hierarchical": HALVES,
    "torus": HALVES,
    "halving-doubling": HALVES,
    "doubling": ("all-reduce",),
    "binomial": ("broadcast", "reduce"),
    "bruck": ("all-gather", "all-to-all"),
    "pairwise": ("all-to-all", "send"),
    "grouped": ("all-to-all", "send"),
    "dissemination": ("barrier",),
}
"""The operations that each algorithm supports."""

EDGES = {
    "ring": ring_edges,
    "tree": tree_edges,
    "hierarchical": hierarchical_edges,
    "torus": torus_rings.torus_edges,
}
"""Pipelined algorithms, by what each member sends to which other."""

SWITCHED = {"nvls": switched.nvls, "nvls-tree": switched.nvls_tree, "sharp": switched.sharp}
"""Algorithms in which switches reduce, by their load on links."""

TWICE = ("ring", "hierarchical", "torus")
"""Algorithms whose all-reduce has twice the load of its halves."""


class Prescribed(NamedTuple):
    """An algorithm that the scenario prescribes, and the location, with which messages begin."""

    algorithm: str
    where: str


class Communicator:
    """One group of devices, or several that run the same collectives at the same time.

    Parameters
    ----------
    groups : devices of each group, in rank order
    fixed : prescribed algorithms, by operation

    Raises
    ------
    PlanError
        from `cost` and `traffic`, where a prescribed algorithm is not possible.
    """

    def __init__(
        self,
        cluster: Cluster,
        groups: Sequence[Sequence[int]],
        fixed: Mapping[str, Prescribed] | None = None,
    ) -> None:
        self.cluster = cluster
        self.groups = [tuple(group) for group in groups]
        self.span = span_of(cluster, self.groups)
        self._fixed = fixed or {}
        self._loads: dict[tuple[str, str], Load] = {}
        self._costs: dict[tuple[str, float], Cost] = {}

    def cost(self, operation: str, nbytes: float) -> Cost:
        """Return the cost of an uncontended operation, by the algorithm that the library chooses.

        Parameters
        ----------
        nbytes : the whole buffer; for an all-to-all, what each rank sends [B]
        """
        key = operation, nbytes
        if key not in self._costs:
            names = self.choices(operation)
            costs = [self.cost_of(name, operation, nbytes) for name in names]
            self._costs[key] = closed_form.ranked_first(costs)
        return self._costs[key]

    def cost_of(self, algorithm: str, operation: str, nbytes: float) -> Cost:
        """Return the cost of an uncontended operation by one algorithm, with its best protocol."""
        load = self.load(algorithm, operation)
        return closed_form.collective_cost(
            algorithm,
            operation,
            0.0 if operation == "barrier" else nbytes,
            self.span,
            load.seconds_per_byte(self.cluster.links.capacities),
            load.unit,
            self.cluster.library,
            self._steps(algorithm, operation),
        )

    def traffic(self, name: str, operation: str, nbytes: float) -> Traffic:
        """Return an operation as traffic on links, by the algorithm that the library chooses."""
        cost = self.cost(operation, nbytes)
        load = self.load(cost.algorithm, operation)
        return Traffic(name, load.links, load.weights, cost.nbytes, cost.latency, cost.rate)

    def choices(self, operation: str) -> list[str]:
        """Return the possible algorithms of an operation.

        Raises
        ------
        PlanError
            when the prescribed one is not possible, or none of the library is.
        """
        if operation in self._fixed:
            name, where = self._fixed[operation]
            if problem := self.obstacle(name, operation):
                raise PlanError(f"{where}: '{name}' {problem}")
            return [name]
        library = self.cluster.library
        names = library.choices.get(operation, ())
        possible = [name for name in names if not self.obstacle(name, operation)]
        if not possible:
            reasons = "; ".join(f"{name} {self.obstacle(name, operation)}" for name in names)
            raise PlanError(
                f"collectives.{operation}: library '{library.name}' has no algorithm for this group"
                f" ({reasons or 'its file names none for this operation'})"
            )
        return possible

    def signature(self, operations: Sequence[str]) -> Hashable:
        """Return what the costs of operations depend on, equal for groups in equivalent places."""
        capacities = self.cluster.links.capacities
        return self.span, tuple(
            (
                name,
                operation,
                self.load(name, operation).seconds_per_byte(capacities),
                self._steps(name, operation),
            )
            for operation in operations
            for name in self.choices(operation)
        )

    def _steps(self, algorithm: str, operation: str) -> StepCounts | None:
        """Return the steps of an algorithm that depend on more than the span of the group."""
        if algorithm == "torus":
            return torus_rings.torus_steps(self.cluster, self.groups[0], operation)
        return None

    def load(self, algorithm: str, operation: str) -> Load:
        """Return the load of an operation on each link, for each byte of the buffer."""
        key = algorithm, operation
        if key not in self._loads:
            self._loads[key] = self._load(algorithm, operation)
        return self._loads[key]

    def _load(self, algorithm: str, operation: str) -> Load:
        if algorithm in ROUNDS:
            phases = tuple(self._rounds(algorithm, operation))
            unit = max([max(phase.values(), default=0.0) for phase in phases], default=0.0)
            return Load(phases, unit or 1.0, self.span)
        if algorithm in TWICE and operation == "all-reduce":
            once = self.load(algorithm, "all-gather")
            phase = {link: 2 * share for link, share in once.shares.items()}
            return Load((phase,), 2 * once.unit, self.span)
        phase = {}
        for group in self.groups:
            for link, share in self._phase(algorithm, operation, group).items():
                phase[link] = phase.get(link, 0.0) + share
        unit = closed_form.bus_factor(operation, self.span.ranks) / self._flows(algorithm)
        return Load((phase,), unit, self.span)

    def _phase(self, algorithm: str, operation: str, group: Sequence[int]) -> Phase:
        """Return the load of a pipelined algorithm on each link."""
        cluster = self.cluster
        if algorithm in SWITCHED:
            return SWITCHED[algorithm](cluster, group, operation)
        return phase_of(cluster, EDGES[algorithm](cluster, group, operation))

    def _flows(self, algorithm: str) -> int:
        """Return the number of equal flows that leave a rank or a node."""
        if self.span.nodes > 1:
            return self.span.fullest
        return len(channels(self.cluster, self.groups[0])) if algorithm == "ring" else 1

    def _rounds(self, algorithm: str, operation: str) -> Iterator[Phase]:
        """Yield the load of each round, of all groups together."""
        if operation == "all-to-all" and algorithm == "grouped":
            yield exchange(self.cluster, self.groups)
            return
        ranks = self.span.ranks
        for messages in ROUNDS[algorithm](operation, ranks):
            edges = [
                (group[message.source], group[message.target], len(message.blocks) / ranks)
                for group in self.groups
                for message in messages
            ]
            yield phase_of(self.cluster, edges)

    def obstacle(self, algorithm: str, operation: str) -> str:
        """Return why an algorithm is not possible for an operation; an empty text if it is."""
        if operation not in RUNS[algorithm]:
            return f"has no {operation} (it has {', '.join(RUNS[algorithm])})"
        needs, met = self._needs(algorithm)
        return "" if met else f"needs {needs}"

    def _needs(self, algorithm: str) -> tuple[str, bool]:
        """Return what an algorithm needs, in words, and whether this group has it."""
        cluster, span = self.cluster, self.span
        several = span.nodes > 1
        counts = {len(m) for group in self.groups for m in by_node(cluster, group).values()}
        even = several and len(counts) == 1
        reduces = cluster.node.reduces > 0
        if algorithm == "tree":
            return "a group over several nodes", several
        if algorithm == "nvls":
            return "a group in one node with a switch that reduces", reduces and not several
        if algorithm == "nvls-tree":
            needs = "equally many devices, above one, on several nodes with switches that reduce"
            return needs, reduces and even and span.fullest > 1
        if algorithm == "sharp":
            needs = "equally many devices on several nodes of a fabric with switches that reduce"
            return needs, cluster.fabric.reduces and even
        if algorithm == "hierarchical":
            needs = "equally many devices, above one, on several nodes"
            return needs, even and span.fullest > 1
        if algorithm == "torus":
            fills = all(torus_rings.box(cluster, group) is not None for group in self.groups)
            return "a group that fills a box of a torus", fills
        if algorithm in ("doubling", "halving-doubling"):
            return "a power of two of ranks", span.ranks & (span.ranks - 1) == 0
        return "", True
