"""Transfers of stages and replicas as traffic on the links of the machine."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from clustersim.cost import closed_form
from clustersim.plan.wiring import Wiring
from clustersim.program.communicators import Communicators
from clustersim.program.fold import Name
from clustersim.program.job import Job
from clustersim.program.movement.sharding import gathers_in_blocks, reduces_in_blocks, replicated
from clustersim.program.steps import BACKWARD, FORWARD, WHOLE
from clustersim.traffic import TrafficRows, link_rows
from clustersim.workload.kernels import Axis

Call = tuple[Axis, str, float]
"""Axis, operation, and bytes of the buffer [B]."""


def stage_transfers(job: Job) -> dict[Name, TrafficRows]:
    """Return the transfers of all replicas from stage to stage, by their `send_name`."""
    plan, transfers = job.plan, dict[Name, TrafficRows]()
    for kind, stage, chunk in product(WHOLE, range(plan.pipeline), range(plan.chunks)):
        place = plan.wired.onward(stage, chunk, forward=kind == FORWARD)
        name = send_name(kind, stage, chunk, plan.wired)
        if place is not None and place.stage != stage and name not in transfers:
            title = f"send {kind} from stage {stage} to {place.stage}"
            transfers[name] = _stage_transfer(job, title, stage, place.stage)
    return transfers


def send_name(kind: str, stage: int, chunk: int, wiring: Wiring) -> Name:
    """Return the name of a chunk's transfer: the same for chunks that send in one direction."""
    forward = kind == FORWARD
    return "send", FORWARD if forward else BACKWARD, stage, wiring.upward(chunk, forward=forward)


def _stage_transfer(job: Job, name: str, stage: int, to: int) -> TrafficRows:
    """Return one transfer of every replica: a flow from every rank of a cell to its peer."""
    plan, cluster, shard = job.plan, job.cluster, job.shard
    ranks = plan.tensor if job.software.pipeline.sharded else shard.shared
    nbytes = shard.width * shard.stream / ranks
    cells = job.placement.cells
    routes = cluster.routes(cells[stage].ravel(), cells[to].ravel())
    row = np.repeat(np.arange(plan.data), plan.cell)[routes.message]
    crossings = link_rows(row, routes.links, np.ones(len(routes.links)), plan.data)
    capacities = cluster.links.capacities
    rates = crossings.smallest(capacities[crossings.links] / crossings.values)
    network = routes.network.reshape(plan.data, plan.cell).any(axis=1)
    latency = routes.latency.reshape(plan.data, plan.cell).max(axis=1)
    facts = np.stack([network, rates, latency], axis=1)
    different, inverse = np.unique(facts, axis=0, return_inverse=True)
    costs = [
        closed_form.message_cost(nbytes, bool(network), rate, latency, cluster.library)
        for network, rate, latency in different.tolist()
    ]
    amounts = np.array([(cost.nbytes, cost.latency, cost.rate) for cost in costs])
    return TrafficRows(name, crossings, *amounts[inverse.ravel()].T)


def joint_collectives(job: Job, communicators: Communicators) -> dict[Name, TrafficRows]:
    """Return the collectives of all replicas: over the data axis and of the embedding."""
    plan = job.plan
    joint: dict[Name, TrafficRows] = {}
    for stage in range(plan.pipeline):
        for kind, collectives in (("gradients", _reductions), ("parameters", _gathers)):
            for axis, operation, nbytes in collectives(job, stage):
                moved = _over(communicators, axis, operation, nbytes, stage)
                joint[kind, stage, axis] = moved
    if job.reduces_embedding:
        rows = job.model.vocab * job.model.hidden / plan.tensor
        nbytes = rows * job.software.gradients.reduced
        joint["embedding",] = _between(job, 0, plan.pipeline - 1, nbytes, "embedding")
    return joint | _mirrored_sums(job)


def _between(job: Job, stage: int, other: int, nbytes: float, place: str) -> TrafficRows:
    """Return an all-reduce over the devices of two stages in pairs, for all replicas."""
    cells = job.placement.cells
    communicator = job.communicator(np.stack([cells[stage].ravel(), cells[other].ravel()], axis=1))
    operation = "all-reduce"
    return communicator.traffic_rows(_title(operation, 2, place), operation, nbytes)


def _mirrored_sums(job: Job) -> dict[Name, TrafficRows]:
    """Return the sums of stages that hold the same layers, after those of their replicas."""
    plan, sums = job.plan, dict[Name, TrafficRows]()
    if plan.wired.copies == 1:
        return sums
    for stage in range(plan.pipeline // 2):
        other = plan.pipeline - 1 - stage
        weights = job.weights.on_rank(job.weights.trained(stage))
        nbytes = weights * job.software.gradients.bytes_each
        sums["mirrored", stage] = _between(job, stage, other, nbytes, f"stages {stage} and {other}")
    return sums


def _reductions(job: Job, stage: int) -> Iterator[Call]:
    """Yield the reductions of a stage's gradients, unless blocks reduce them."""
    if reduces_in_blocks(job):
        return
    gradients = job.software.gradients
    for group in replicated(job, job.weights.trained(stage)):
        nbytes = group.amount * gradients.reduced
        if group.sharers > 1:
            operation = gradients.collective if job.plan.zero else "all-reduce"
            yield group.axis, operation, nbytes
        if group.copies > 1:
            yield "copies", "all-reduce", nbytes / group.sharers


def _gathers(job: Job, stage: int) -> Iterator[Call]:
    """Yield the gathers of a stage's new weights, where their optimiser states are sharded."""
    if not job.plan.zero or gathers_in_blocks(job, FORWARD):
        return
    gathered = job.software.gradients.gathered
    width = job.shard.width if gathered is None else gathered
    for group in replicated(job, job.weights.trained(stage)):
        if group.sharers > 1:
            yield group.axis, "all-gather", group.amount * width


def _over(
    communicators: Communicators, axis: Axis, operation: str, nbytes: float, stage: int
) -> TrafficRows:
    """Return a collective of the groups of an axis of a stage."""
    groups = communicators.along(axis, operation)
    prefix = "" if axis == "data" else f"{axis} of "
    title = _title(operation, groups.ranks, f"{prefix}stage {stage}")
    return groups.traffic(title, operation, nbytes, communicators.rows(axis, stage))


def _title(operation: str, ranks: int, place: str) -> str:
    """Return the unique name of a collective."""
    return f"{operation} over {ranks} ranks, {place}"


def norm_sync(job: Job) -> float:
    """Return the latency of the two scalar reductions of the gradient norm [s].

    Overflow check and norm are reduced over all ranks that hold one replica, and the host waits
    for each. Megatron-LM, ``megatron/optimizer/optimizer.py`` and ``clip_grads.py``.
    """
    plan = job.plan
    if plan.cell * plan.pipeline == 1:
        return 0.0
    span = job.communicator(job.placement.model_group(0)[None]).span
    return 2 * closed_form.scalar_reduction(span, job.cluster.library)
