"""A job: everything that decides a program, as a plain value, and the nouns that follow from it."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import field
from functools import cached_property, partial
from typing import TypeVar

import numpy as np

from clustersim.answers import answer_from
from clustersim.arrays import Integers, numbered
from clustersim.catalog.records.frameworks import ExpertFacts, FrameworkRecord, StateBytes
from clustersim.cost.compute import Seconds
from clustersim.disturbance import Cause
from clustersim.plan.parallelism import Plan
from clustersim.plan.placement import Placement
from clustersim.program.collectives.communicator import Communicator, Prescribed
from clustersim.program.collectives.messages import arrangements
from clustersim.program.layers import Layers
from clustersim.program.schedules import Schedule
from clustersim.program.schedules.batch_order import batch_order
from clustersim.program.schedules.classic import ONE_F_ONE_B
from clustersim.program.schedules.steps import Order
from clustersim.program.weights import Weights
from clustersim.records import dataclass
from clustersim.timeline import BACKWARD, FORWARD
from clustersim.topology.accelerator import Accelerator, slowest_of
from clustersim.topology.cluster import Cluster
from clustersim.workload.finetune import Finetune
from clustersim.workload.model import Transformer
from clustersim.workload.ops import NO_OFFLOAD, NONE, Offload, Recompute
from clustersim.workload.routing import BALANCED, Routing
from clustersim.workload.slice import PRECISIONS, UNSTATED_EXPERTS, Slice


@dataclass(frozen=True)
class Dispatch:
    """How the host issues kernels, as `FrameworkRecord` and `GraphFacts`."""

    dispatch: float
    dispatch_backward: float | None
    launches_wait: bool
    replay: float

    def of(self, chain: Seconds) -> Seconds:
        """Return a chain of kernels as the host issues it: no faster than it can."""
        backward, waits = self.dispatch_backward, self.launches_wait
        return chain.dispatched(self.dispatch, self.replay, backward, waits=waits)

    def issued(self, chain: Seconds, delay: float = 0.0) -> float:
        """Return the time of the host to issue a chain, with a delay of each dispatch [s]."""
        backward = None if self.dispatch_backward is None else self.dispatch_backward + delay
        return chain.issued(self.dispatch + delay, self.replay + delay, backward)


T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """Everything that decides a program: what is trained, how, and on what.

    Attributes
    ----------
    placement : ranks on devices
    precision : recipe, by name
    recompute : operations that the backward computes again
    offload : what is kept on the host
    finetune : adapters that are trained instead of the model; None without any
    frozen_ends : ends of the model that are not trained where its layers are
    routing : distribution of tokens over the experts
    algorithms : of collectives, by operation, where the scenario prescribes them
    schedule : of the pipeline
    causes : of delays, which make ranks differ
    replication : number of the step, which has random numbers of its own
    """

    cluster: Cluster
    model: Transformer
    plan: Plan
    placement: Placement
    framework: FrameworkRecord
    precision: str
    recompute: Recompute = NONE
    offload: Offload = NO_OFFLOAD
    finetune: Finetune | None = None
    frozen_ends: frozenset[str] = frozenset()
    routing: Routing = BALANCED
    algorithms: Mapping[str, Prescribed] = field(default_factory=dict)
    schedule: Schedule = ONE_F_ONE_B
    causes: tuple[Cause, ...] = ()
    replication: int = 0

    def communicator(self, groups: Integers) -> Communicator:
        """Return the communicator of groups of devices that run a collective at the same time."""
        return self.kept("communicator", groups, partial(self._communicator, groups))

    def _communicator(self, groups: Integers) -> Communicator:
        off = self.framework.algorithms_off
        return Communicator(self.cluster, groups, self.algorithms, off)

    def kept(self, kind: Hashable, groups: Integers, compute: Callable[[], T]) -> T:
        """Return what depends on groups of devices and on the prescribed algorithms alone.

        Parameters
        ----------
        kind : of result, which distinguishes it from others about the same groups
        """
        fixed, off = tuple(sorted(self.algorithms.items())), tuple(self.framework.algorithms_off)
        key = kind, groups.shape, groups.tobytes(), fixed, off
        return self.cluster.kept.get(key, groups.size, compute)

    def communicators(self, groups: Integers) -> list[tuple[Integers, Communicator]]:
        """Return communicators for many rows of groups, each with the rows that it is for.

        Rows whose groups are in equivalent places share one.

        Parameters
        ----------
        groups : devices by row, group and member
        """
        return self.kept("rows", groups, partial(self._communicators, groups))

    def _communicators(self, groups: Integers) -> list[tuple[Integers, Communicator]]:
        rows, of_row, members = groups.shape
        numbers, _ = arrangements(self.cluster, groups.reshape(-1, members))
        kinds = numbered(numbers.reshape(rows, of_row))
        parts = (np.flatnonzero(kinds == kind) for kind in range(kinds.max() + 1))
        return [(part, self._communicator(groups[part])) for part in parts]

    @property
    def fills_nodes(self) -> bool:
        """Whether the devices of a cell may be all of their nodes, of several each."""
        return self.cluster.node.devices > 1 and not self.plan.cell % self.cluster.node.devices

    @cached_property
    def device(self) -> Accelerator:
        """The slowest of its devices, which all others wait for."""
        return slowest_of(self.cluster.accelerator, self.plan.ranks)

    @cached_property
    def peak(self) -> float:
        """Peak rate of a device at full clock, in the format of its products [FLOP/s]."""
        device = self.cluster.accelerator
        return device.peak_rate(self.shard.precision.peak) / device.clock

    @cached_property
    def dispatch(self) -> Dispatch:
        """How the host issues kernels."""
        graphs, own = self.framework.graphs, self.framework
        replay = 0.0 if graphs is None else graphs.replay
        return Dispatch(own.dispatch, own.dispatch_backward, own.launches_wait, replay)

    @property
    def experts(self) -> ExpertFacts:
        """How layers with experts run."""
        return self.framework.experts or UNSTATED_EXPERTS

    @property
    def state(self) -> StateBytes:
        """The bytes of training state in this precision."""
        return self.framework.state[self.precision]

    @property
    def reduced_bytes(self) -> float:
        """Bytes of a gradient as it is reduced [B]."""
        reduced = self.state.reduced
        return self.framework.gradients.bytes_each if reduced is None else reduced

    @cached_property
    def shard(self) -> Slice:
        """The share of a layer that one rank computes for one microbatch."""
        kernels, own = self.framework.kernels, self.state.accumulation
        if own is not None:
            kernels = kernels.model_copy(update={"gradient_accumulation": own})
        return answer_from(
            Slice,
            self.plan,
            model=self.model,
            kernels=kernels,
            expert_kernels=self.experts,
            routing=self.routing,
            precision=PRECISIONS[self.precision],
            finetune=self.finetune,
            frozen_ends=self.frozen_ends,
        )

    @cached_property
    def layers(self) -> Layers:
        """The layers of all chunks, and their operations."""
        graphs = self.framework.graphs
        parts = () if graphs is None else tuple(graphs.parts)
        return Layers(self.model, self.plan, self.recompute, self.shard, parts)

    @cached_property
    def weights(self) -> Weights:
        """The parameters of layers and stages."""
        sharding = self.framework.sharding
        gathered = float(self.shard.width) if sharding is None else sharding.gather
        ends, stored = self.frozen_ends, self.state.weights
        if self.finetune is not None:  # frozen weights need no copy for small updates
            stored = min(stored, float(self.shard.width))
        return Weights(self.model, self.plan, self.layers, self.finetune, ends, stored, gathered)

    @cached_property
    def order(self) -> Order:
        """The steps of every stage as numbers."""
        plan = self.plan
        return batch_order(self.schedule, plan.pipeline, plan.microbatches, plan.chunks)

    @cached_property
    def adapter_units(self) -> bool:
        """Whether factors of adapters are units that delay the gather of the next layer.

        See `program.movement.sharding`.
        """
        sharding = self.framework.sharding
        apart = sharding is not None and sharding.adapters_apart
        return apart and self.finetune is not None and self.plan.zero >= 3

    @cached_property
    def gathering_kinds(self) -> tuple[str, ...]:
        """Kinds of steps, forward or backward, whose blocks gather the weights of their layers.

        Weights that are kept from forward to backward are gathered in the forward only; those that
        a pipeline keeps until the last backward of a step, once at the end.
        """
        plan, sharding = self.plan, self.framework.sharding
        if plan.zero < 3 or sharding is None:
            return ()
        if plan.pipeline > 1 and not plan.reshard and sharding.kept_in_pipeline:
            return ()
        return (FORWARD, BACKWARD) if plan.reshard else (FORWARD,)

    @cached_property
    def reduces_in_blocks(self) -> bool:
        """Whether blocks reduce the gradients of their layers, each when it is computed."""
        sharding = self.framework.sharding
        if self.plan.zero < 2 or sharding is None:
            return False
        return sharding.each_microbatch or self.plan.microbatches == 1

    @property
    def reduces_embedding(self) -> bool:
        """Whether the first and last stage reduce the gradient of a tied embedding."""
        trained = self.finetune is None and not self.frozen_ends
        return not self.plan.wired.ends_meet and self.model.tied and trained

    @property
    def overlapped_reduction(self) -> bool:
        """Whether gradients are reduced concurrently with the last backward."""
        overlap = self.framework.gradients.overlap
        return overlap == "always" or (overlap == "without-pipeline" and self.plan.pipeline == 1)
