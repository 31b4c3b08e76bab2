"""From a scenario to a job: the machine, the model and the layout, checked against each other."""

from collections.abc import Sequence

from clustersim.catalog.tree import nearest
from clustersim.errors import PlanError, ScenarioError
from clustersim.plan.checks import check_plan
from clustersim.plan.parallelism import Plan, by_work, even_layers, with_ends
from clustersim.plan.placement import Placement, place
from clustersim.program.collectives.communicator import Prescribed
from clustersim.program.job import Job
from clustersim.scenario.load import Loaded
from clustersim.scenario.schema import Scenario
from clustersim.topology.cluster import build_cluster
from clustersim.workload.finetune import Finetune
from clustersim.workload.model import Transformer, build_model
from clustersim.workload.offload import Offload
from clustersim.workload.parameters import multiplied
from clustersim.workload.recompute import Recompute
from clustersim.workload.routing import (
    BALANCED,
    Routing,
    nodes_of_token,
    route,
    task_shares,
    zipf_shares,
)

MOST_BLOCKS = 20_000_000
"""Blocks of a replica that a replay takes on: a hundred times the trillion-parameter step."""


def build_job(loaded: Loaded) -> Job:
    """Return the machine, the model and the layout of a scenario, checked against each other."""
    given = loaded.scenario
    plan, batch = given.plan, given.batch
    if given.cluster.nodes > given.cluster.size.value:
        raise PlanError(
            f"{loaded.where('cluster', 'nodes')}: {given.cluster.nodes} nodes, but"
            f" '{given.cluster.name}' has {given.cluster.size.value}"
        )
    layout = _layout(given)
    if given.precision not in given.framework.state:
        raise ScenarioError(
            f"{loaded.where('precision')}: '{given.precision}' has no recipe of training states in"
            f" '{given.framework.name}' (it has {', '.join(given.framework.state) or 'none'})"
        )
    blocks = 2 * layout.microbatches * layout.pipeline * layout.chunks
    if blocks > MOST_BLOCKS:
        raise PlanError(
            f"{loaded.where('batch', 'global')}: {batch.global_:,} makes {blocks:,} blocks a"
            f" replica, more than the {MOST_BLOCKS:,} that are replayed (a step has fewer)"
        )
    multiple = given.framework.vocab_multiple.value
    model = build_model(given.model, batch.sequence, multiple, plan.tensor)
    finetune = _finetune(loaded)
    check_plan(
        layout,
        model,
        batch.global_,
        given.devices,
        given.framework,
        loaded.where,
    )
    _check_offload(loaded, layout)
    _check_context(loaded, layout)
    passes = None if given.framework.passes is None else given.framework.passes.value
    cluster, wanted = build_cluster(given.cluster, given.cluster.nodes, passes), plan.placement
    placement = place(layout, cluster, wanted.order, wanted.boxes, wanted.devices, loaded.where)
    job = Job(
        cluster=cluster,
        model=model,
        plan=layout,
        placement=placement,
        framework=given.framework,
        precision=given.precision,
        recompute=_recompute(loaded),
        offload=Offload(**given.offload.model_dump()),
        finetune=finetune,
        routing=_routing(loaded, model, placement),
        algorithms={
            operation: Prescribed(algorithm, loaded.where("collectives", operation))
            for operation, algorithm in given.collectives.items()
        },
    )
    _check_recomputed(job, loaded)
    return job


def _check_recomputed(job: Job, loaded: Loaded) -> None:
    """Refuse operations to be run again that no layer has."""
    known = [op.name for layer in dict.fromkeys(job.model.stack) for op in job.ops(layer)]
    for name in sorted(job.recompute.ops - {*known}):
        raise PlanError(
            f"{loaded.where('recompute', 'ops')}: no operation '{name}'{nearest(name, known)}"
            f" (those of a layer: {', '.join(dict.fromkeys(known))})"
        )


def _layout(given: Scenario) -> Plan:
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


def _recompute(loaded: Loaded) -> Recompute:
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


def _finetune(loaded: Loaded) -> Finetune | None:
    """Return what is trained of the model; None for all of it."""
    said, model = loaded.scenario.finetune, loaded.scenario.model
    if said is None:
        return None
    kind = "experts" if model.experts else "latent attention" if model.latent else None
    if kind is not None:
        raise PlanError(
            f"{loaded.where('finetune')}: no adapters are known for {kind}, which '{model.name}'"
            " has (train all of it, or a model without)"
        )
    merged = loaded.scenario.framework.kernels.adapters_merged
    return Finetune(
        said.method,
        said.rank,
        frozenset(said.targets),
        said.bits,
        said.quantiser,
        said.dropout,
        merged is not None and merged.value,
    )


# --- experts --------------------------------------------------------------------------------------


def _routing(loaded: Loaded, model: Transformer, placement: Placement) -> Routing:
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
