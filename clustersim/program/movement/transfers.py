"""Transfers of stages and replicas as traffic on the links of the machine."""

from collections.abc import Iterator
from itertools import product

from clustersim.cost import closed_form
from clustersim.plan.wiring import Wiring
from clustersim.program.collectives.communicator import Communicator
from clustersim.program.collectives.link_load import span_of
from clustersim.program.communicators import groups_of_stage
from clustersim.program.fold import Name
from clustersim.program.job import Job
from clustersim.program.movement.sharding import gathers_in_blocks, reduces_in_blocks, replicated
from clustersim.program.steps import BACKWARD, FORWARD, WHOLE
from clustersim.traffic import Traffic
from clustersim.workload.kernels import Axis


def stage_transfers(job: Job, replica: int) -> dict[Name, Traffic]:
    """Return the transfers of one replica from stage to stage, by their `send_name`."""
    plan, transfers = job.plan, dict[Name, Traffic]()
    for kind, stage, chunk in product(WHOLE, range(plan.pipeline), range(plan.chunks)):
        place = plan.wired.onward(stage, chunk, forward=kind == FORWARD)
        name = send_name(kind, stage, chunk, plan.wired)
        if place is not None and place.stage != stage and name not in transfers:
            title = f"send {kind} from stage {stage} to {place.stage}"
            transfers[name] = _stage_transfer(job, title, stage, place.stage, replica)
    return transfers


def send_name(kind: str, stage: int, chunk: int, wiring: Wiring) -> Name:
    """Return the name of a chunk's transfer: the same for chunks that send in one direction."""
    forward = kind == FORWARD
    return "send", FORWARD if forward else BACKWARD, stage, wiring.upward(chunk, forward=forward)


def _stage_transfer(job: Job, name: str, stage: int, to: int, replica: int) -> Traffic:
    """Return one stage transfer: a flow from every rank of a cell to its peer."""
    plan, cluster, placement = job.plan, job.cluster, job.placement
    shard = job.shard
    ranks = plan.tensor if job.software.pipeline.sharded else shard.shared
    nbytes = shard.width * shard.stream / ranks
    routes = [
        cluster.route(placement.device(stage, replica, i), placement.device(to, replica, i))
        for i in range(plan.cell)
    ]
    weights: dict[int, float] = {}
    for route in routes:
        for link in route.links:
            weights[link] = weights.get(link, 0.0) + 1.0
    traffic = Traffic(name, tuple(weights), tuple(weights.values()), nbytes, 0.0)
    cost = closed_form.message_cost(
        nbytes,
        any(route.network for route in routes),
        traffic.uncontended_rate(cluster.links.capacities),
        max(route.latency for route in routes),
        cluster.library,
    )
    return traffic._replace(nbytes=cost.nbytes, latency=cost.latency, cap=cost.rate)


def joint_collectives(job: Job) -> dict[Name, Traffic]:
    """Return the collectives of all replicas: over the data axis and of the embedding."""
    plan = job.plan
    joint: dict[Name, Traffic] = {}
    for stage in range(plan.pipeline):
        joint |= {("gradients", stage, axis): moved for axis, moved in _reductions(job, stage)}
        joint |= {("parameters", stage, axis): moved for axis, moved in _gathers(job, stage)}
    if job.reduces_embedding:
        rows = job.model.vocab * job.model.hidden / plan.tensor
        nbytes = rows * job.software.gradients.reduced
        ends = job.communicator(_peers(job, 0, plan.pipeline - 1))
        joint["embedding",] = _joint(ends, "all-reduce", nbytes, "embedding")
    return joint | _mirrored_sums(job)


def _peers(job: Job, stage: int, other: int) -> list[tuple[int, int]]:
    """Return the devices of two stages in pairs, for all replicas."""
    device, plan = job.placement.device, job.plan
    return [
        (device(stage, replica, i), device(other, replica, i))
        for replica in range(plan.data)
        for i in range(plan.cell)
    ]


def _mirrored_sums(job: Job) -> dict[Name, Traffic]:
    """Return the sums of stages that hold the same layers, after those of their replicas."""
    plan, sums = job.plan, dict[Name, Traffic]()
    if plan.wired.copies == 1:
        return sums
    for stage in range(plan.pipeline // 2):
        other = plan.pipeline - 1 - stage
        weights = job.weights.on_rank(job.weights.trained(stage))
        nbytes = weights * job.software.gradients.bytes_each
        pairs = job.communicator(_peers(job, stage, other))
        title = f"stages {stage} and {other}"
        sums["mirrored", stage] = _joint(pairs, "all-reduce", nbytes, title)
    return sums


def _reductions(job: Job, stage: int) -> Iterator[tuple[Axis, Traffic]]:
    """Yield the reductions of a stage's gradients, unless blocks reduce them."""
    if reduces_in_blocks(job):
        return
    gradients = job.software.gradients
    for group in replicated(job, job.weights.trained(stage)):
        nbytes = group.amount * gradients.reduced
        if group.sharers > 1:
            operation = gradients.collective if job.plan.zero else "all-reduce"
            yield group.axis, _over(job, group.axis, operation, nbytes, stage)
        if group.copies > 1:
            yield "copies", _over(job, "copies", "all-reduce", nbytes / group.sharers, stage)


def _gathers(job: Job, stage: int) -> Iterator[tuple[Axis, Traffic]]:
    """Yield the gathers of a stage's new weights, where their optimiser states are sharded."""
    if not job.plan.zero or gathers_in_blocks(job, FORWARD):
        return
    gathered = job.software.gradients.gathered
    width = job.shard.width if gathered is None else gathered
    for group in replicated(job, job.weights.trained(stage)):
        if group.sharers > 1:
            yield group.axis, _over(job, group.axis, "all-gather", group.amount * width, stage)


def _over(job: Job, axis: Axis, operation: str, nbytes: float, stage: int) -> Traffic:
    """Return a collective of the groups of an axis of a stage."""
    communicator = job.communicator(groups_of_stage(job.placement, axis, stage))
    prefix = "" if axis == "data" else f"{axis} of "
    return _joint(communicator, operation, nbytes, f"{prefix}stage {stage}")


def _joint(communicator: Communicator, operation: str, nbytes: float, place: str) -> Traffic:
    """Return a collective of several groups at the same time as traffic with a unique name."""
    name = f"{operation} over {communicator.span.ranks} ranks, {place}"
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
    return 2 * closed_form.scalar_reduction(span, job.cluster.library)
