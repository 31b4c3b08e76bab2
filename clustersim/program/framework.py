"""A framework's record as plain values, defaults filled in: what a program needs of its software.

The catalogue keeps each value with its source; here a missing value has the default that the record
documents (`catalog.frameworks`).
"""

from dataclasses import dataclass
from typing import TypeVar

from clustersim.catalog.facts import Fact
from clustersim.catalog.frameworks import FrameworkRecord, ShardingFacts
from clustersim.cost.compute import Seconds

Value = TypeVar("Value")


@dataclass(frozen=True)
class Dispatch:
    """How the host issues kernels.

    Attributes
    ----------
    seconds : for each kernel [s]
    backward : for each kernel of a backward, where the autograd engine's time differs [s]
    waits : whether the host waits for each kernel before it issues the next
    graph_parts : parts of a layer that are captured in graphs
    replay : for each graph [s]
    """

    seconds: float
    backward: float | None
    waits: bool
    graph_parts: tuple[str, ...]
    replay: float

    def of(self, chain: Seconds) -> Seconds:
        """Return a chain of kernels as the host issues it: no faster than it can."""
        return chain.dispatched(self.seconds, self.replay, self.backward, waits=self.waits)


@dataclass(frozen=True)
class StageSends:
    """How stages send activations.

    Attributes
    ----------
    sharded : whether each tensor rank sends its share, which the receivers gather
    blocking : whether a stage waits for its sends
    gathers_forward, gathers_backward : all-gathers of received shares for each microbatch [count]
    """

    sharded: bool
    blocking: bool
    gathers_forward: int
    gathers_backward: int


@dataclass(frozen=True)
class GradientReduction:
    """How gradients are reduced over the data axis, and the new weights of ZeRO-1 gathered.

    Attributes
    ----------
    nbytes : of a gradient where ranks reduce it [B]
    mirrored_nbytes : of a gradient that stages with the same layers sum [B]
    overlap : when the reduction is concurrent with the last backward
    sharded : the collective that reduces gradients with sharded optimiser states
    gathered : of a new weight on the wire [B]; None for the width of activations
    gather_overlap : whether each part is gathered during the first forward of the previous part
    copy_seconds : of the host, for each rank's share of each tensor of new weights [s]
    """

    nbytes: float
    mirrored_nbytes: float
    overlap: str
    sharded: str
    gathered: float | None
    gather_overlap: bool
    copy_seconds: float


@dataclass(frozen=True)
class OptimiserPasses:
    """Bytes that the optimiser step moves for each parameter.

    Attributes
    ----------
    held : that a rank holds [B]
    updated : that it updates [B]
    host_updated : that it updates where the host runs the optimiser [B]
    """

    held: float
    updated: float
    host_updated: float


@dataclass(frozen=True)
class Sharding:
    """How weights that are sharded over the data axis are gathered and reduced (ZeRO-2, ZeRO-3).

    Attributes
    ----------
    prefetch : layers that are gathered ahead of the current one [count]
    gather, reduce : bytes of a weight and of a gradient on the wire [B]
    each_microbatch : whether gradients are reduced after every microbatch
    calls : collectives that gather or reduce a layer [count]
    small : further reductions, of the gradients of norms and biases [count]
    recomputed_twice : whether a recomputed layer is gathered for that and again for its backward
    host_seconds : of the host for each rank's share in each collective [s]
    gather_copied, reduce_copied : bytes that the device moves in its memory for each byte of these
    kept_in_pipeline : whether layers that keep their weights do so until the last backward
    """

    prefetch: int
    gather: float
    reduce: float
    each_microbatch: bool
    calls: int
    small: int
    recomputed_twice: bool
    host_seconds: float
    gather_copied: float
    reduce_copied: float
    kept_in_pipeline: bool


@dataclass(frozen=True)
class Framework:
    """What a program needs of its framework.

    Attributes
    ----------
    weight_bytes : of a stored weight [B]
    gate_merged : whether the two products of a gated MLP are one kernel
    sharding : None where the framework does not shard gradients or weights
    """

    dispatch: Dispatch
    sends: StageSends
    gradients: GradientReduction
    optimiser: OptimiserPasses
    sharding: Sharding | None
    weight_bytes: float
    gate_merged: bool


def plain_framework(record: FrameworkRecord, precision: str) -> Framework:
    """Return the values of a record for a precision, by name."""
    recipe, gradients = record.state[precision], record.gradients
    graphs, pipeline, optimiser = record.graphs, record.pipeline, record.optimiser
    return Framework(
        dispatch=Dispatch(
            seconds=record.dispatch.value,
            backward=None if record.dispatch_backward is None else record.dispatch_backward.value,
            waits=_or(record.launches_wait, False),
            graph_parts=() if graphs is None else tuple(graphs.parts.value),
            replay=0.0 if graphs is None else graphs.replay.value,
        ),
        sends=StageSends(
            pipeline.sharded.value,
            pipeline.blocking.value,
            pipeline.gathers_forward.value,
            pipeline.gathers_backward.value,
        ),
        gradients=GradientReduction(
            nbytes=(recipe.reduced or gradients.bytes_each).value,
            mirrored_nbytes=gradients.bytes_each.value,
            overlap=gradients.overlap.value,
            sharded=(recipe.collective or gradients.sharded_collective).value,
            gathered=None if gradients.gathered is None else gradients.gathered.value,
            gather_overlap=_or(gradients.gather_overlap, False),
            copy_seconds=_or(gradients.share_each, 0.0),
        ),
        optimiser=OptimiserPasses(
            optimiser.held.value,
            optimiser.updated.value,
            (optimiser.host_updated or optimiser.updated).value,
        ),
        sharding=None if record.sharding is None else _sharding(record.sharding),
        weight_bytes=recipe.weights.value,
        gate_merged=_or(record.kernels.gate_merged, True),
    )


def _sharding(facts: ShardingFacts) -> Sharding:
    return Sharding(
        prefetch=facts.prefetch.value,
        gather=facts.gather.value,
        reduce=facts.reduce.value,
        each_microbatch=facts.each_microbatch.value,
        calls=_or(facts.calls, 1),
        small=_or(facts.small, 0),
        recomputed_twice=_or(facts.recompute_gathers, False),
        host_seconds=_or(facts.host_each, 0.0),
        gather_copied=_or(facts.gather_copied, 0.0),
        reduce_copied=_or(facts.reduce_copied, 0.0),
        kept_in_pipeline=_or(facts.kept_in_pipeline, False),
    )


def _or(fact: Fact[Value] | None, default: Value) -> Value:
    """Return the value of a fact, or a default where it is missing."""
    return default if fact is None else fact.value
