"""Transfers of stages and replicas as traffic on the links of the machine."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from clustersim.arrays import Floats, Integers, adjacent, numbered
from clustersim.cost.closed_form import message_cost
from clustersim.plan.parallelism import Wiring
from clustersim.program.collectives.algorithms import scalar_reduction
from clustersim.program.collectives.axes import Call, Communicators
from clustersim.program.job import Job
from clustersim.program.links.together import together
from clustersim.program.movement.sharding import replicated
from clustersim.program.schedules.steps import WHOLE
from clustersim.timeline import BACKWARD, FORWARD
from clustersim.topology.cluster import Cluster
from clustersim.traffic import LinkRows, Name, TrafficRows, link_rows
from clustersim.workload.kernels import Axis
from clustersim.workload.parameters import Parameters

MOST_MESSAGES: Final = 1 << 15
"""Messages whose routes are computed at once, which bounds memory."""


def stage_transfers(job: Job) -> dict[Name, TrafficRows]:
    """Return the transfers of all replicas from stage to stage, by their `send_name`."""
    plan, transfers, listed = job.plan, dict[Name, TrafficRows](), [*hops_of(job).items()]
    at_once = max(1, MOST_MESSAGES // (plan.data * plan.cell))
    for first in range(0, len(listed), at_once):
        some = dict(listed[first : first + at_once])
        transfers |= zip(some, _transfers_along(job, [*some.values()]), strict=True)
    return transfers


def hops_of(job: Job) -> "dict[Name, Hop]":
    """Return the transfers from stage to stage, by their `send_name`."""
    plan, hops = job.plan, dict[Name, Hop]()
    for kind, stage, chunk in product(WHOLE, range(plan.pipeline), range(plan.chunks)):
        target = plan.wired.onward(stage, chunk, forward=kind == FORWARD)
        name = send_name(kind, stage, chunk, plan.wired)
        if target is not None and target.stage != stage and name not in hops:
            title = f"send {kind} from stage {stage} to {target.stage}"
            hops[name] = Hop(title, stage, target.stage)
    return hops


class Hop(NamedTuple):
    """A transfer from a stage to another one, and its title."""

    title: str
    stage: int
    to: int


def send_name(kind: str, stage: int, chunk: int, wiring: Wiring) -> Name:
    """Return the name of a chunk's transfer: the same for chunks that send in one direction."""
    forward = kind == FORWARD
    return "send", FORWARD if forward else BACKWARD, stage, wiring.upward(chunk, forward=forward)


def hops_of_microbatch(wiring: Wiring) -> dict[tuple[int, int], float]:
    """Return how often a microbatch moves from a stage to another one: in the mean of all."""
    hops = defaultdict[tuple[int, int], float](float)
    for kind, stage, chunk in product(WHOLE, range(wiring.stages), range(wiring.chunks)):
        target = wiring.onward(stage, chunk, forward=kind == FORWARD)
        if target is not None and target.stage != stage:
            hops[stage, target.stage] += 1 / wiring.copies
    return hops


def _transfers_along(job: Job, hops: Sequence[Hop]) -> list[TrafficRows]:
    """Return transfers of every replica: a flow from every rank of a cell to its peer."""
    count = job.plan.data
    ends = tuple((hop.stage, hop.to) for hop in hops)
    paths = job.kept(("hops", ends), job.placement.cells, lambda: hop_paths(job, ends, count))
    facts = np.stack([paths.network, paths.rates, paths.latency], axis=1)
    kinds = numbered(facts.view(np.int64))
    _, first = np.unique(kinds, return_index=True)
    nbytes, library = sent_bytes(job), job.cluster.library
    costs = [
        message_cost(nbytes, bool(network), rate, latency, library)
        for network, rate, latency in facts[first].tolist()
    ]
    amounts = np.array([(cost.nbytes, cost.latency, cost.rate) for cost in costs])[kinds].T
    moved = TrafficRows("", paths.crossings, *amounts)
    return [
        moved.part(hop.title, slice(at * count, (at + 1) * count)) for at, hop in enumerate(hops)
    ]


