"""A job: everything that decides a program, and what follows from it alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from clustersim.catalog.records import FrameworkRecord
from clustersim.plan.parallelism import Plan
from clustersim.plan.placement import Placement
from clustersim.program.collectives.communicator import Communicator, Prescribed
from clustersim.topology.cluster import Cluster
from clustersim.workload.kernels import KernelChoice, Slice
from clustersim.workload.memory import rank_parameters
from clustersim.workload.model import Transformer


@dataclass(frozen=True)
class Job:
    """Everything that decides a program: what is trained, how, and on what.

    Attributes
    ----------
    placement : ranks on devices
    precision : of the matrix products, ``fp16`` or ``bf16``
    recompute : ``none`` or ``full``
    algorithms : of collectives, by operation, where the scenario prescribes them
    """

    cluster: Cluster
    model: Transformer
    plan: Plan
    placement: Placement
    framework: FrameworkRecord
    precision: str
    recompute: str
    algorithms: Mapping[str, Prescribed] = field(default_factory=dict)

    def communicator(self, groups: Sequence[Sequence[int]]) -> Communicator:
        """Return the communicator of groups of devices that work side by side."""
        return Communicator(self.cluster, groups, self.algorithms)

    @cached_property
    def part(self) -> Slice:
        """What one tensor rank computes on for one microbatch."""
        facts = self.framework.kernels
        choice = KernelChoice(
            attention=facts.attention.value,
            bias_gelu_fused=facts.bias_gelu_fused.value,
            bias_dropout_fused=facts.bias_dropout_fused.value,
            gradient_accumulation=facts.gradient_accumulation.value,
            loss_forward=facts.loss_forward.value,
            loss_backward=facts.loss_backward.value,
        )
        return Slice(self.model, self.plan.micro, self.plan.tensor, choice)

    def ends(self, stage: int, chunk: int) -> tuple[bool, bool]:
        """Return whether a chunk holds the embedding, and whether it holds the logits."""
        plan = self.plan
        virtual = chunk * plan.pipeline + stage
        return virtual == 0, virtual == plan.pipeline * plan.chunks - 1

    def parameters(self, stage: int) -> float:
        """Return the parameters that one rank of a stage holds."""
        plan = self.plan
        layers = sum(plan.layers_of(self.model, stage, chunk) for chunk in range(plan.chunks))
        first, last = stage == 0, stage == plan.pipeline - 1
        return rank_parameters(self.model, plan.tensor, layers, first=first, last=last)

    @property
    def overlapped(self) -> bool:
        """Whether gradients are reduced beside the last backward."""
        when = self.framework.gradients.overlap.value
        return when == "always" or (when == "without-pipeline" and self.plan.pipeline == 1)
