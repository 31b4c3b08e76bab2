"""How a replica of a served model is divided over devices.

    devices of a stage = tensor x attention-data

Attention is split over `tensor` devices, and `attention_data` groups of them serve sequences of
their own.  All devices of a stage share the experts: `expert` of them hold different ones, and the
others split each expert.
"""

from functools import cached_property

import numpy as np

from clustersim.answers import record
from clustersim.arrays import Integers
from clustersim.errors import PlanError
from clustersim.plan.parallelism import even_layers
from clustersim.workload.model import Transformer


@record
class Layout:
    """The layout of one replica.

    Attributes
    ----------
    tensor : devices that share the heads and columns of a layer
    pipeline : stages
    expert : devices that hold different experts
    attention_data : groups with sequences of their own within a stage
    context : devices that share the tokens of a prompt
    """

    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    attention_data: int = 1
    context: int = 1

    @property
    def stage(self) -> int:
        """Devices of a stage."""
        return self.tensor * self.attention_data * self.context

    @property
    def devices(self) -> int:
        """Devices of the replica."""
        return self.stage * self.pipeline

    @property
    def expert_tensor(self) -> int:
        """Devices that share one expert."""
        return self.stage // self.expert

    @cached_property
    def mesh(self) -> Integers:
        """Devices by stage, attention group, context and tensor rank, numbered from 0."""
        shape = self.pipeline, self.attention_data, self.context, self.tensor
        return np.arange(self.devices).reshape(shape)

    def layers(self, model: Transformer) -> tuple[int, ...]:
        """Return the layers of each stage."""
        return even_layers(model.layers, self.pipeline)


def check_replica(layout: Layout, model: Transformer, devices: int) -> None:
    """Check that a layout divides the model and has its devices.

    Raises
    ------
    PlanError
        with one line for each problem.
    """
    problems = []
    if model.pattern is not None:
        problems.append(
            f"model: layers of a pattern, which '{model.name}' has, are modelled in training only"
            " (clustersim run, or another model)"
        )
    if layout.devices > devices:
        problems.append(
            f"plan: a replica needs {layout.devices} devices, but the cluster has {devices}"
        )
    if model.heads % layout.tensor:
        problems.append(
            f"plan.tensor: {layout.tensor} does not divide the {model.heads} attention heads of"
            f" '{model.name}' (divisors up to 16: {_divisors(model.heads, 16)})"
        )
    if layout.pipeline > model.layers:
        problems.append(
            f"plan.pipeline: {layout.pipeline} stages of {model.layers} layers (at most one each)"
        )
    experts = model.experts
    if layout.expert > 1 and experts is None:
        problems.append(f"plan.expert: '{model.name}' has no experts (leave expert out)")
    elif experts is not None and (layout.stage % layout.expert or experts.count % layout.expert):
        problems.append(
            f"plan.expert: {layout.expert} must divide the {layout.stage} devices of a stage and"
            f" the {experts.count} experts of '{model.name}'"
        )
    if problems:
        raise PlanError("\n".join(problems))


def _divisors(number: int, most: int) -> str:
    return ", ".join(str(n) for n in range(1, min(number, most) + 1) if number % n == 0)
