"""Loads: what every link carries in a step, and what that can do to a fused block."""

from collections.abc import Iterator, Sequence

from clustersim.program.blocks import TensorRings, tensor_wire
from clustersim.program.fold import Name
from clustersim.program.job import Job
from clustersim.program.ops import KINDS, LinkUse, Step, hand_over
from clustersim.traffic import Traffic


def fusion_bound_of(
    job: Job, rings: TensorRings, sends: Sequence[dict[Name, Traffic]], joint: dict[Name, Traffic]
) -> float:
    """Return the most that other traffic can lengthen a forward and backward, share of it.

    While a stage does one microbatch forward and backward, each transfer on the links of its
    tensor group happens at most once, and so do the collectives of other tensor groups. Each
    delays the ring by no more than its own bytes take.
    """
    plan, capacities = job.plan, job.cluster.links.capacities
    if plan.tensor == 1:
        return 0.0
    totals: dict[int, float] = {}
    for transfers in sends:
        for traffic in transfers.values():
            _add_bytes(totals, traffic, 1.0)
    if job.overlapped:
        for (kind, *_), traffic in joint.items():
            if kind == "gradients":
                _add_bytes(totals, traffic, 1.0 / plan.microbatches)
    for stage, replica, payload in _tensor_payloads(job, rings):
        load = rings.load(stage, replica)
        for link, weight in zip(load.links, load.weights, strict=True):
            totals[link] = totals.get(link, 0.0) + weight * payload / plan.chunks
    worst = 0.0
    for stage, replica, payload in _tensor_payloads(job, rings):
        pattern, load = rings.pattern(stage, replica), rings.load(stage, replica)
        taken = min(
            sum(rings.block(stage, chunk, kind, pattern)[0].total for kind in KINDS)
            for chunk in range(plan.chunks)
        )
        delay = max(
            (totals[link] - weight * payload / plan.chunks) / capacities[link]
            for link, weight in zip(load.links, load.weights, strict=True)
        )
        worst = max(worst, delay / taken)
    return worst


def _tensor_payloads(job: Job, rings: TensorRings) -> Iterator[tuple[int, int, float]]:
    """Yield stage, replica and what each hop of the group's ring carries for a microbatch [B]."""
    for stage in range(job.plan.pipeline):
        payloads: dict[tuple[float, int], float] = {}
        for replica in range(job.plan.data):
            pattern = rings.pattern(stage, replica)
            if pattern not in payloads:
                payloads[pattern] = tensor_wire(job, rings, stage, pattern)
            yield stage, replica, payloads[pattern]


def carried_by_links(
    job: Job, rings: TensorRings, sends: Sequence[dict[Name, Traffic]], joint: dict[Name, Traffic]
) -> tuple[LinkUse, ...]:
    """Return what every link carries in the step."""
    plan, totals = job.plan, dict[int, float]()
    for traffic in joint.values():
        _add_bytes(totals, traffic, 1.0)
    for transfers in sends:
        for (what, kind, stage, *_), traffic in transfers.items():
            if what == "send":
                handed = sum(
                    hand_over(Step(str(kind), 0, c), int(str(stage)), plan.pipeline, plan.chunks)
                    is not None
                    for c in range(plan.chunks)
                )
                _add_bytes(totals, traffic, float(handed * plan.microbatches))
    if plan.tensor > 1:
        for stage, replica, payload in _tensor_payloads(job, rings):
            load = rings.load(stage, replica)
            for link, weight in zip(load.links, load.weights, strict=True):
                totals[link] = totals.get(link, 0.0) + weight * payload * plan.microbatches
    links = job.cluster.links
    return tuple(
        LinkUse(links.names[link], links.capacities[link], nbytes)
        for link, nbytes in sorted(totals.items())
    )


def _add_bytes(totals: dict[int, float], traffic: Traffic, times: float) -> None:
    for link, weight in zip(traffic.links, traffic.weights, strict=True):
        totals[link] = totals.get(link, 0.0) + weight * traffic.nbytes * times
