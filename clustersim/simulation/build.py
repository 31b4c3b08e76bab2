"""From a scenario to a job: the machine, the model and the layout, checked against each other."""

from clustersim.catalog.tree import nearest
from clustersim.errors import PlanError, ScenarioError
from clustersim.plan.checks import check_plan
from clustersim.plan.parallelism import Plan
from clustersim.plan.placement import place
from clustersim.program.collectives.communicator import Prescribed
from clustersim.program.job import Job
from clustersim.scenario.load import Loaded
from clustersim.simulation.experts import routing_of
from clustersim.simulation.layout import (
    check_effects,
    check_schedule,
    layout_of,
    recompute_of,
    schedule_of,
)
from clustersim.topology.cluster import build_cluster
from clustersim.workload.finetune import Finetune
from clustersim.workload.model import build_model
from clustersim.workload.offload import Offload

MOST_BLOCKS = 20_000_000
"""Blocks of a replica that a replay takes on: a hundred times the trillion-parameter step."""


def build_job(loaded: Loaded) -> Job:
    """Return the machine, the model and the layout of a scenario, checked against each other."""
    given = loaded.scenario
    plan, batch = given.plan, given.batch
    schedule = schedule_of(loaded)
    layout = layout_of(given, schedule)
    _check_reach(loaded, layout)
    multiple = given.framework.vocab_multiple.value
    model = build_model(given.model, batch.sequence, multiple, plan.tensor)
    finetune = _finetune(loaded)
    check_schedule(loaded, layout, schedule)
    check_plan(layout, model, batch.global_, given.devices, given.framework, loaded.where)
    check_effects(loaded, layout)
    passes = None if given.framework.passes is None else given.framework.passes.value
    cluster, wanted = build_cluster(given.cluster, given.cluster.nodes, passes), plan.placement
    placement = place(layout, cluster, wanted.order, wanted.boxes, wanted.devices, loaded.where)
    job = Job(
        cluster=cluster,
        model=model,
        plan=layout,
        placement=placement,
        schedule=schedule,
        framework=given.framework,
        precision=given.precision,
        recompute=recompute_of(loaded),
        offload=Offload(**given.offload.model_dump()),
        finetune=finetune,
        routing=routing_of(loaded, model, placement),
        algorithms={
            operation: Prescribed(algorithm, loaded.where("collectives", operation))
            for operation, algorithm in given.collectives.items()
        },
    )
    _check_recomputed(job, loaded)
    return job


def _check_reach(loaded: Loaded, layout: Plan) -> None:
    """Refuse more nodes than there are, numbers without a recipe, and steps that are too long."""
    given, batch = loaded.scenario, loaded.scenario.batch
    if given.cluster.nodes > given.cluster.size.value:
        raise PlanError(
            f"{loaded.where('cluster', 'nodes')}: {given.cluster.nodes} nodes, but"
            f" '{given.cluster.name}' has {given.cluster.size.value}"
        )
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


def _check_recomputed(job: Job, loaded: Loaded) -> None:
    """Refuse operations to be run again that no layer has."""
    known = [op.name for layer in dict.fromkeys(job.model.stack) for op in job.ops(layer)]
    for name in sorted(job.recompute.ops - {*known}):
        raise PlanError(
            f"{loaded.where('recompute', 'ops')}: no operation '{name}'{nearest(name, known)}"
            f" (those of a layer: {', '.join(dict.fromkeys(known))})"
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
