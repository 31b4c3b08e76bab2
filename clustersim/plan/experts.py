"""What a layout with experts must keep to, and what it would have to be instead."""

from clustersim.catalog.frameworks import FrameworkRecord
from clustersim.plan.parallelism import Plan
from clustersim.plan.wording import Where, divisors, listed
from clustersim.workload.model import Transformer


def expert_problems(
    plan: Plan, model: Transformer, framework: FrameworkRecord, where: Where
) -> list[str]:
    """Return in a line each what is wrong about experts: place, value, what is allowed."""
    if model.experts is None:
        return _without(plan, model, where)
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
    return _degrees(plan, model, where)


def _without(plan: Plan, model: Transformer, where: Where) -> list[str]:
    """Refuse degrees that mean nothing in a model without experts."""
    return [
        f"{where('plan', key)}: {degree} has no effect, '{model.name}' has no experts"
        " (leave it out)"
        for key, degree in (("expert", plan.expert), ("expert_tensor", plan.expert_tensor))
        if degree > 1
    ]


def _degrees(plan: Plan, model: Transformer, where: Where) -> list[str]:
    """Refuse degrees that share experts, their columns or the ranks of a stage unevenly."""
    shape, both = model.experts, plan.expert * plan.expert_tensor
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
    if ranks % both:
        allowed = [n for n in divisors(ranks) if shape.count % n == 0]
        return [
            f"{where('plan', 'expert')}: {plan.expert} x expert_tensor {plan.expert_tensor} ="
            f" {both} does not divide the {ranks} ranks of a stage (expert with expert_tensor 1:"
            f" {listed(allowed)})"
        ]
    return []
