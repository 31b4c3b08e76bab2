"""Transfers: what stages and replicas send each other, as loads on the links of the machine."""

from collections.abc import Iterator
from itertools import product

from clustersim.cost import collectives as closed
from clustersim.plan.wiring import Wiring
from clustersim.program.collectives.communicator import Communicator
from clustersim.program.collectives.load import span_of
from clustersim.program.communicators import groups_of_stage
from clustersim.program.fold import Name
from clustersim.program.job import Job
from clustersim.program.movement.sharding import alike, gathers, reduces
from clustersim.program.steps import BACKWARD, FORWARD, WHOLE
from clustersim.traffic import Traffic
from clustersim.workload.kernels import Axis


def stage_transfers(job: Job, replica: int) -> dict[Name, Traffic]:
    """Return what one replica hands from stage to stage, by its `send_name`."""
    plan, found = job.plan, dict[Name, Traffic]()
    for kind, stage, chunk in product(WHOLE, range(plan.pipeline), range(plan.chunks)):
        place = plan.wired.onward(stage, chunk, forward=kind == FORWARD)
        name = send_name(kind, stage, chunk, plan.wired)
        if place is not None and place.stage != stage and name not in found:
            what = f"send {kind} from stage {stage} to {place.stage}"
            found[name] = _boundary(job, what, stage, place.stage, replica)
    return found


def send_name(kind: str, stage: int, chunk: int, wiring: Wiring) -> Name:
    """Return the name of what a chunk hands on: the same for chunks that send the same way."""
    forward = kind == FORWARD
    return "send", FORWARD if forward else BACKWARD, stage, wiring.upward(chunk, forward=forward)


def _boundary(job: Job, name: str, stage: int, to: int, replica: int) -> Traffic:
    """Return one stage transfer: a flow from every rank of a cell to its peer."""
    plan, cluster, placement = job.plan, job.cluster, job.placement
    part = job.shard
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
        moved.uncontended_rate(cluster.links.capacities),
        max(route.latency for route in routes),
        cluster.library,
    )
    return moved._replace(nbytes=cost.nbytes, latency=cost.latency, cap=cost.rate)


def joint_collectives(job: Job) -> dict[Name, Traffic]:
    """Return what all replicas do together: reductions over the data axis and of the embedding."""
    plan = job.plan
    found: dict[Name, Traffic] = {}
    for stage in range(plan.pipeline):
        found |= {("gradients", stage, axis): moved for axis, moved in _reductions(job, stage)}
        found |= {("parameters", stage, axis): moved for axis, moved in _updates(job, stage)}
    if not plan.wired.ends_meet and job.model.tied and job.finetune is None:
        ends = [
            (job.placement.device(0, r, i), job.placement.device(plan.pipeline - 1, r, i))
            for r in range(plan.data)
            for i in range(plan.cell)
        ]
        rows = job.model.vocab * job.model.hidden / plan.tensor
        tied = rows * job.gradient_bytes
        found["embedding",] = _joint(job.communicator(ends), "all-reduce", tied, "embedding")
    return found | _twins(job)


def _twins(job: Job) -> dict[Name, Traffic]:
    """Return what stages sum up that hold the same part of the model, after their replicas."""
    plan, found = job.plan, dict[Name, Traffic]()
    if plan.wired.copies == 1:
        return found
    device = job.placement.device
    for stage in range(plan.pipeline // 2):
        other = plan.pipeline - 1 - stage
        pairs = [
            (device(stage, r, i), device(other, r, i))
            for r in range(plan.data)
            for i in range(plan.cell)
        ]
        own = job.on_a_rank(job.trained(stage))
        nbytes = own * job.framework.gradients.bytes_each.value
        whose = f"stages {stage} and {other}"
        found["twin", stage] = _joint(job.communicator(pairs), "all-reduce", nbytes, whose)
    return found


def _reductions(job: Job, stage: int) -> Iterator[tuple[Axis, Traffic]]:
    """Yield the reductions of a stage's gradients, where blocks do not reduce them already."""
    if reduces(job):
        return
    for each in alike(job, job.trained(stage)):
        reduced = each.amount * job.gradient_bytes
        if each.sharers > 1:
            operation = job.sharded_reduction if job.plan.zero else "all-reduce"
            yield each.axis, _over(job, each.axis, operation, reduced, stage)
        if each.copies > 1:
            yield "copies", _over(job, "copies", "all-reduce", reduced / each.sharers, stage)


def _updates(job: Job, stage: int) -> Iterator[tuple[Axis, Traffic]]:
    """Yield the gathers of a stage's new weights, where ranks own shares that all compute with."""
    if not job.plan.zero or gathers(job, FORWARD):
        return
    gathered = job.framework.gradients.gathered
    width = job.shard.width if gathered is None else gathered.value
    for each in alike(job, job.trained(stage)):
        if each.sharers > 1:
            updated = each.amount * width
            yield each.axis, _over(job, each.axis, "all-gather", updated, stage)


def _over(job: Job, axis: Axis, operation: str, nbytes: float, stage: int) -> Traffic:
    """Return a collective of the groups of an axis of a stage."""
    communicator = job.communicator(groups_of_stage(job.placement, axis, stage))
    of = "" if axis == "data" else f"{axis} of "
    return _joint(communicator, operation, nbytes, f"{of}stage {stage}")


def _joint(communicator: Communicator, operation: str, nbytes: float, whose: str) -> Traffic:
    """Return a collective of several groups side by side as traffic, named like no other."""
    name = f"{operation} over {communicator.span.ranks} ranks, {whose}"
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
