"""A framework's record as plain values: what a program needs of its software.

Fields have the names of the record, which documents them (`catalog.frameworks`); a missing value
has its default.
"""

from dataclasses import dataclass

from clustersim.answers import built_from
from clustersim.catalog.frameworks import FrameworkRecord
from clustersim.cost.compute import Seconds


@dataclass(frozen=True)
class Graphs:
    """Kernels that the host issues as graphs, as `GraphFacts`; none without parts."""

    parts: tuple[str, ...] = ()
    replay: float = 0.0


@dataclass(frozen=True)
class Dispatch:
    """How the host issues kernels, as `FrameworkRecord`."""

    dispatch: float
    dispatch_backward: float | None = None
    launches_wait: bool = False
    graphs: Graphs = Graphs()

    def of(self, chain: Seconds) -> Seconds:
        """Return a chain of kernels as the host issues it: no faster than it can."""
        backward, waits = self.dispatch_backward, self.launches_wait
        return chain.dispatched(self.dispatch, self.graphs.replay, backward, waits=waits)

    def issued(self, chain: Seconds, delay: float = 0.0) -> float:
        """Return the time of the host to issue a chain, with a delay of each dispatch [s]."""
        backward = None if self.dispatch_backward is None else self.dispatch_backward + delay
        return chain.issued(self.dispatch + delay, self.graphs.replay + delay, backward)


@dataclass(frozen=True)
class Pipeline:
    """How stages send activations, as `PipelineFacts`."""

    sharded: bool
    blocking: bool
    gathers_forward: int
    gathers_backward: int


@dataclass(frozen=True)
class Gradients:
    """How gradients are reduced and new weights gathered, as `GradientFacts`.

    `reduced` and `collective` are those of the precision, where it has its own; `gathered` is None
    for the width of activations.
    """

    bytes_each: float
    overlap: str
    sharded_collective: str
    reduced: float
    collective: str
    share_each: float = 0.0
    gathered: float | None = None
    gather_overlap: bool = False


@dataclass(frozen=True)
class Optimiser:
    """Bytes that the optimiser step moves for each parameter, as `OptimiserFacts`."""

    held: float
    updated: float
    host_updated: float


@dataclass(frozen=True)
class Sharding:
    """How sharded weights are gathered and reduced, as `ShardingFacts`."""

    prefetch: int
    gather: float
    reduce: float
    each_microbatch: bool
    calls: int = 1
    small: int = 0
    recompute_gathers: bool = False
    host_each: float = 0.0
    gather_copied: float = 0.0
    reduce_copied: float = 0.0
    kept_in_pipeline: bool = False
    adapters_apart: bool = False


@dataclass(frozen=True)
class Experts:
    """How the host and the exchange of experts are timed, as `ExpertFacts`."""

    synchronised: bool = False
    overlapped: bool = False
    exchange_units: int | None = None


@dataclass(frozen=True)
class Framework:
    """What a program needs of its framework; `sharding` is None where it shards no gradients.

    `weight_bytes` are those of a stored weight [B].
    """

    dispatch: Dispatch
    pipeline: Pipeline
    gradients: Gradients
    optimiser: Optimiser
    sharding: Sharding | None
    experts: Experts
    weight_bytes: float
    gate_merged: bool


def plain_framework(record: FrameworkRecord, precision: str) -> Framework:
    """Return the values of a record for a precision."""
    recipe, gradients, optimiser = record.state[precision], record.gradients, record.optimiser
    graphs = Graphs() if record.graphs is None else built_from(Graphs, record.graphs)
    host_updated = optimiser.host_updated
    if host_updated is None:
        host_updated = optimiser.updated
    return Framework(
        dispatch=built_from(Dispatch, record, graphs=graphs),
        pipeline=built_from(Pipeline, record.pipeline),
        gradients=built_from(
            Gradients,
            gradients,
            reduced=gradients.bytes_each if recipe.reduced is None else recipe.reduced,
            collective=recipe.collective or gradients.sharded_collective,
        ),
        optimiser=built_from(Optimiser, optimiser, host_updated=host_updated),
        sharding=None if record.sharding is None else built_from(Sharding, record.sharding),
        experts=Experts() if record.experts is None else built_from(Experts, record.experts),
        weight_bytes=recipe.weights,
        gate_merged=record.kernels.gate_merged is None or record.kernels.gate_merged,
    )
