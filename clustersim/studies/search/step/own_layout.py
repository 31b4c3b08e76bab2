"""The scenario's own layout among those that are searched, which is replayed before all others."""

from typing import NamedTuple

from clustersim.program.schedules import SCHEDULES
from clustersim.scenario.load import Loaded
from clustersim.simulation.step.build import recompute_of
from clustersim.studies.search.step.layout_rules import LayoutRules
from clustersim.studies.search.step.lower_bound.layout_values import Cell, Mesh, Shape, Sharding
from clustersim.studies.search.step.space import StageLayouts


class OwnLayout(NamedTuple):
    """The places of its shape and its column among the layouts with as many stages."""

    shape: int
    column: int


def own_layout(loaded: Loaded, layouts: StageLayouts, rules: LayoutRules) -> OwnLayout | None:
    """Return the layout of a scenario, or one that runs alike; None where there is neither."""
    column = None
    if layouts.stages == loaded.scenario.plan.pipeline:
        column = _column_place(loaded, layouts)
    if column is None:
        return None
    own = _shape(loaded)
    for place, (shape, allowed) in enumerate(zip(layouts.shapes, layouts.allowed, strict=True)):
        if allowed[column] and rules.alike(shape, own, layouts.stages):
            return OwnLayout(place, column)
    return None


def _column_place(loaded: Loaded, layouts: StageLayouts) -> int | None:
    """Return the place of the scenario's ranks, microbatch and sharding among columns."""
    plan, batch = loaded.scenario.plan, loaded.scenario.batch
    mesh = Mesh(
        *(plan.tensor, plan.context, plan.data, plan.pipeline),
        expert=plan.expert,
        expert_tensor=plan.expert_tensor,
    )
    order = tuple(axis for axis in plan.placement.order if mesh.degrees[axis] > 1)
    sharding = Sharding(plan.zero, 0 if plan.shard == plan.context * plan.data else plan.shard)
    for place, (cell, other) in enumerate(layouts.columns):
        method = cell.mesh.context_method
        if plan.context > 1 and method != plan.context_method:
            continue
        same = mesh._replace(context_method=method, order=cell.mesh.order and order)
        if other == sharding and cell == Cell(same, batch.micro, plan.sequence_parallel):
            return place
    return None


def _shape(loaded: Loaded) -> Shape:
    """Return the schedule, the division of the layers and the recomputation of a scenario."""
    plan = loaded.scenario.plan
    least = SCHEDULES[plan.schedule].chunks[0] if plan.schedule in SCHEDULES else 1
    layers = plan.layers if isinstance(plan.layers, str) else tuple(plan.layers)
    recompute = recompute_of(loaded.scenario.recompute)
    return Shape(plan.schedule, plan.chunks or least, layers, recompute)