def sent_bytes(job: Job) -> float:
    """Return what a rank sends to the next stage for a microbatch [B]."""
    shard = job.shard
    ranks = job.plan.tensor if job.framework.pipeline.sharded else shard.shared
    return shard.width * shard.stream / ranks


class HopPaths(NamedTuple):
    """The paths of transfers between stages, a row for each transfer and replica.

    Attributes
    ----------
    crossings : links of a row, with the flows of its cell that cross each
    network : whether some of its flows leave their node, as 0 or 1
    rates : of a flow, while the others of its cell share its links [B/s]
    latency : of the longest path [s]
    """

    crossings: LinkRows
    network: Floats
    rates: Floats
    latency: Floats


def hop_paths(job: Job, hops: Sequence[tuple[int, int]], replicas: int) -> HopPaths:
    """Return the paths of transfers between pairs of stages, of the first replicas."""
    plan, cluster = job.plan, job.cluster
    cells = job.placement.cells[:, :replicas].reshape(plan.pipeline, -1)
    sources, targets = (
        cells[[*stages]].reshape(-1, plan.cell) for stages in zip(*hops, strict=True)
    )
    return paths_between(cluster, sources, targets)


def paths_between(cluster: Cluster, sources: Integers, targets: Integers) -> HopPaths:
    """Return the paths of messages from devices to others, a row for those sent together."""
    rows, flows = sources.shape
    routes = cluster.routes(sources.ravel(), targets.ravel())
    row = np.repeat(np.arange(rows), flows)[routes.message]
    crossings = together(link_rows(row, routes.links, routes.shares, rows), cluster)
    network = np.any(routes.network.reshape(rows, flows), axis=1)
    return HopPaths(
        crossings,
        np.asarray(network, np.float64),
        crossings.smallest(cluster.loaded.capacities[crossings.links] / crossings.values),
        routes.latency.reshape(rows, flows).max(axis=1),
    )


def message_rows(
    cluster: Cluster, name: str, nbytes: float, sources: Integers, targets: Integers,
    algorithm: str | None = None,
) -> TrafficRows:  # fmt: skip
    """Return messages of `nbytes` from devices to others, sent together, as one row of traffic.

    Parameters
    ----------
    algorithm : of the library, whose protocols the messages have; if left out that of a message
    """
    paths = paths_between(cluster, sources[None], targets[None])
    network, rate, latency = paths.network[0], float(paths.rates[0]), float(paths.latency[0])
    cost = message_cost(nbytes, bool(network), rate, latency, cluster.library, algorithm)
    amounts = (np.array([each]) for each in (cost.nbytes, cost.latency, cost.rate))
    return TrafficRows(name, paths.crossings, *amounts)


def joint_collectives(job: Job, communicators: Communicators) -> dict[Name, TrafficRows]:
    """Return the collectives of all replicas: over the data axis and of the embedding."""
    joint: dict[Name, TrafficRows] = {}
    trained = {first: job.weights.trained(first) for first in dict.fromkeys(job.layers.alike)}
    of_first = {at: ((*reductions(job, t),), (*gathers(job, t),)) for at, t in trained.items()}
    calls = [of_first[first] for first in job.layers.alike]
    for run in adjacent(calls):
        for kind, collectives in zip(("gradients", "parameters"), calls[run.start], strict=True):
            for axis, operation, nbytes in collectives:
                moved = _over(communicators, axis, operation, nbytes, run)
                joint |= {(kind, stage, axis): of_stage for stage, of_stage in moved.items()}
    return joint | {
        name: job.communicator(groups).traffic_rows(title, "all-reduce", nbytes)
        for name, title, nbytes, groups in sums_of_stages(job)
    }


