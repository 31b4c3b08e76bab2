"""A communicator: groups of ranks with what their library does for each operation and size.

    groups --by algorithm--> loads on links --cost--> what the tuner ranks first --> traffic

As NCCL does when it starts, it finds the rings and trees of its ranks once; for each call it takes
the algorithm and protocol that its tuner holds quickest, unless the scenario fixes one.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from clustersim.cost import collectives as closed
from clustersim.cost.collectives import Cost, Steps
from clustersim.errors import PlanError
from clustersim.program.collectives import hierarchical, ring, switched, torus, tree
from clustersim.program.collectives.exchange import exchange
from clustersim.program.collectives.load import Load, Phase, by_node, phase_of, span_of
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
"""The operations that each algorithm can do."""


TWICE = ("ring", "hierarchical", "torus")
"""Algorithms whose all-reduce goes the way of its halves, twice."""


class Prescribed(NamedTuple):
    """An algorithm that somebody prescribes, and where they say so: complaints begin with it."""

    algorithm: str
    where: str


class Communicator:
    """One group of devices, or several that do the same at the same time side by side.

    Parameters
    ----------
    groups : devices of each group, in rank order
    fixed : prescribed algorithms, by operation

    Raises
    ------
    PlanError
        from `cost` and `traffic`, where a prescribed algorithm cannot run here.
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
        """Return what an operation costs alone, by the way that the library takes for it.

        Parameters
        ----------
        nbytes : the whole buffer; for an all-to-all, what each rank sends [B]
        """
        key = operation, nbytes
        if key not in self._costs:
            names = self.choices(operation)
            costs = [self.cost_of(name, operation, nbytes) for name in names]
            self._costs[key] = closed.ranked_first(costs)
        return self._costs[key]

    def cost_of(self, algorithm: str, operation: str, nbytes: float) -> Cost:
        """Return what an operation costs alone by one algorithm, by its best protocol."""
        load = self.load(algorithm, operation)
        return closed.collective(
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
        """Return an operation as traffic on links, as the library would run it."""
        cost = self.cost(operation, nbytes)
        load = self.load(cost.algorithm, operation)
        return Traffic(name, load.links, load.weights, cost.nbytes, cost.latency, cost.rate)

    def choices(self, operation: str) -> list[str]:
        """Return the algorithms that may run an operation here.

        Raises
        ------
        PlanError
            when the prescribed one cannot, or the library has none that can.
        """
        if operation in self._fixed:
            name, where = self._fixed[operation]
            if problem := self.obstacle(name, operation):
                raise PlanError(f"{where}: '{name}' {problem}")
            return [name]
        library = self.cluster.library
        known = library.choices.get(operation, ())
        able = [name for name in known if not self.obstacle(name, operation)]
        if not able:
            tried = "; ".join(f"{name} {self.obstacle(name, operation)}" for name in known)
            raise PlanError(
                f"collectives.{operation}: library '{library.name}' has nothing that can run it"
                f" here ({tried or 'its file names no algorithm for it'})"
            )
        return able

    def signature(self, operations: Sequence[str]) -> Hashable:
        """Return what the costs of these operations depend on, equal for groups that lie alike."""
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

    def _steps(self, algorithm: str, operation: str) -> Steps | None:
        """Return the steps of an algorithm that follow from more than the span of the group."""
        if algorithm == "torus":
            return torus.steps(self.cluster, self.groups[0], operation)
        return None

    def load(self, algorithm: str, operation: str) -> Load:
        """Return what an operation puts on each link, for each byte of the buffer."""
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
        unit = closed.bus_factor(operation, self.span.ranks) / self._flows(algorithm)
        return Load((phase,), unit, self.span)

    def _phase(self, algorithm: str, operation: str, group: Sequence[int]) -> Phase:
        """Return what a pipelined algorithm keeps on each link."""
        cluster = self.cluster
        if algorithm == "nvls":
            return switched.nvls(cluster, group, operation)
        if algorithm == "nvls-tree":
            return switched.nvls_tree(cluster, group, operation)
        if algorithm == "sharp":
            return switched.sharp(cluster, group, operation)
        module = {"ring": ring, "tree": tree, "hierarchical": hierarchical, "torus": torus}
        return phase_of(cluster, module[algorithm].edges(cluster, group, operation))

    def _flows(self, algorithm: str) -> int:
        """Return how many equal flows leave a rank or a node."""
        if self.span.nodes > 1:
            return self.span.fullest
        return ring.flows(self.cluster, self.groups[0]) if algorithm == "ring" else 1

    def _rounds(self, algorithm: str, operation: str) -> Iterator[Phase]:
        """Yield what each round puts on links, of all groups together."""
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
        """Return why an algorithm cannot run an operation here; nothing if it can."""
        if operation not in RUNS[algorithm]:
            return f"does no {operation} (it does {', '.join(RUNS[algorithm])})"
        needs, met = self._needs(algorithm)
        return "" if met else f"needs {needs}"

    def _needs(self, algorithm: str) -> tuple[str, bool]:
        """Return what an algorithm needs, in words, and whether that is so here."""
        cluster, span = self.cluster, self.span
        several = span.nodes > 1
        counts = {len(m) for group in self.groups for m in by_node(cluster, group).values()}
        even = several and len(counts) == 1
        reduces = cluster.node.reduces > 0
        if algorithm == "tree":
            return "a group over several nodes", several
        if algorithm == "nvls":
            return "a group in one node whose switch adds up", reduces and not several
        if algorithm == "nvls-tree":
            needs = "equally many devices, above one, on several nodes whose switches add up"
            return needs, reduces and even and span.fullest > 1
        if algorithm == "sharp":
            needs = "equally many devices on several nodes of a fabric whose switches add up"
            return needs, cluster.fabric.reduces and even
        if algorithm == "hierarchical":
            needs = "equally many devices, above one, on several nodes"
            return needs, even and span.fullest > 1
        if algorithm == "torus":
            fills = all(torus.box(cluster, group) is not None for group in self.groups)
            return "a group that fills a box of a torus", fills
        if algorithm in ("doubling", "halving-doubling"):
            return "a power of two of ranks", span.ranks & (span.ranks - 1) == 0
        return "", True
