"""All problems of a scenario together: what its values exclude before anything is built.

Each problem is one line: place, value, what is allowed.  One wrong value often causes several.
"""

from collections.abc import Iterator
from typing import Final

from clustersim.errors import PlanError
from clustersim.plan.checks import listed, placement_problems, plan_problems
from clustersim.plan.parallelism import Plan
from clustersim.program.schedules import SCHEDULES, Schedule
from clustersim.scenario.disturbances import unfolds
from clustersim.scenario.load import Loaded
from clustersim.suggestions import nearest
from clustersim.workload.model import Transformer
from clustersim.workload.optimisers import OPTIMISERS
from clustersim.workload.slice import PRECISIONS

MOST_BLOCKS: Final = 20_000_000
"""Blocks of one replica that are replayed at most: a hundred times a trillion-parameter step."""


def check_layout(loaded: Loaded, schedule: Schedule, layout: Plan, model: Transformer) -> None:
    """Check the layout of a scenario against its machine, model, batch, framework and schedule.

    Raises
    ------
    PlanError
        one line for each problem.
    """
    scenario = loaded.scenario
    problems = [
        *_sizes(loaded, layout),
        *scenario_problems(loaded, model),
        *_schedule(loaded, layout, schedule),
        *plan_problems(
            layout,
            model,
            scenario.batch.global_,
            scenario.devices,
            scenario.framework,
            loaded.where,
        ),
        *_context(loaded, layout),
        *_recompute(loaded),
        *_lengths(loaded),
        *_offload(loaded, layout),
        *_graphs(loaded),
        *_placement(loaded, layout),
    ]
    if problems:
        raise PlanError("\n".join(dict.fromkeys(problems)))


def scenario_problems(loaded: Loaded, model: Transformer) -> list[str]:
    """Return what is wrong with a scenario whatever its layout is."""
    return [*_precision(loaded), *_optimiser(loaded), *_finetune(loaded), *_routing(loaded, model)]


def _sizes(loaded: Loaded, layout: Plan) -> Iterator[str]:
    """Check the number of nodes, and of blocks to be replayed."""
    scenario = loaded.scenario
    if scenario.cluster.nodes > scenario.cluster.size:
        yield (
            f"{loaded.where('cluster', 'nodes')}: {scenario.cluster.nodes} nodes, but"
            f" '{scenario.cluster.name}' has {scenario.cluster.size}"
        )
    blocks = 2 * layout.microbatches * layout.pipeline * layout.chunks
    replicas = 1 if scenario.fold else layout.data * layout.context
    if blocks <= MOST_BLOCKS < blocks * replicas:
        yield (
            f"{loaded.where('fold')}: {blocks * replicas:,} blocks of all replicas, more than the"
            f" {MOST_BLOCKS:,} that are replayed (fold: true replays equal replicas once)"
        )
    elif blocks <= MOST_BLOCKS < blocks * layout.data and any(map(unfolds, scenario.disturbances)):
        yield (
            f"{loaded.where('disturbances')}: {blocks * layout.data:,} blocks of replicas that all"
            f" differ, more than the {MOST_BLOCKS:,} that are replayed (concern fewer devices, or"
            " have fewer microbatches)"
        )
    if blocks > MOST_BLOCKS:
        yield (
            f"{loaded.where('batch', 'global')}: {scenario.batch.global_:,} makes {blocks:,} blocks"
            f" a replica, more than the {MOST_BLOCKS:,} that are replayed (a step has fewer)"
        )


def _precision(loaded: Loaded) -> Iterator[str]:
    scenario, states = loaded.scenario, loaded.scenario.framework.state
    if scenario.precision not in states:
        yield (
            f"{loaded.where('precision')}: '{scenario.framework.name}' does not define optimiser"
            f" states for '{scenario.precision}' (it does for {listed(states) or 'none'})"
        )
    chip, peak = scenario.cluster.node.accelerator, PRECISIONS[scenario.precision].peak
    if peak not in chip.peak:
        able = [n for n, form in PRECISIONS.items() if n in states and form.peak in chip.peak]
        yield (
            f"{loaded.where('precision')}: '{chip.name}' does not multiply in {peak}, which"
            f" '{scenario.precision}' needs (with '{scenario.framework.name}':"
            f" {listed(able) or 'none'})"
        )


def _optimiser(loaded: Loaded) -> Iterator[str]:
    """Check that matrices that are orthogonalised are whole, and on the devices."""
    scenario, offload = loaded.scenario, loaded.scenario.offload
    if not OPTIMISERS[scenario.optimiser].iterations:
        return
    if scenario.finetune is not None and scenario.finetune.method != "full":
        yield (
            f"{loaded.where('optimiser')}: '{scenario.optimiser}' is not modelled for adapters"
            " (adamw, or finetune.method: full)"
        )
    if offload.optimiser or offload.parameters:
        yield (
            f"{loaded.where('optimiser')}: '{scenario.optimiser}' is not modelled on the host"
            " (adamw, or no offload of optimiser and parameters)"
        )


def _finetune(loaded: Loaded) -> Iterator[str]:
    finetune, model = loaded.scenario.finetune, loaded.scenario.model
    shapes = {
        "experts": model.experts,
        "latent attention": model.latent,
        "layers of a pattern": model.pattern,
    }
    kind = next((name for name, shape in shapes.items() if shape), None)
    if finetune is None:
        return
    if model.tied and len(finetune.frozen) == 1:
        yield (
            f"{loaded.where('finetune', 'frozen')}: embedding and logits of '{model.name}' share"
            " their weights (freeze both, or none)"
        )
    if finetune.method != "full" and kind is not None:
        yield (
            f"{loaded.where('finetune')}: adapters for {kind}, which '{model.name}' has, are not"
            " modelled (train all of it, or a model without)"
        )


