"""A job: everything that decides a program, and what follows from it alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import NamedTuple

from clustersim.catalog.frameworks import FrameworkRecord
from clustersim.cost.compute import Seconds
from clustersim.plan.parallelism import Plan
from clustersim.plan.placement import Placement
from clustersim.program.collectives.communicator import Communicator, Prescribed
from clustersim.program.schedules import Schedule
from clustersim.program.schedules.one_f_one_b import ONE_F_ONE_B
from clustersim.program.steps import Order, Row, order_of
from clustersim.topology.cluster import Cluster
from clustersim.workload.finetune import Finetune, Frozen, frozen_bytes, trainable
from clustersim.workload.layers import captured_ops, layer_ops
from clustersim.workload.layers.ends import embedding_ops, head_ops
from clustersim.workload.model import Layer, Transformer
from clustersim.workload.offload import NO_OFFLOAD, Offload
from clustersim.workload.ops import Op, kept
from clustersim.workload.parameters import (
    Parameters,
    embedding_parameters,
    head_parameters,
    layer_parameters,
)
from clustersim.workload.precision import PRECISIONS
from clustersim.workload.recompute import NONE, Recompute
from clustersim.workload.routing import BALANCED, Routing
from clustersim.workload.slice import Slice, kernel_choice


class StackedLayer(NamedTuple):
    """A layer where it stands in a stage.

    Attributes
    ----------
    layer : what it is
    again : operations that its backward runs again
    outputs : whether what these hand on is kept all the same
    """

    layer: Layer
    recomputed: frozenset[str]
    outputs: bool = True


@dataclass(frozen=True)
class Job:
    """Everything that decides a program: what is trained, how, and on what.

    Attributes
    ----------
    placement : ranks on devices
    schedule : of the pipeline
    precision : recipe, by name
    recompute : what is run again in the backward
    offload : what is kept on the host
    finetune : what is trained of the model; None for all of it
    routing : what ranks get of the tokens of a layer with experts
    algorithms : of collectives, by operation, where the scenario prescribes them
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
    routing: Routing = BALANCED
    algorithms: Mapping[str, Prescribed] = field(default_factory=dict)
    schedule: Schedule = ONE_F_ONE_B

    def communicator(self, groups: Sequence[Sequence[int]]) -> Communicator:
        """Return the communicator of groups of devices that work side by side."""
        return Communicator(self.cluster, groups, self.algorithms)

    @cached_property
    def shard(self) -> Slice:
        """What one rank computes on for one microbatch."""
        plan = self.plan
        return Slice(
            self.model,
            plan.micro,
            plan.tensor,
            kernel_choice(self.framework, self.precision),
            sequence_parallel=plan.sequence_parallel,
            context=plan.context,
            context_method=plan.context_method,
            expert=plan.expert,
            expert_tensor=plan.expert_tensor,
            routing=self.routing,
            precision=PRECISIONS[self.precision],
            finetune=self.finetune,
        )

    def ends(self, stage: int, chunk: int) -> tuple[bool, bool]:
        """Return whether a chunk holds the embedding, and whether it holds the logits."""
        part = self.plan.wired.part(stage, chunk)
        return part == 0, part == self.plan.wired.parts - 1

    @cached_property
    def rows(self) -> list[Row]:
        """The steps of every stage."""
        plan = self.plan
        return self.schedule.rows(plan.pipeline, plan.microbatches, plan.chunks)

    @cached_property
    def order(self) -> Order:
        """The same as numbers."""
        return order_of(self.rows, self.plan.chunks)

    # --- layers --------------------------------------------------------------------------------

    def stacked(self, stage: int, chunk: int) -> tuple[StackedLayer, ...]:
        """Return the layers of a chunk of a stage, in order."""
        return self._stacks[stage, chunk]

    @cached_property
    def _stacks(self) -> dict[tuple[int, int], tuple[StackedLayer, ...]]:
        places = product(range(self.plan.pipeline), range(self.plan.chunks))
        return {place: self._stack(*place) for place in places}

    def _stack(self, stage: int, chunk: int) -> tuple[StackedLayer, ...]:
        before = sum(len(self.plan.layers_of(stage, c)) for c in range(chunk))
        return tuple(
            StackedLayer(layer, self._again(layer, stage, before + place), self.recompute.outputs)
            for place, number in enumerate(self.plan.layers_of(stage, chunk))
            for layer in [self.model.layer(number)]
        )

    def _again(self, layer: Layer, stage: int, place: int) -> frozenset[str]:
        if not self.recompute.applies(stage, place):
            return frozenset()
        return self.recompute.of(self.ops(layer))

    @cached_property
    def _ops(self) -> dict[Layer, list[Op]]:
        return {layer: layer_ops(self.shard, layer) for layer in dict.fromkeys(self.model.stack)}

    def ops(self, layer: Layer) -> list[Op]:
        """Return the operations of a layer."""
        return self._ops[layer]

    def captured(self, layer: Layer) -> frozenset[str]:
        """Return the names of the operations of a layer that the host issues as one graph."""
        return self._captured.get(layer, frozenset())

    @cached_property
    def _captured(self) -> dict[Layer, frozenset[str]]:
        graphs = self.framework.graphs
        if graphs is None:
            return {}
        return {layer: captured_ops(self.shard, layer, graphs.parts.value) for layer in self._ops}

    def dispatched(self, seconds: Seconds) -> Seconds:
        """Return a chain of kernels as the host issues it: no faster than it can."""
        host = self.framework
        replay = 0.0 if host.graphs is None else host.graphs.replay.value
        waits = host.launches_wait is not None and host.launches_wait.value
        engine = None if host.dispatch_backward is None else host.dispatch_backward.value
        return seconds.dispatched(host.dispatch.value, replay, engine, waits=waits)

    def kept(self, stacked: StackedLayer) -> float:
        """Return what a layer keeps of a microbatch from forward to backward [B]."""
        return kept(self.ops(stacked.layer), stacked.recomputed, outputs=stacked.outputs)

    @property
    def recomputed(self) -> list[tuple[Layer, frozenset[str]]]:
        """Every layer of the model with what its backward runs again."""
        places = product(range(self.plan.pipeline), range(self.plan.chunks))
        return [(each.layer, each.recomputed) for place in places for each in self.stacked(*place)]

    @cached_property
    def embedding(self) -> list[Op]:
        """The operations before the first layer."""
        return embedding_ops(self.shard)

    @cached_property
    def head(self) -> list[Op]:
        """The operations after the last layer."""
        return head_ops(self.shard)

    # --- parameters ----------------------------------------------------------------------------

    def parameters(self, stage: int) -> Parameters:
        """Return the parameters of a stage, not yet shared out over its ranks."""
        total = Parameters()
        for layer in self._layers_of(stage):
            total = total.plus(layer_parameters(self.model, layer))
        return total.plus(self.ends_of_stage(stage))

    def outside(self, stage: int, chunk: int) -> tuple[Parameters, Parameters]:
        """Return the parameters of a chunk below its layers and above them."""
        first, last = self.ends(stage, chunk)
        below = embedding_parameters(self.model) if first else Parameters()
        alone = not self.plan.wired.ends_meet
        return below, head_parameters(self.model, alone=alone) if last else Parameters()

    def ends_of_stage(self, stage: int) -> Parameters:
        """Return the parameters of a stage outside its layers."""
        total = Parameters()
        for chunk in range(self.plan.chunks):
            for end in self.outside(stage, chunk):
                total = total.plus(end)
        return total

    def trained(self, stage: int) -> Parameters:
        """Return the parameters of a stage that are trained, as `parameters`: all, or adapters."""
        if self.finetune is None:
            return self.parameters(stage)
        total = Parameters()
        for layer in self._layers_of(stage):
            total = total.plus(trainable(self.model, layer, self.finetune))
        return total

    def share_of(self, stage: int, chunk: int) -> float:
        """Return the share of a stage's trained parameters that one of its chunks holds."""

        def amount(layers: Iterable[StackedLayer]) -> float:
            each = (trainable(self.model, layer.layer, self.finetune) for layer in layers)
            return sum(self.on_a_rank(parameters) for parameters in each)

        own = amount(self.stacked(stage, chunk))
        if self.finetune is None:
            own += sum(self.on_a_rank(end) for end in self.outside(stage, chunk))
        whole = self.on_a_rank(self.trained(stage))
        return own / whole if whole else 1 / self.plan.chunks

    def on_a_rank(self, parameters: Parameters) -> float:
        """Return what one rank computes with of some parameters."""
        plan = self.plan
        return parameters.dense(plan.tensor) + parameters.of_experts(
            plan.expert, plan.expert_tensor
        )

    def frozen(self, stage: int) -> Frozen:
        """Return the bytes of the parameters of a stage that are not trained."""
        total = Frozen()
        if self.finetune is None:
            return total
        width = self.framework.state[self.precision].weights.value
        for layer in self._layers_of(stage):
            total = total.plus(frozen_bytes(self.model, layer, self.finetune, width))
        ends = self.ends_of_stage(stage)
        return total.plus(Frozen(Parameters(*(width * count for count in ends))))

    def _layers_of(self, stage: int) -> list[Layer]:
        chunks = range(self.plan.chunks)
        return [self.model.layer(n) for chunk in chunks for n in self.plan.layers_of(stage, chunk)]

    def dense(self, stage: int) -> float:
        """Return the parameters outside the experts that one rank of a stage computes with."""
        return self.parameters(stage).dense(self.plan.tensor)

    def of_experts(self, stage: int) -> float:
        """Return the parameters of experts that one rank of a stage computes with."""
        return self.parameters(stage).of_experts(self.plan.expert, self.plan.expert_tensor)

    @property
    def gradient_bytes(self) -> float:
        """Return the bytes of a gradient where ranks reduce it [B]."""
        own = self.framework.state[self.precision].reduced
        return (own or self.framework.gradients.bytes_each).value

    @property
    def sharded_reduction(self) -> str:
        """Return what reduces gradients whose states are sharded: the half of it, or all."""
        own = self.framework.state[self.precision].collective
        return (own or self.framework.gradients.sharded_collective).value

    @property
    def overlapped(self) -> bool:
        """Whether gradients are reduced beside the last backward."""
        when = self.framework.gradients.overlap.value
        return when == "always" or (when == "without-pipeline" and self.plan.pipeline == 1)
