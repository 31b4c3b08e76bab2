"""How a model is spread over ranks: a mesh of tensor, context, data and pipeline axes.

Ranks count along the tensor axis first, then context, data and pipeline, as Megatron-LM
(``mpu/initialize.py``) and DeepSpeed (``PipeModelDataParallelTopology``) number them:

    rank = ((stage * data + replica) * context + slice) * tensor + part

A cell is the ranks that work on one microbatch of a stage together, tensor times context.  Experts
are shared by ranks of one stage in the same order: first those that share an expert, then those
that hold other experts, then copies of both.
"""

from collections.abc import Callable
from dataclasses import dataclass

from clustersim.errors import PlanError
from clustersim.workload.model import Transformer

AXES = ("tensor", "context", "data", "pipeline")
"""Axes of the mesh, innermost first: those that talk most often stand side by side."""


@dataclass(frozen=True)
class Plan:
    """A layout.

    Attributes
    ----------
    tensor, context, data, pipeline : degrees; their product is the number of ranks
    chunks : model chunks of each stage
    zero : ZeRO stage, 0 to 3
    micro : sequences of a microbatch
    microbatches : microbatches of a replica in one step
    layers : of each virtual stage, in the order of the model; chunk c of stage s is virtual stage
        c * pipeline + s
    sequence_parallel : whether tensor ranks share norms and dropouts by tokens
    context_method : ``ring``, ``all-gather`` or ``ulysses``
    expert, expert_tensor : ranks that share the experts, and those that share one expert; they are
        ranks of one stage, counted in the same order
    shard : ranks that share what ZeRO shards; all that hold the same weights if it is 0
    reshard : whether weights sharded by ZeRO-3 are given up after a layer's forward
    """

    tensor: int
    data: int
    pipeline: int
    chunks: int
    schedule: str
    zero: int
    micro: int
    microbatches: int
    layers: tuple[int, ...]
    context: int = 1
    sequence_parallel: bool = False
    context_method: str = "ring"
    expert: int = 1
    expert_tensor: int = 1
    shard: int = 0
    reshard: bool = True

    @property
    def ranks(self) -> int:
        """Ranks of the whole job."""
        return self.cell * self.data * self.pipeline

    @property
    def cell(self) -> int:
        """Ranks that work on one microbatch of one stage together: tensor times context."""
        return self.tensor * self.context

    @property
    def degrees(self) -> dict[str, int]:
        """Ranks along each axis, in the order in which ranks count, innermost first."""
        return {
            "tensor": self.tensor,
            "context": self.context,
            "data": self.data,
            "pipeline": self.pipeline,
        }

    @property
    def copies(self) -> int:
        """Ranks that hold the same weights outside the experts."""
        return self.context * self.data

    @property
    def expert_copies(self) -> int:
        """Ranks that hold the same weights of experts."""
        return self.cell * self.data // (self.expert * self.expert_tensor)

    @property
    def sharers(self) -> int:
        """Ranks that share what ZeRO shards."""
        return self.shard or self.copies

    def rank(self, stage: int, replica: int, part: int) -> int:
        """Return the rank at a place of the mesh; `part` counts through the cell."""
        return (stage * self.data + replica) * self.cell + part

    def cell_ranks(self, stage: int, replica: int) -> range:
        """Return the ranks that share a microbatch on one stage of one replica."""
        first = self.rank(stage, replica, 0)
        return range(first, first + self.cell)

    def layers_of(self, stage: int, chunk: int) -> range:
        """Return the layers of one chunk of a stage, by their numbers."""
        virtual = chunk * self.pipeline + stage
        first = sum(self.layers[:virtual])
        return range(first, first + self.layers[virtual])


def even_layers(layers: int, parts: int) -> tuple[int, ...]:
    """Return equal shares of the layers for each virtual stage, the later the larger.

    >>> even_layers(10, 4)
    (2, 3, 2, 3)
    """
    return tuple((i + 1) * layers // parts - i * layers // parts for i in range(parts))


def with_ends(layers: int, parts: int) -> tuple[int, ...]:
    """Return equal shares when embedding and logits count as a layer each.

    DeepSpeed, ``PipelineModule``, ``partition_method='type:transformer|embedding'``; Megatron-Core,
    ``account_for_embedding_in_pipeline_split`` and ``account_for_loss_in_pipeline_split``.

    >>> with_ends(70, 12)
    (5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5)
    """
    shares = list(even_layers(layers + 2, parts))
    shares[0] -= 1
    shares[-1] -= 1
    return tuple(shares)


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
        *_sharding(plan, where),
        *_model(plan, model, where),
        *_tensor(plan, model, where),
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


def _sharding(plan: Plan, where: Where) -> list[str]:
    """Refuse sharing out that has no effect."""
    if plan.zero > 1 and plan.copies == 1:
        return [
            f"{where('plan', 'zero')}: {plan.zero} has no effect with data 1, since no other rank"
            " holds the same weights (take zero: 0, or data 2 or more)"
        ]
    if not plan.reshard and plan.zero < 3:
        return [
            f"{where('plan', 'reshard')}: has no effect with zero {plan.zero}, which gathers no"
            " weights (leave it out, or take zero: 3)"
        ]
    return []


def _machine(plan: Plan, devices: int, where: Where) -> list[str]:
    if plan.ranks == devices:
        return []
    named = [f"{axis} {plan.degrees[axis]}" for axis in ("tensor", "pipeline", "data")]
    named += [f"context {plan.context}"] if plan.context > 1 else []
    return [
        f"{where('plan')}: {' x '.join(named)} = {plan.ranks} ranks, but the job has {devices}"
        f" devices ({_fill(plan, devices)})"
    ]


def _fill(plan: Plan, devices: int) -> str:
    data, rest = divmod(devices, plan.cell * plan.pipeline)
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
    elif not plan.layers:
        fitting = [p for p in range(1, model.layers + 1) if model.layers % (p * plan.chunks) == 0]
        problems.append(
            f"{where('plan', 'pipeline')}: {plan.pipeline} stages of {plan.chunks} chunk(s) do not"
            f" divide the {model.layers} layers of '{model.name}' (allowed: {_listed(fitting)};"
            " or plan.layers: with-ends, or a list)"
        )
    else:
        problems += _layers(plan, model, parts, where)
    return problems


def _layers(plan: Plan, model: Transformer, parts: int, where: Where) -> list[str]:
    """Refuse layers that are not those of the model, or a stage without any."""
    here = where("plan", "layers")
    if len(plan.layers) != parts:
        return [f"{here}: {len(plan.layers)} numbers for {parts} stages and chunks"]
    if min(plan.layers) < 1:
        return [f"{here}: leaves a stage without layers: {_listed([*plan.layers])} (at least 1)"]
    if sum(plan.layers) != model.layers:
        return [
            f"{here}: add up to {sum(plan.layers)}, but '{model.name}' has {model.layers} layers"
            f" (with-ends would give {_listed([*with_ends(model.layers, parts)])})"
        ]
    return []


def _tensor(plan: Plan, model: Transformer, where: Where) -> list[str]:
    """Refuse sharing by tokens that has no effect, or that tokens do not allow."""
    if not plan.sequence_parallel:
        return []
    here = where("plan", "sequence_parallel")
    if plan.tensor == 1:
        return [f"{here}: has no effect with tensor 1 (leave it out, or take tensor 2 or more)"]
    tokens = plan.micro * model.sequence
    if tokens % plan.tensor:
        return [f"{here}: tensor {plan.tensor} does not divide the {tokens} tokens of a microbatch"]
    return []


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