def _schedule(loaded: Loaded, layout: Plan, schedule: Schedule) -> Iterator[str]:
    """Check that the framework offers the schedule, and that it can have this shape."""
    here, offered = loaded.where("plan", "schedule"), loaded.scenario.framework.schedules
    unknown = [name for name in offered if name not in SCHEDULES]
    for name in unknown:
        yield (
            f"{loaded.where('framework', 'schedules')}: '{name}' is not a schedule"
            f"{nearest(name, SCHEDULES)} (allowed: {listed(SCHEDULES)})"
        )
    if not unknown and schedule.name in SCHEDULES and schedule.name not in offered:
        yield (
            f"{here}: '{schedule.name}' is not offered by the framework (it offers"
            f" {listed(offered) or 'none'}; what if it did: framework.schedules=[{schedule.name}])"
        )
    if layout.chunks > 1 and schedule.chunks == (1, 1):
        several = listed(other.name for other in SCHEDULES.values() if other.chunks[0] > 1)
        yield (
            f"{loaded.where('plan', 'chunks')}: {layout.chunks} has no effect with schedule"
            f" '{schedule.name}' (leave it out, or one of {several})"
        )
    elif problem := schedule.misfit(layout.pipeline, layout.microbatches, layout.chunks):
        least = schedule.chunks[0]
        remedy = f" (plan.chunks={least})" if layout.chunks < least else ""
        yield f"{here}: {schedule.name} {problem}{remedy}"


def _context(loaded: Loaded, layout: Plan) -> Iterator[str]:
    if layout.context == 1 and "context_method" in loaded.scenario.plan.model_fields_set:
        yield (
            f"{loaded.where('plan', 'context_method')}: has no effect with context 1"
            " (leave it out, or take context 2 or more)"
        )


def _recompute(loaded: Loaded) -> Iterator[str]:
    recompute, stages = loaded.scenario.recompute, loaded.scenario.plan.pipeline
    listed_stages = [] if isinstance(recompute, str) else recompute.stages or []
    if outside := [stage for stage in listed_stages if stage >= stages]:
        yield (
            f"{loaded.where('recompute', 'stages')}: there is no stage {outside[0]}"
            f" (0 to {stages - 1})"
        )


def _lengths(loaded: Loaded) -> Iterator[str]:
    """Check that lengths of samples are stated once: on average, or drawn by a disturbance."""
    drawn = [cause.type for cause in loaded.scenario.disturbances]
    if loaded.scenario.batch.lengths is not None and "sequence-lengths" in drawn:
        yield (
            f"{loaded.where('batch', 'lengths')}: excludes the disturbance 'sequence-lengths',"
            " which draws the lengths of samples (leave one of them out)"
        )


def _offload(loaded: Loaded, layout: Plan) -> Iterator[str]:
    """Check that ranks do not each copy the same weights from the host."""
    if loaded.scenario.offload.parameters and layout.copies > 1 and layout.zero < 3:
        yield (
            f"{loaded.where('offload', 'parameters')}: {layout.copies} ranks would each copy all"
            " weights of their stage for every layer (shard them: plan.zero: 3)"
        )


def _graphs(loaded: Loaded) -> Iterator[str]:
    """Check what no graph of a layer can hold: its whole recomputation, copies to the host.

    Megatron-Core, ``transformer_config.py``: "full recompute is only supported with full iteration
    CUDA graph", and no graphs with offloading.
    """
    scenario = loaded.scenario
    if scenario.framework.graphs is None:
        return
    name, recompute = scenario.framework.name, scenario.recompute
    table = None if isinstance(recompute, str) else recompute
    if recompute == "full" or (table is not None and table.mode == "full" and not table.listed):
        yield (
            f"{loaded.where('recompute')}: '{name}' captures layers in graphs, which cannot be"
            " recomputed as a whole (take selective, ops or none, or a framework without graphs)"
        )
    if scenario.offload.parameters or scenario.offload.activations:
        yield (
            f"{loaded.where('offload')}: '{name}' captures layers in graphs, which cannot copy to"
            " the host (leave it out, or take a framework without graphs)"
        )


def _placement(loaded: Loaded, layout: Plan) -> list[str]:
    """Check the order of the axes, or the list of devices where there are as many as ranks."""
    placement = loaded.scenario.plan.placement
    if layout.ranks != loaded.scenario.devices:
        return []
    return placement_problems(layout, placement.order, placement.devices, loaded.where)


def _routing(loaded: Loaded, model: Transformer) -> Iterator[str]:
    """Check how tokens spread over experts: that there are some, and one share for each."""
    routing, shape = loaded.scenario.experts, model.experts
    if routing is None:
        return
    if shape is None:
        yield (
            f"{loaded.where('experts')}: has no effect, '{model.name}' has no experts"
            " (leave it out)"
        )
        return
    if routing.load == "histogram" and len(routing.histogram) != shape.count:
        yield (
            f"{loaded.where('experts', 'histogram')}: {len(routing.histogram)} numbers for the"
            f" {shape.count} experts of '{model.name}' (one each)"
        )
    if routing.load == "task-gate" and len(routing.tasks) > shape.count:
        yield (
            f"{loaded.where('experts', 'tasks')}: {len(routing.tasks)} tasks for the {shape.count}"
            f" experts of '{model.name}' (at most one each)"
        )
    if routing.load == "task-gate" and shape.top_k != 1:
        yield (
            f"{loaded.where('experts', 'load')}: 'task-gate' sends a token to one expert, but"
            f" '{model.name}' to {shape.top_k} (set model.experts.top_k to 1)"
        )
