"""How the tokens of a scenario spread over the experts of its layers."""

from collections.abc import Sequence

from clustersim.errors import PlanError
from clustersim.plan.parallelism import Plan
from clustersim.plan.placement import Placement
from clustersim.scenario.load import Loaded
from clustersim.workload.model import Transformer
from clustersim.workload.routing import (
    BALANCED,
    Routing,
    nodes_of_token,
    route,
    task_shares,
    zipf_shares,
)


def routing_of(loaded: Loaded, model: Transformer, placement: Placement) -> Routing:
    """Return what ranks get of the tokens of a layer with experts."""
    said, shape, plan = loaded.scenario.experts, model.experts, placement.plan
    if shape is None:
        if said is not None:
            raise PlanError(
                f"{loaded.where('experts')}: has no effect, '{model.name}' has no experts"
                " (leave it out)"
            )
        return BALANCED
    sent, facts = None, loaded.scenario.framework.experts
    if facts is not None and facts.once_per_node.value:
        devices = loaded.scenario.cluster.node.devices.value
        nodes = [{d // devices for d in group} for group in placement.expert_groups(0)]
        sent = nodes_of_token(shape, max(map(len, nodes)))
    shares = _shares(loaded, model, plan)
    return route(shares, plan.expert, shape.capacity, sent)


def _shares(loaded: Loaded, model: Transformer, plan: Plan) -> list[float]:
    """Return the shares of the experts in the tokens."""
    said, shape = loaded.scenario.experts, model.experts
    assert shape is not None
    if said is None or said.load == "balanced":
        return [1.0] * shape.count
    if said.load == "zipf":
        return zipf_shares(shape.count, said.exponent, plan.expert)
    if said.load == "histogram":
        if len(said.histogram) != shape.count:
            raise PlanError(
                f"{loaded.where('experts', 'histogram')}: {len(said.histogram)} numbers for the"
                f" {shape.count} experts of '{model.name}' (one each)"
            )
        return said.histogram
    return _of_tasks(loaded, said.tasks, model, plan)


def _of_tasks(
    loaded: Loaded, tasks: Sequence[float], model: Transformer, plan: Plan
) -> list[float]:
    """Return the sequences of each expert where a sequence goes to the expert of its task."""
    shape = model.experts
    assert shape is not None
    if len(tasks) > shape.count:
        raise PlanError(
            f"{loaded.where('experts', 'tasks')}: {len(tasks)} tasks for the {shape.count} experts"
            f" of '{model.name}' (at most one each)"
        )
    if shape.top_k != 1:
        raise PlanError(
            f"{loaded.where('experts', 'load')}: 'task-gate' sends a token to one expert, but"
            f" '{model.name}' to {shape.top_k} (set model.experts.top_k to 1)"
        )
    ranks = plan.expert * plan.expert_tensor
    sequences = max(1, plan.micro * ranks // plan.cell)
    return task_shares(tasks, shape.count, sequences)
