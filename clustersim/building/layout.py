"""The layout of a scenario: degrees, layers of each stage, and what the backward runs again."""

from clustersim.errors import PlanError
from clustersim.plan.parallelism import Plan, by_work, even_layers, with_ends
from clustersim.scenario.load import Loaded
from clustersim.scenario.schema import Scenario
from clustersim.workload.model import build_model
from clustersim.workload.parameters import multiplied
from clustersim.workload.recompute import Recompute


def layout_of(given: Scenario) -> Plan:
    """Return the layout that a scenario asks for."""
    plan, batch = given.plan, given.batch
    return Plan(
        tensor=plan.tensor,
        data=plan.data,
        pipeline=plan.pipeline,
        chunks=plan.chunks,
        schedule=plan.schedule,
        zero=plan.zero,
        reshard=plan.reshard,
        micro=batch.micro,
        microbatches=max(1, batch.global_ // (plan.data * batch.micro)),
        layers=_layers(given),
        sequence_parallel=plan.sequence_parallel,
        context=plan.context,
        context_method=plan.context_method,
        expert=plan.expert,
        expert_tensor=plan.expert_tensor,
        shard=plan.shard,
    )


def _layers(given: Scenario) -> tuple[int, ...]:
    """Return the layers of each virtual stage; none where they cannot be shared out evenly."""
    plan, layers = given.plan, given.model.layers
    parts = plan.pipeline * plan.chunks
    if plan.layers == "with-ends":
        return with_ends(layers, parts)
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
