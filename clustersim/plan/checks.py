"""What a layout must keep to: its model, its machine, its batch and its framework.

Each complaint is one line: place, key, value, what is allowed, and the nearest layout that works.
"""

from clustersim.catalog.frameworks import FrameworkRecord
from clustersim.errors import PlanError
from clustersim.plan.context import context_problems
from clustersim.plan.experts import expert_problems
from clustersim.plan.parallelism import Plan, with_ends
from clustersim.plan.wording import Where, divisors, listed
from clustersim.workload.model import Transformer


def check_plan(
    plan: Plan, model: Transformer, sequences: int, devices: int, framework: FrameworkRecord,
    where: Where,
) -> None:  # fmt: skip
    """Refuse a layout that does not fit its model, its batch, its machine or its framework.

    Raises
    ------
    PlanError
        in one line: place, key, value, what is allowed. Only the first problem is told, the model's
        before the machine's before the batch's: one wrong degree makes the others wrong as well.
    """
    problems = [
        *_offered(plan, framework.zero.value, where),
        *_sharding(plan, model, where),
        *_model(plan, model, where),
        *_tensor(plan, model, where),
        *context_problems(plan, model, framework, where),
        *_machine(plan, devices, where),
        *expert_problems(plan, model, framework, where),
        *_batch(plan, sequences, where),
    ]
    if problems:
        raise PlanError(problems[0])


def _offered(plan: Plan, zero: list[int], where: Where) -> list[str]:
    if plan.zero in zero:
        return []
    return [
        f"{where('plan', 'zero')}: {plan.zero} is not offered by the framework"
        f" (it offers {listed(zero)})"
    ]


def _sharding(plan: Plan, model: Transformer, where: Where) -> list[str]:
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
    return _hybrid(plan, model, where) if plan.shard else []


def _hybrid(plan: Plan, model: Transformer, where: Where) -> list[str]:
    """Refuse shards that mean nothing, or of which there would not be whole copies."""
    here = f"{where('plan', 'shard')}: {plan.shard}"
    if plan.zero < 3:
        return [f"{here} has no effect with zero {plan.zero} (take zero: 3, or leave it out)"]
    if plan.copies % plan.shard:
        return [
            f"{here} does not divide the {plan.copies} ranks that hold the same weights"
            f" (divisors: {listed(divisors(plan.copies))})"
        ]
    if model.experts is not None:
        return [f"{here}: experts are sharded over all that hold them (leave it out)"]
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
            allowed = [t for t in divisors(count) if t <= 2 * plan.tensor]
            problems.append(
                f"{where('plan', 'tensor')}: {plan.tensor} does not divide the {count} {what}"
                f" of '{model.name}' (divisors up to {2 * plan.tensor}: {listed(allowed)})"
            )
    parts = plan.wired.parts
    if parts > model.layers and (not plan.layers or min(plan.layers) < 0):
        problems.append(
            f"{where('plan', 'pipeline')}: {parts} stages and chunks for the {model.layers} layers"
            f" of '{model.name}' (at most one for each layer)"
        )
    elif not plan.layers:
        each = parts // plan.pipeline
        fitting = [p for p in range(1, model.layers + 1) if model.layers % (p * each) == 0]
        problems.append(
            f"{where('plan', 'pipeline')}: {plan.pipeline} stages of {plan.chunks} chunk(s) do not"
            f" divide the {model.layers} layers of '{model.name}' (allowed: {listed(fitting)};"
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
    if 0 in plan.layers[1:-1]:
        place = plan.layers.index(0, 1)
        return [
            f"{here}: leaves stage or chunk {place} of {parts} empty (at least 1 layer, or 0 in the"
            " first and the last, which hold embedding and logits)"
        ]
    if sum(plan.layers) != model.layers:
        return [
            f"{here}: add up to {sum(plan.layers)}, but '{model.name}' has {model.layers} layers"
            f" (with-ends would give {listed([*with_ends(model.layers, parts)])})"
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
        f" x micro {plan.micro} = {share} (nearest: {listed(near)})"
    ]
