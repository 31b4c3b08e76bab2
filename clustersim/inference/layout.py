"""How a replica of a served model is divided over devices.

    devices of a stage = tensor x attention-data

Attention is split over `tensor` devices, and `attention_data` groups of them serve sequences of
their own.  All devices of a stage share the experts: `expert` of them hold different ones, and the
others split each expert.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate, pairwise

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
    if layout.context > 1 and model.latent is not None and model.latent.indexer is not None:
        problems.append("plan.context: is not modelled with an indexer (leave it out)")
    problems += _mamba_problems(layout, model)
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


def _mamba_problems(layout: Layout, model: Transformer) -> Iterator[str]:
    """Yield why a layout does not divide layers with states, or has stages without attention."""
    shape = model.mamba
    if shape is not None and shape.heads % layout.tensor:
        yield (
            f"plan.tensor: {layout.tensor} does not divide the {shape.heads} {shape.kind} heads of"
            f" '{model.name}' (divisors up to 16: {_divisors(shape.heads, 16)})"
        )
    if shape is not None and layout.context > 1:
        yield f"plan.context: is not modelled for layers of {shape.kind} (leave it out)"
    if model.pattern is not None and layout.pipeline <= model.layers:
        ends = accumulate(layout.layers(model), initial=0)
        stages = (model.stack[first:last] for first, last in pairwise(ends))
        if any(all(layer.mixer != "attention" for layer in stage) for stage in stages):
            yield (
                f"plan.pipeline: one of {layout.pipeline} stages of '{model.name}' has no layer"
                " with attention, which is not modelled (fewer stages)"
            )


def _divisors(number: int, most: int) -> str:
    return ", ".join(str(n) for n in range(1, min(number, most) + 1) if number % n == 0)