def sums_of_stages(job: Job) -> Iterator[tuple[Name, str, float, Integers]]:
    """Yield the all-reduces over two stages in pairs, for all replicas, after their own.

    Each has a name, a title, its bytes and its groups of devices: of the tied embedding, and of the
    stages that hold the same layers.
    """
    plan = job.plan
    if job.reduces_embedding:
        rows = job.model.vocab * job.model.hidden / plan.tensor
        pairs = _pairs(job, 0, plan.pipeline - 1)
        yield ("embedding",), _title("all-reduce", 2, "embedding"), rows * job.reduced_bytes, pairs
    for stage in range(plan.pipeline // 2 if plan.wired.copies > 1 else 0):
        other = plan.pipeline - 1 - stage
        weights = job.weights.on_rank(job.weights.trained(stage))
        nbytes = weights * job.framework.gradients.bytes_each
        title = _title("all-reduce", 2, f"stages {stage} and {other}")
        yield ("mirrored", stage), title, nbytes, _pairs(job, stage, other)


def _pairs(job: Job, stage: int, other: int) -> Integers:
    """Return the devices of two stages in pairs."""
    cells = job.placement.cells
    return np.stack([cells[stage].ravel(), cells[other].ravel()], axis=1)


def reductions(job: Job, trained: Parameters) -> Iterator[Call]:
    """Yield the reductions of the gradients of a stage, unless blocks reduce them.

    Parameters
    ----------
    trained : parameters of the stage
    """
    if job.reduces_in_blocks:
        return
    collective = job.state.collective or job.framework.gradients.sharded_collective
    for group in replicated(job, trained):
        nbytes = group.amount * job.reduced_bytes
        if group.sharers > 1:
            operation = collective if job.plan.zero else "all-reduce"
            yield Call(group.axis, operation, nbytes)
        if group.copies > 1:
            yield Call("copies", "all-reduce", nbytes / group.sharers)


def gathers(job: Job, trained: Parameters) -> Iterator[Call]:
    """Yield the gathers of new weights of a stage, where their optimiser states are sharded."""
    if not job.plan.zero or FORWARD in job.gathering_kinds:
        return
    gathered = job.framework.gradients.gathered
    width = job.shard.width if gathered is None else gathered
    for group in replicated(job, trained):
        if group.sharers > 1:
            yield Call(group.axis, "all-gather", group.amount * width)


def _over(
    communicators: Communicators, axis: Axis, operation: str, nbytes: float, run: range
) -> dict[int, TrafficRows]:
    """Return a collective of the groups of an axis of some stages, by stage."""
    groups = communicators.along(axis, operation)
    moved = groups.traffic("", operation, nbytes, communicators.rows_of(axis, run))
    rows = len(moved) // len(run)
    return {
        stage: moved.part(
            stage_title(axis, operation, groups.ranks, stage),
            slice(at * rows, (at + 1) * rows),
        )
        for at, stage in enumerate(run)
    }


def stage_title(axis: Axis, operation: str, ranks: int, stage: int) -> str:
    """Return the unique name of a collective of the groups along an axis of a stage."""
    return _title(operation, ranks, f"{'' if axis == 'data' else f'{axis} of '}stage {stage}")


def _title(operation: str, ranks: int, where: str) -> str:
    """Return the unique name of a collective."""
    return f"{operation} over {ranks} ranks, {where}"


def norm_sync(job: Job) -> float:
    """Return the latency of the two scalar reductions of the gradient norm [s].

    Overflow check and norm are reduced over all ranks that hold one replica, and the host waits
    for each. Megatron-LM, ``megatron/optimizer/optimizer.py`` and ``clip_grads.py``.
    """
    plan = job.plan
    if plan.cell * plan.pipeline == 1:
        return 0.0
    span = job.communicator(job.placement.model_group(0)[None]).span
    return 2 * scalar_reduction(span, job.cluster.library)
