"""Transfers: what stages and replicas send each other, as loads on the links of the machine."""

from clustersim.cost import collectives as closed
from clustersim.program.collectives.communicator import Communicator
from clustersim.program.collectives.load import span_of
from clustersim.program.fold import Name, alone_rate
from clustersim.program.job import Job
from clustersim.program.ops import BACKWARD, FORWARD
from clustersim.program.sharding import gathers, reduces
from clustersim.traffic import Traffic


def stage_transfers(job: Job, replica: int) -> dict[Name, Traffic]:
    """Return what one replica hands from stage to stage, by ("send", kind, stage)."""
    plan, found = job.plan, dict[Name, Traffic]()
    for kind, step in ((FORWARD, 1), (BACKWARD, -1)):
        for stage in range(plan.pipeline):
            to = stage + step
            if plan.chunks > 1:
                to %= plan.pipeline
            if 0 <= to < plan.pipeline and plan.pipeline > 1:
                name: Name = ("send", kind, stage)
                found[name] = _boundary(job, f"send {kind} of stage {stage}", stage, to, replica)
    return found


def _boundary(job: Job, name: str, stage: int, to: int, replica: int) -> Traffic:
    """Return one stage transfer: a flow from every rank of a cell to its peer."""
    plan, cluster, placement = job.plan, job.cluster, job.placement
    part = job.part
    share = plan.tensor if job.framework.pipeline.sharded.value else part.shared
    nbytes = part.width * part.stream / share
    routes = [
        cluster.route(placement.device(stage, replica, i), placement.device(to, replica, i))
        for i in range(plan.cell)
    ]
    weights: dict[int, float] = {}
    for route in routes:
        for link in route.links:
            weights[link] = weights.get(link, 0.0) + 1.0
    moved = Traffic(name, tuple(weights), tuple(weights.values()), nbytes, 0.0)
    cost = closed.message(
        nbytes,
        any(route.network for route in routes),
        alone_rate(moved, cluster.links.capacities),
        max(route.latency for route in routes),
        cluster.library,
    )
    return moved._replace(nbytes=cost.nbytes, latency=cost.latency, cap=cost.rate)


def joint_collectives(job: Job) -> dict[Name, Traffic]:
    """Return what all replicas do together: reductions over the data axis and of the embedding."""
    plan, facts = job.plan, job.framework.gradients
    found: dict[Name, Traffic] = {}
    for stage in range(plan.pipeline):
        if plan.copies > 1:
            data = job.communicator(job.placement.data_groups(stage))
            held = job.trained(stage).dense(plan.tensor)
            operation = facts.sharded_collective.value if plan.zero else "all-reduce"
            reduced = held * facts.bytes_each.value
            if not reduces(job):
                found["gradients", stage] = _joint(data, operation, reduced, stage)
            if plan.zero and not gathers(job, FORWARD):
                updated = held * job.part.width
                found["parameters", stage] = _joint(data, "all-gather", updated, stage)
    if plan.pipeline > 1 and job.model.tied and job.finetune is None:
        ends = [
            (job.placement.device(0, r, i), job.placement.device(plan.pipeline - 1, r, i))
            for r in range(plan.data)
            for i in range(plan.cell)
        ]
        rows = job.model.vocab * job.model.hidden / plan.tensor
        tied = rows * facts.bytes_each.value
        found["embedding",] = _joint(job.communicator(ends), "all-reduce", tied, 0)
    return found


def _joint(communicator: Communicator, operation: str, nbytes: float, stage: int) -> Traffic:
    """Return a collective of several groups side by side as traffic."""
    name = f"{operation} over {communicator.span.ranks} ranks, stage {stage}"
    return communicator.traffic(name, operation, nbytes)


def norm_sync(job: Job) -> float:
    """Return the latency of the two scalar reductions of the gradient norm [s].

    Overflow check and norm are reduced over all ranks that hold one replica, and the host waits
    for each. Megatron-LM, ``megatron/optimizer/optimizer.py`` and ``clip_grads.py``.
    """
    plan = job.plan
    if plan.cell * plan.pipeline == 1:
        return 0.0
    span = span_of(job.cluster, [job.placement.model_group(0)])
    return 2 * closed.scalar_reduction(span, job.cluster.library)
