"""From a scenario to a job: the machine, the model and the layout, checked against each other."""

from clustersim.catalog.tree import nearest
from clustersim.errors import PlanError, ScenarioError
from clustersim.plan.parallelism import Plan, check_plan, even_layers, with_ends
from clustersim.plan.placement import place
from clustersim.program.collectives.communicator import Prescribed
from clustersim.program.job import Job
from clustersim.scenario.load import Loaded
from clustersim.scenario.schema import Scenario
from clustersim.topology.cluster import build_cluster
from clustersim.workload.finetune import Finetune
from clustersim.workload.model import build_model
from clustersim.workload.offload import Offload
from clustersim.workload.recompute import Recompute

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
    check_plan(
        layout,
        model,
        batch.global_,
        given.devices,
        given.framework.zero.value,
        given.framework.schedules.value,
        loaded.where,
    )
    _check_offload(loaded, layout)
    cluster, wanted = build_cluster(given.cluster, given.cluster.nodes), plan.placement
    job = Job(
        cluster=cluster,
        model=model,
        plan=layout,
        placement=place(layout, cluster, wanted.order, wanted.boxes, wanted.devices, loaded.where),
        framework=given.framework,
        precision=given.precision,
        recompute=_recompute(loaded),
        offload=Offload(**given.offload.model_dump()),
        finetune=_finetune(loaded),
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
    )


def _layers(given: Scenario) -> tuple[int, ...]:
    """Return the layers of each virtual stage; none where they cannot be shared out evenly."""
    plan, layers = given.plan, given.model.layers
    parts = plan.pipeline * plan.chunks
    if plan.layers == "with-ends":
        return with_ends(layers, parts)
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
    return Finetune(said.method, said.rank, frozenset(said.targets), said.bits, said.quantiser)
