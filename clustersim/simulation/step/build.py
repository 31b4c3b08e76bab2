"""From a scenario to a job: model, layout, machine, and where each rank runs."""

from threading import local
from typing import Final

from clustersim.catalog.tree import nearest
from clustersim.disturbance.causes import Draw
from clustersim.errors import PlanError
from clustersim.plan.placement import Placement, place
from clustersim.program.collectives.communicator import Prescribed
from clustersim.program.job import Job
from clustersim.program.schedules import Schedule
from clustersim.scenario.load import Loaded
from clustersim.scenario.schema import ClusterUse, Scenario
from clustersim.simulation.step.check import check_layout
from clustersim.simulation.step.disturbed import DRAWN, causes_of, faults_of
from clustersim.simulation.step.layout import layout_of, recompute_of, schedule_of
from clustersim.topology.cluster import Cluster, build_cluster
from clustersim.workload.finetune import Finetune
from clustersim.workload.model import Transformer, build_model
from clustersim.workload.offload import Offload
from clustersim.workload.routing import (
    BALANCED,
    Routing,
    nodes_of_token,
    route,
    task_shares,
    zipf_shares,
)


def build_job(loaded: Loaded, draw: Draw = DRAWN) -> Job:
    """Return the machine, the model and the layout of a scenario.

    Parameters
    ----------
    draw : which step is drawn where ranks differ at random, and which causes are removed

    Raises
    ------
    PlanError
        one line for each problem of the layout.
    ScenarioError, CatalogError
        when a file of steps or a file of cables is wrong.
    """
    given, plan, schedule = loaded.scenario, loaded.scenario.plan, schedule_of(loaded)
    multiple = given.framework.vocab_multiple
    model = build_model(given.model, given.batch.sequence, multiple, plan.tensor)
    layout = layout_of(given, schedule, model)
    check_layout(loaded, schedule, layout, model)

    cluster, wish = cluster_of(loaded, draw), plan.placement
    placement = place(layout, cluster, wish.order, wish.boxes, wish.devices, loaded.where)
    job = assembled_job(loaded, placement, cluster, model, schedule, draw)
    _check_recomputed(job, loaded)
    return job


def cluster_of(loaded: Loaded, draw: Draw = DRAWN) -> Cluster:
    """Return the machine of a scenario as its framework uses it, with its faults.

    The layouts of a study that differ in nothing of it share it, and what is kept about it.
    """
    given = loaded.scenario
    passes = given.framework.passes
    faults = faults_of(loaded, draw)
    if faults:
        return build_cluster(given.cluster, given.cluster.nodes, passes, faults, queued=True)
    return _LATEST.machine(given.cluster, passes)


class _LatestMachines(local):
    """The machines of the latest scenarios of a thread."""

    MOST: Final = 2

    def __init__(self) -> None:
        self._built: dict[tuple[int, float | None], tuple[ClusterUse, Cluster]] = {}

    def machine(self, record: ClusterUse, passes: float | None) -> Cluster:
        """Return the machine of a record; another one where its links have numbers by now.

        Links that are numbered in the order of their use would have other numbers in a later
        layout, and equal ones are listed in that order.
        """
        key = id(record), passes  # a record that is kept has its number to itself
        known = self._built.pop(key, None)
        if known is None or known[1].links.in_order_of_use:
            known = record, build_cluster(record, record.nodes, passes, queued=True)
        self._built[key] = known
        while len(self._built) > self.MOST:
            self._built.pop(next(iter(self._built)))
        return known[1]


_LATEST: Final = _LatestMachines()


def assembled_job(
    loaded: Loaded,
    placement: Placement,
    cluster: Cluster,
    model: Transformer,
    schedule: Schedule,
    draw: Draw = DRAWN,
) -> Job:
    """Return the job of a layout that has been placed; unchecked.

    All that is no part of the layout is that of the scenario, and so is its recomputation.
    """
    given = loaded.scenario
    return Job(
        cluster=cluster,
        model=model,
        plan=placement.plan,
        placement=placement,
        schedule=schedule,
        framework=given.framework,
        precision=given.precision,
        recompute=recompute_of(given.recompute),
        offload=Offload(**given.offload.model_dump()),
        finetune=_finetune(given),
        frozen_ends=frozenset(() if given.finetune is None else given.finetune.frozen),
        routing=_routing(given, model, placement),
        algorithms={
            operation: Prescribed(algorithm, loaded.where("collectives", operation))
            for operation, algorithm in given.collectives.items()
        },
        causes=causes_of(loaded, placement, draw),
        replication=draw.replication,
    )


def _check_recomputed(job: Job, loaded: Loaded) -> None:
    """Check the names of operations to be recomputed, which follow from the whole job."""
    known = [op.name for layer in dict.fromkeys(job.model.stack) for op in job.layers.ops(layer)]
    allowed = ", ".join(dict.fromkeys(known))
    problems = [
        f"{loaded.where('recompute', 'ops')}: no operation '{name}'{nearest(name, known)}"
        f" (operations of a layer: {allowed})"
        for name in sorted(job.recompute.ops - {*known})
    ]
    if problems:
        raise PlanError("\n".join(problems))


def _finetune(given: Scenario) -> Finetune | None:
    """Return the adapters that are trained; None where the layers themselves are."""
    wish, merged = given.finetune, given.framework.kernels.adapters_merged
    if wish is None or wish.method == "full":
        return None
    return Finetune(
        wish.method,
        wish.rank,
        frozenset(wish.targets),
        wish.bits,
        wish.quantiser,
        wish.dropout,
        bool(merged),
    )


# --- tokens on experts ----------------------------------------------------------------------------


def _routing(given: Scenario, model: Transformer, placement: Placement) -> Routing:
    """Return the share of the tokens of a layer with experts that each rank gets."""
    shape, sent, facts = model.experts, None, given.framework.experts
    if shape is None:
        return BALANCED
    if facts is not None and facts.once_per_node:
        devices = given.cluster.node.devices
        nodes = [{*group} for group in (placement.expert_groups()[0] // devices).tolist()]
        among = max(map(len, nodes))
        sent = nodes_of_token(shape, among if among > 1 else placement.plan.expert)
    shares = _shares(given, shape.count, placement)
    return route(shares, placement.plan.expert, shape.capacity, sent)


def _shares(given: Scenario, experts: int, placement: Placement) -> list[float]:
    """Return the shares of the experts in the tokens."""
    wish, plan = given.experts, placement.plan
    if wish is None or wish.load == "balanced":
        return [1.0] * experts
    if wish.load == "zipf":
        return zipf_shares(experts, wish.exponent, plan.expert)
    if wish.load == "histogram":
        return wish.histogram
    ranks = plan.expert * plan.expert_tensor
    return task_shares(wish.tasks, experts, max(1, plan.micro * ranks // plan.cell))
