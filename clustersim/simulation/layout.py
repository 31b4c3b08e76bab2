"""The layout of a scenario: degrees, layers of each stage, and what the backward runs again."""

from pathlib import Path

from clustersim.errors import PlanError
from clustersim.plan.parallelism import Plan, by_work, even_layers, filled, with_ends
from clustersim.plan.wording import listed
from clustersim.program.schedules import SCHEDULES, Schedule
from clustersim.program.schedules.written import read_schedule
from clustersim.scenario.load import Loaded
from clustersim.scenario.schema import Scenario
from clustersim.workload.model import build_model
from clustersim.workload.parameters import multiplied
from clustersim.workload.recompute import Recompute


def layout_of(given: Scenario, schedule: Schedule) -> Plan:
    """Return the layout that a scenario asks for."""
    plan, batch = given.plan, given.batch
    chunks = _chunks(given, schedule)
    return Plan(
        tensor=plan.tensor,
        data=plan.data,
        pipeline=plan.pipeline,
        chunks=chunks,
        schedule=schedule.name,
        wiring=schedule.wiring,
        zero=plan.zero,
        reshard=plan.reshard,
        micro=batch.micro,
        microbatches=max(1, batch.global_ // (plan.data * batch.micro)),
        layers=_layers(given, schedule.wired(plan.pipeline, chunks).parts),
        sequence_parallel=plan.sequence_parallel,
        context=plan.context,
        context_method=plan.context_method,
        expert=plan.expert,
        expert_tensor=plan.expert_tensor,
        shard=plan.shard,
    )


def schedule_of(loaded: Loaded) -> Schedule:
    """Return the schedule that a scenario names, or reads from a file beside it.

    Raises
    ------
    ScenarioError
        when there is no such file, or it is no schedule of this shape.
    """
    file = schedule_file(loaded)
    if file is None:
        return SCHEDULES[loaded.scenario.plan.schedule]
    return read_schedule(file, loaded.where("plan", "schedule"))


def schedule_file(loaded: Loaded) -> Path | None:
    """Return the file of steps that a scenario names; None for a schedule by name."""
    name = loaded.scenario.plan.schedule
    if name in SCHEDULES:
        return None
    beside = Path(loaded.place("plan", "schedule").file).parent / name
    return beside if beside.is_file() else Path(name)


def _chunks(given: Scenario, schedule: Schedule) -> int:
    """Return the chunks of a stage, the fewest that the schedule takes if nobody says."""
    return given.plan.chunks or schedule.chunks[0]


def _layers(given: Scenario, parts: int) -> tuple[int, ...]:
    """Return the layers of each part; none where they cannot be shared out evenly."""
    plan, layers = given.plan, given.model.layers
    if plan.layers == "with-ends":
        return with_ends(layers, parts)
    if plan.layers == "filled":
        return filled(layers, parts)
    if plan.layers == "by-work":
        multiple = given.framework.vocab_multiple.value
        model = build_model(given.model, given.batch.sequence, multiple, plan.tensor)
        work = [multiplied(model, layer) for layer in model.stack]
        return by_work(work, model.vocab * model.hidden, parts)
    if plan.layers == "even":
        return even_layers(layers, parts) if layers % parts == 0 else ()
    return tuple(plan.layers)


def recompute_of(loaded: Loaded) -> Recompute:
    """Return what is run again in the backward."""
    said, count = loaded.scenario.recompute, loaded.scenario.plan.pipeline
    if isinstance(said, str):
        return Recompute(said)
    if outside := [stage for stage in said.stages or () if stage >= count]:
        raise PlanError(
            f"{loaded.where('recompute', 'stages')}: there is no stage {outside[0]}"
            f" (0 to {count - 1})"
        )
    stages = None if said.stages is None else frozenset(said.stages)
    return Recompute("ops" if said.ops else said.mode, frozenset(said.ops), said.every, stages)


def check_effects(loaded: Loaded, layout: Plan) -> None:
    """Refuse what has no effect in a layout, or one that nobody would want.

    Raises
    ------
    PlanError
        in one line.
    """
    _check_context(loaded, layout)
    _check_offload(loaded, layout)
    _check_graphs(loaded)


def check_schedule(loaded: Loaded, layout: Plan, schedule: Schedule) -> None:
    """Refuse a schedule that the framework does not offer, or that cannot have this shape.

    Raises
    ------
    PlanError
        in one line, and a drawing of the steps of a file that are none.
    """
    here, offered = loaded.where("plan", "schedule"), loaded.scenario.framework.schedules.value
    if schedule.name in SCHEDULES and schedule.name not in offered:
        raise PlanError(
            f"{here}: '{schedule.name}' is not offered by the framework (it offers"
            f" {listed(offered)}; what if it did: framework.schedules=[{schedule.name}])"
        )
    if layout.chunks > 1 and schedule.chunks == (1, 1):
        several = listed([each.name for each in SCHEDULES.values() if each.chunks[0] > 1])
        raise PlanError(
            f"{loaded.where('plan', 'chunks')}: {layout.chunks} has no effect with schedule"
            f" '{schedule.name}' (leave it out, or one of {several})"
        )
    problem = schedule.misfit(layout.pipeline, layout.microbatches, layout.chunks)
    if problem is not None:
        least = schedule.chunks[0]
        remedy = f" (plan.chunks={least})" if layout.chunks < least else ""
        raise PlanError(f"{here}: {schedule.name} {problem}{remedy}")


def _check_context(loaded: Loaded, layout: Plan) -> None:
    """Refuse a way to share sequences where nobody shares them."""
    if layout.context == 1 and "context_method" in loaded.scenario.plan.model_fields_set:
        raise PlanError(
            f"{loaded.where('plan', 'context_method')}: has no effect with context 1"
            " (leave it out, or take context 2 or more)"
        )


def _check_offload(loaded: Loaded, layout: Plan) -> None:
    """Refuse weights in host memory of which every rank would copy all."""
    if loaded.scenario.offload.parameters and layout.copies > 1 and layout.zero < 3:
        raise PlanError(
            f"{loaded.where('offload', 'parameters')}: {layout.copies} ranks would each copy all"
            " weights of their stage for every layer (share them out: plan.zero: 3)"
        )


def _check_graphs(loaded: Loaded) -> None:
    """Refuse what no graph of a layer can hold: a layer run again as a whole, copies to the host.

    Megatron-Core, ``transformer_config.py``: "full recompute is only supported with full iteration
    CUDA graph", and no graphs with offloading.
    """
    given = loaded.scenario
    if given.framework.graphs is None:
        return
    name = given.framework.name
    if recompute_of(loaded).mode == "full":
        raise PlanError(
            f"{loaded.where('recompute')}: '{name}' captures layers in graphs, which cannot be run"
            " again as a whole (take selective, ops or none, or a framework without graphs)"
        )
    if given.offload.parameters or given.offload.activations:
        raise PlanError(
            f"{loaded.where('offload')}: '{name}' captures layers in graphs, which cannot copy to"
            " the host (leave it out, or take a framework without graphs)"
        )
