"""What a layout whose ranks share sequences must keep to."""

from clustersim.catalog.frameworks import FrameworkRecord
from clustersim.plan.parallelism import Plan
from clustersim.plan.wording import Where, listed
from clustersim.workload.model import Transformer


def context_problems(
    plan: Plan, model: Transformer, framework: FrameworkRecord, where: Where
) -> list[str]:
    """Return in a line each what is wrong about shared sequences: place, value, what is allowed."""
    here = where("plan", "context")
    if plan.context == 1:
        return []
    offered = [] if framework.context is None else framework.context.value
    if plan.context_method not in offered:
        methods = f"it offers {listed(offered)}" if offered else "it shares no sequences"
        return [
            f"{where('plan', 'context_method')}: '{plan.context_method}' is not offered by"
            f" '{framework.name}' ({methods})"
        ]
    if framework.kernels.attention.value != "flash":
        return [f"{here}: {plan.context} needs flash attention, which '{framework.name}' lacks"]
    pieces = plan.context if plan.context_method == "ulysses" else 2 * plan.context
    if model.sequence % pieces:
        return [
            f"{here}: {plan.context} needs sequences of a multiple of {pieces} tokens, not"
            f" {model.sequence} (nearest: {model.sequence // pieces * pieces or pieces})"
        ]
    if plan.context_method == "ulysses" and model.heads // plan.tensor % plan.context:
        return [
            f"{here}: {plan.context} does not divide the {model.heads // plan.tensor} heads of a"
            f" tensor rank (context x tensor divides {model.heads}; or context_method: ring)"
        ]
    return []
