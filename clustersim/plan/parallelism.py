"""How a model is spread over ranks: a mesh of tensor, data and pipeline axes.

Ranks count along the tensor axis first, then data, then pipeline, as Megatron-LM
(``mpu/initialize.py``) and DeepSpeed (``PipeModelDataParallelTopology``) number them:

    rank = (stage * data + replica) * tensor + part
"""

from collections.abc import Callable
from dataclasses import dataclass

from clustersim.errors import PlanError
from clustersim.workload.model import Transformer

AXES = ("tensor", "context", "expert", "data", "pipeline")
"""Axes of parallelism, innermost first: those that talk most often stand side by side."""


@dataclass(frozen=True)
class Plan:
    """A layout.

    Attributes
    ----------
    tensor, data, pipeline : degrees; their product is the number of ranks
    chunks : model chunks of each stage
    zero : ZeRO stage, 0 or 1
    micro : sequences of a microbatch
    microbatches : microbatches of a replica in one step
    """

    tensor: int
    data: int
    pipeline: int
    chunks: int
    schedule: str
    zero: int
    micro: int
    microbatches: int

    @property
    def ranks(self) -> int:
        """Ranks of the whole job."""
        return self.tensor * self.data * self.pipeline

    @property
    def degrees(self) -> dict[str, int]:
        """Ranks along each axis, in the order in which ranks count, innermost first."""
        return {"tensor": self.tensor, "data": self.data, "pipeline": self.pipeline}

    def rank(self, stage: int, replica: int, part: int) -> int:
        """Return the rank at a place of the mesh."""
        return (stage * self.data + replica) * self.tensor + part

    def tensor_group(self, stage: int, replica: int) -> range:
        """Return the ranks that share the layers of one stage of one replica."""
        first = self.rank(stage, replica, 0)
        return range(first, first + self.tensor)

    def data_group(self, stage: int, part: int) -> range:
        """Return the ranks that hold the same weights."""
        first = self.rank(stage, 0, part)
        return range(first, first + self.data * self.tensor, self.tensor)

    def layers_of(self, model: Transformer, stage: int, chunk: int) -> int:
        """Return how many blocks one chunk of a stage holds: equal shares, early chunks first."""
        parts = self.pipeline * self.chunks
        virtual = chunk * self.pipeline + stage
        return (virtual + 1) * model.layers // parts - virtual * model.layers // parts


Where = Callable[..., str]
"""From a key path to ``file:line: key``, to begin a complaint with."""


def check_plan(
    plan: Plan, model: Transformer, sequences: int, devices: int, allowed_zero: list[int],
    allowed_schedules: list[str], where: Where,
) -> None:  # fmt: skip
    """Refuse a layout that does not fit its model, its batch, its machine or its framework.

    Raises
    ------
    PlanError
        in one line: place, key, value, what is allowed. Only the first problem is told, the model's
        before the machine's before the batch's: one wrong degree makes the others wrong as well.
    """
    problems = [
        *_offered(plan, allowed_zero, allowed_schedules, where),
        *_model(plan, model, where),
        *_machine(plan, devices, where),
        *_batch(plan, sequences, where),
        *_schedule(plan, where),
    ]
    if problems:
        raise PlanError(problems[0])


def _offered(plan: Plan, zero: list[int], schedules: list[str], where: Where) -> list[str]:
    problems = []
    if plan.zero not in zero:
        problems.append(
            f"{where('plan', 'zero')}: {plan.zero} is not offered by the framework"
            f" (it offers {_listed(zero)})"
        )
    if plan.schedule not in schedules:
        problems.append(
            f"{where('plan', 'schedule')}: '{plan.schedule}' is not offered by the framework"
            f" (it offers {_listed(schedules)})"
        )
    return problems


def _machine(plan: Plan, devices: int, where: Where) -> list[str]:
    if plan.ranks == devices:
        return []
    return [
        f"{where('plan')}: tensor {plan.tensor} x pipeline {plan.pipeline} x data {plan.data}"
        f" = {plan.ranks} ranks, but the job has {devices} devices"
        f" ({_fill(plan, devices)})"
    ]


def _fill(plan: Plan, devices: int) -> str:
    data, rest = divmod(devices, plan.tensor * plan.pipeline)
    if rest == 0 and data > 0:
        return f"data {data} would fill them"
    return "change the degrees or cluster.nodes so that both are equal"


def _model(plan: Plan, model: Transformer, where: Where) -> list[str]:
    problems = []
    for count, what in ((model.heads, "attention heads"), (model.ffn, "ffn columns")):
        if count % plan.tensor:
            allowed = [t for t in range(1, 2 * plan.tensor + 1) if count % t == 0]
            problems.append(
                f"{where('plan', 'tensor')}: {plan.tensor} does not divide the {count} {what}"
                f" of '{model.name}' (divisors up to {2 * plan.tensor}: {_listed(allowed)})"
            )
    parts = plan.pipeline * plan.chunks
    if parts > model.layers:
        problems.append(
            f"{where('plan', 'pipeline')}: {parts} stages and chunks for the {model.layers} layers"
            f" of '{model.name}' (at most one for each layer)"
        )
    elif model.layers % parts:
        fitting = [p for p in range(1, model.layers + 1) if model.layers % (p * plan.chunks) == 0]
        problems.append(
            f"{where('plan', 'pipeline')}: {plan.pipeline} stages of {plan.chunks} chunk(s) do not"
            f" divide the {model.layers} layers of '{model.name}' (allowed: {_listed(fitting)})"
        )
    return problems


def _batch(plan: Plan, sequences: int, where: Where) -> list[str]:
    share = plan.data * plan.micro
    if sequences % share == 0:
        return []
    below = sequences // share * share
    near = [n for n in (below, below + share) if n > 0]
    return [
        f"{where('batch', 'global')}: {sequences} is not a multiple of data {plan.data}"
        f" x micro {plan.micro} = {share} (nearest: {_listed(near)})"
    ]


def _schedule(plan: Plan, where: Where) -> list[str]:
    problems = []
    if plan.chunks > 1 and plan.schedule != "interleaved-1f1b":
        problems.append(
            f"{where('plan', 'chunks')}: {plan.chunks} has no effect with schedule"
            f" '{plan.schedule}' (use schedule: interleaved-1f1b)"
        )
    if plan.schedule == "interleaved-1f1b":
        if plan.pipeline == 1 or plan.chunks == 1:
            problems.append(
                f"{where('plan', 'schedule')}: interleaved-1f1b needs pipeline and chunks of at"
                f" least 2 (pipeline is {plan.pipeline}, chunks is {plan.chunks})"
            )
        elif plan.microbatches % plan.pipeline:
            problems.append(
                f"{where('plan', 'schedule')}: interleaved-1f1b needs the {plan.microbatches}"
                f" microbatches of a replica to be a multiple of pipeline {plan.pipeline}"
            )
    return problems


def _listed(values: list[int] | list[str]) -> str:
    return ", ".join(str(value) for value in values)
