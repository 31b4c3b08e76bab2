"""Transfers: what stages and replicas send each other, as loads on the links of the machine."""

from clustersim.cost import collectives as closed
from clustersim.program.collectives.ring import Load, ring_load
from clustersim.program.fold import Name, alone_rate
from clustersim.program.job import Job
from clustersim.program.ops import BACKWARD, FORWARD
from clustersim.traffic import Traffic
from clustersim.workload import kernels as work


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
    """Return one stage transfer: a flow from every tensor rank to its peer."""
    plan, cluster, placement = job.plan, job.cluster, job.placement
    share = plan.tensor if job.framework.pipeline.sharded.value else 1
    nbytes = work.WIDTH * job.part.stream / share
    routes = [
        cluster.route(placement.device(stage, replica, i), placement.device(to, replica, i))
        for i in range(plan.tensor)
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
    return moved._replace(nbytes=cost.wire_bytes, latency=cost.latency)


def joint_collectives(job: Job) -> dict[Name, Traffic]:
    """Return what all replicas do together: reductions over the data axis and of the embedding."""
    plan, facts = job.plan, job.framework.gradients
    found: dict[Name, Traffic] = {}
    for stage in range(plan.pipeline):
        if plan.data > 1:
            load = ring_load(job.cluster, job.placement.data_groups(stage))
            held = job.parameters(stage)
            operation = facts.sharded_collective.value if plan.zero else "all-reduce"
            reduced = held * facts.bytes_each.value
            found["gradients", stage] = _ring(job, operation, reduced, plan.data, load, stage)
            if plan.zero:
                updated = held * work.WIDTH
                found["parameters", stage] = _ring(
                    job, "all-gather", updated, plan.data, load, stage
                )
    if plan.pipeline > 1:
        ends = [
            (job.placement.device(0, r, i), job.placement.device(plan.pipeline - 1, r, i))
            for r in range(plan.data)
            for i in range(plan.tensor)
        ]
        tied = job.model.embedding_parameters / plan.tensor * facts.bytes_each.value
        load = ring_load(job.cluster, ends)
        found["embedding",] = _ring(job, "all-reduce", tied, 2, load, 0)
    return found


def _ring(job: Job, operation: str, nbytes: float, ranks: int, load: Load, stage: int) -> Traffic:
    """Return a ring collective as traffic."""
    cluster = job.cluster
    bandwidth = load.bandwidth(cluster.links.capacities)
    cost = closed.ring(operation, nbytes, ranks, load.nodes, bandwidth, cluster.library)
    name = f"{operation} over {ranks} ranks, stage {stage}"
    return Traffic(name, load.links, load.weights, cost.wire_bytes, cost.latency)


def norm_sync(job: Job) -> float:
    """Return the latency of the two scalar reductions of the gradient norm [s].

    Overflow check and norm are reduced over all ranks that hold one replica, and the host waits
    for each. Megatron-LM, ``megatron/optimizer/optimizer.py`` and ``clip_grads.py``.
    """
    plan = job.plan
    if plan.tensor * plan.pipeline == 1:
        return 0.0
    ranks = [device for stage in range(plan.pipeline) for device in plan.tensor_group(stage, 0)]
    nodes = len({device // job.cluster.node.devices for device in ranks})
    return 2 * closed.scalar_reduction(len(ranks), nodes, job.cluster.library)
