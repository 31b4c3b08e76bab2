"""What a layout must keep to: its model, its machine, its batch and its framework.

Each problem is one line: place, key, value, what is allowed, and the nearest layout that works.
"""

import math
from collections.abc import Callable, Iterable, Sequence

from clustersim.catalog.records.frameworks import FrameworkRecord
from clustersim.catalog.records.models import MambaShape
from clustersim.plan.parallelism import AXES, Plan, with_ends
from clustersim.workload.model import Transformer

Where = Callable[..., str]
"""From a key path to ``file:line: key``, with which a message begins."""


def listed(values: Iterable[object]) -> str:
    """Return values with commas between them."""
    return ", ".join(map(str, values))


def divisors(number: int) -> list[int]:
    """Return all divisors of a number, from 1 to itself.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def plan_problems(
    plan: Plan, model: Transformer, sequences: int, devices: int, framework: FrameworkRecord,
    where: Where,
) -> list[str]:  # fmt: skip
    """Return why a layout does not fit its model, its batch, its machine or its framework."""
    return [
        *_offered(plan, framework, where),
        *_sharding(plan, model, where),
        *_model(plan, model, where),
        *_tensor(plan, model, where),
        *_context(plan, model, framework, where),
        *_machine(plan, devices, where),
        *_experts(plan, model, framework, where),
        *_batch(plan, sequences, where),
    ]


def placement_problems(
    plan: Plan, order: Sequence[str], devices: Sequence[int] | None, where: Where
) -> list[str]:
    """Return why ranks would lack a device or share one, as far as the layout alone shows."""
    if devices is not None:
        return _device_list(devices, plan.ranks, where)
    needed = [axis for axis in AXES if plan.degrees[axis] > 1]
    return [
        f"{where('plan', 'placement', 'order')}: leaves out {axis}, of degree {plan.degrees[axis]}"
        f" (name every axis of degree above 1: {listed(needed)})"
        for axis in needed
        if axis not in order
    ]


def _device_list(devices: Sequence[int], ranks: int, where: Where) -> list[str]:
    """Check that a list is a permutation of the devices of the job."""
    key, problems = ("plan", "placement", "devices"), []
    rank_of: dict[int, int] = {}
    for rank, device in enumerate(devices):
        if device >= ranks:
            problems.append(
                f"{where(*key, rank)}: {device} is no device of the job (it has 0 to {ranks - 1})"
            )
        elif device in rank_of:
            problems.append(
                f"{where(*key, rank)}: device {device} is already that of rank"
                f" {rank_of[device]} (each device runs one rank)"
            )
        rank_of.setdefault(device, rank)
    if not problems and len(devices) < ranks:
        missing = next(device for device in range(ranks) if device not in rank_of)
        problems.append(
            f"{where(*key)}: has {len(devices)} of the job's {ranks} devices; the first that is"
            f" missing is {missing}"
        )
    return problems


def _offered(plan: Plan, framework: FrameworkRecord, where: Where) -> list[str]:
    """Check the ZeRO stage and the axes that a framework has."""
    problems = [
        f"{where('plan', axis)}: {degree} is not offered by '{framework.name}', which divides"
        f" models over {listed(['data', *framework.axes])} (take {axis}: 1, or another framework;"
        " framework.axes states what code of your own adds)"
        for axis, degree in (("tensor", plan.tensor), ("pipeline", plan.pipeline))
        if degree > 1 and axis not in framework.axes
    ]
    if plan.zero not in framework.zero:
        problems.append(
            f"{where('plan', 'zero')}: {plan.zero} is not offered by the framework"
            f" (it offers {listed(framework.zero)})"
        )
    return problems


def _sharding(plan: Plan, model: Transformer, where: Where) -> list[str]:
    """Check sharding that has no effect."""
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
    """Check shards on some of the ranks that hold the same weights."""
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
    ranks = f"{plan.ranks} rank{'' if plan.ranks == 1 else 's'}"
    return [
        f"{where('plan')}: {' x '.join(named)} = {ranks}, but the job has {devices}"
        f" devices ({_fill(plan, devices)})"
    ]


def _fill(plan: Plan, devices: int) -> str:
    data, rest = divmod(devices, plan.cell * plan.pipeline)
    if rest == 0 and data > 0:
        return f"data {data} would fill them"
    return "change the degrees, cluster.nodes or cluster.node.devices so that both are equal"


def _model(plan: Plan, model: Transformer, where: Where) -> list[str]:
    problems = []
    counts = {"attention heads": model.heads, "ffn columns": model.ffn}
    counts |= {f"{model.mamba.kind} groups": model.mamba.groups} if model.mamba else {}
    uneven = [f"{count} {what}" for what, count in counts.items() if count % plan.tensor]
    if uneven:
        allowed = [t for t in divisors(math.gcd(*counts.values())) if t <= 2 * plan.tensor]
        problems.append(
            f"{where('plan', 'tensor')}: {plan.tensor} does not divide the {' and '.join(uneven)}"
            f" of '{model.name}' (divisors up to {2 * plan.tensor}: {listed(allowed)})"
        )
    parts, noun = plan.wired.virtual_stages, _noun(plan)
    if parts > model.layers and (not plan.layers or min(plan.layers) < 0):
        problems.append(
            f"{where('plan', 'pipeline')}: {parts} {noun}s for the {model.layers} layers"
            f" of '{model.name}' (at most one for each layer)"
        )
    elif not plan.layers:
        chunks = parts // plan.pipeline
        fitting = [p for p in range(1, model.layers + 1) if model.layers % (p * chunks) == 0]
        known = listed(fitting) or "none"
        problems.append(
            f"{where('plan', 'pipeline')}: {_stages(plan)} cannot share the {model.layers} layers"
            f" of '{model.name}' equally (allowed: {known}; or plan.layers: with-ends, or a list)"
        )
    else:
        problems += _layers(plan, model, parts, where)
    return problems


def _noun(plan: Plan) -> str:
    """Return the word for one share of the layers."""
    return "stage" if plan.chunks == 1 else "virtual stage"


def _stages(plan: Plan) -> str:
    """Return the stages of a plan in words, with their chunks where there are several."""
    stages = f"{plan.pipeline} stage{'' if plan.pipeline == 1 else 's'}"
    return stages if plan.chunks == 1 else f"{stages} of {plan.chunks} chunks"


def _layers(plan: Plan, model: Transformer, parts: int, where: Where) -> list[str]:
    """Check a list of layers: those of the model, and some on each stage."""
    here = where("plan", "layers")
    if len(plan.layers) != parts:
        return [f"{here}: {len(plan.layers)} numbers for {parts} {_noun(plan)}s"]
    if 0 in plan.layers[1:-1]:
        index = plan.layers.index(0, 1)
        return [
            f"{here}: leaves {_noun(plan)} {index} of {parts} without layers (at least 1, or 0 in"
            " the first and the last, which hold embedding and logits)"
        ]
    if sum(plan.layers) != model.layers:
        return [
            f"{here}: add up to {sum(plan.layers)}, but '{model.name}' has {model.layers} layers"
            f" (with-ends would give {listed([*with_ends(model.layers, parts)])})"
        ]
    return []


def _tensor(plan: Plan, model: Transformer, where: Where) -> list[str]:
    """Check norms and dropouts that are shared by tokens."""
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


# --- shared sequences and experts -----------------------------------------------------------------


def _context(plan: Plan, model: Transformer, framework: FrameworkRecord, where: Where) -> list[str]:
    """Check ranks that share sequences."""
    here = where("plan", "context")
    if plan.context == 1:
        return []
    offered = [] if framework.context is None else framework.context
    if plan.context_method not in offered:
        methods = f"it offers {listed(offered)}" if offered else "it shares no sequences"
        return [
            f"{where('plan', 'context_method')}: '{plan.context_method}' is not offered by"
            f" '{framework.name}' ({methods})"
        ]
    if framework.kernels.attention != "flash":
        return [f"{here}: {plan.context} needs flash attention, which '{framework.name}' lacks"]
    pieces = plan.context if plan.context_method == "ulysses" else 2 * plan.context
    if model.sequence % pieces:
        return [
            f"{here}: {plan.context} needs sequences of a multiple of {pieces} tokens, not"
            f" {model.sequence} (nearest: {model.sequence // pieces * pieces or pieces})"
        ]
    if model.mamba and (problem := _scanned(plan, model.mamba)):
        return [f"{here}: {plan.context} {problem} of '{model.name}'"]
    if plan.context_method == "ulysses" and model.heads // plan.tensor % plan.context:
        return [
            f"{here}: {plan.context} does not divide the {model.heads // plan.tensor} heads of a"
            f" tensor rank (context x tensor divides {model.heads}; or context_method: ring)"
        ]
    return []


def _scanned(plan: Plan, shape: MambaShape) -> str:
    """Return why context ranks cannot share the heads that a tensor rank scans, if they cannot."""
    heads, groups = shape.heads // plan.tensor, shape.groups // plan.tensor
    if heads % plan.context:
        return f"does not divide the {heads} {shape.kind} heads of a tensor rank"
    if groups % plan.context and plan.context % groups:
        of_rank = f"the {groups} {shape.kind} groups of a tensor rank"
        return f"neither divides nor is a multiple of {of_rank}"
    return ""


def _experts(plan: Plan, model: Transformer, framework: FrameworkRecord, where: Where) -> list[str]:
    """Check ranks that share experts."""
    if model.experts is None:
        return _without_experts(plan, model, where)
    if framework.experts is None:
        return [
            f"{where('model')}: '{model.name}' has experts, which '{framework.name}' does not run"
            " (take a framework with `experts`, such as megatron-core)"
        ]
    if plan.tensor > 1 and not plan.sequence_parallel:
        return [
            f"{where('plan', 'sequence_parallel')}: tensor ranks with experts share out the tokens"
            f" (set it to true, or tensor {plan.tensor} to 1)"
        ]
    return _expert_degrees(plan, model, where)


def _without_experts(plan: Plan, model: Transformer, where: Where) -> list[str]:
    """Check degrees that have no effect in a model without experts."""
    return [
        f"{where('plan', key)}: {degree} has no effect, '{model.name}' has no experts"
        " (leave it out)"
        for key, degree in (("expert", plan.expert), ("expert_tensor", plan.expert_tensor))
        if degree > 1
    ]


def _expert_degrees(plan: Plan, model: Transformer, where: Where) -> list[str]:
    """Check degrees that share experts, their columns or the ranks of a stage unevenly."""
    shape, degree = model.experts, plan.expert * plan.expert_tensor
    assert shape is not None
    if shape.count % plan.expert:
        return [
            f"{where('plan', 'expert')}: {plan.expert} does not divide the {shape.count} experts of"
            f" '{model.name}' (divisors: {listed(divisors(shape.count))})"
        ]
    if shape.ffn % plan.expert_tensor:
        return [
            f"{where('plan', 'expert_tensor')}: {plan.expert_tensor} does not divide the"
            f" {shape.ffn} columns of an expert of '{model.name}' (a power of two often does)"
        ]
    ranks = plan.cell * plan.data
    if ranks % degree:
        allowed = [n for n in divisors(ranks) if shape.count % n == 0]
        return [
            f"{where('plan', 'expert')}: {plan.expert} x expert_tensor {plan.expert_tensor} ="
            f" {degree} does not divide the {ranks} ranks of a stage (expert with expert_tensor 1:"
            f" {listed(allowed)})"
        ]
    return []
