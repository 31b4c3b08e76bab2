"""Loads: what every link carries in a step, and what that can do to a fused block."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from clustersim.plan.parallelism import Plan
from clustersim.program.blocks import Blocks
from clustersim.program.fold import Name
from clustersim.program.job import Job
from clustersim.program.movement.transfers import send_name
from clustersim.program.ops import Limit, LinkUse
from clustersim.program.steps import FORWARD, WHOLE
from clustersim.traffic import Traffic


def fusion_bound_of(
    job: Job, blocks: Blocks, sends: Sequence[dict[Name, Traffic]], joint: dict[Name, Traffic]
) -> float:
    """Return the most that other traffic can lengthen a forward and backward, share of it.

    While a stage does one microbatch forward and backward, each transfer on the links of its
    tensor group happens at most once, and so do the collectives of other tensor groups. Each
    delays the ring by no more than its own bytes take.
    """
    plan, capacities = job.plan, job.cluster.links.capacities
    if not blocks.axes:
        return 0.0
    totals: dict[int, float] = {}
    for transfers in sends:
        for traffic in transfers.values():
            _add_bytes(totals, traffic, 1.0)
    if job.overlapped:
        for (kind, *_), traffic in joint.items():
            if kind == "gradients":
                _add_bytes(totals, traffic, 1.0 / plan.microbatches)
    stages = {stage: blocks.carried_by_stage(stage) for stage in range(plan.pipeline)}
    cells = {place: blocks.carried(*place) for place in _places(job)}
    for carried in [*cells.values(), *stages.values()]:
        for link, nbytes in carried.items():
            totals[link] = totals.get(link, 0.0) + nbytes / plan.chunks
    spare = {
        stage: _longest(capacities, totals, carried, plan.chunks)
        for stage, carried in stages.items()
    }
    worst = 0.0
    for (stage, replica), own in cells.items():
        pattern = blocks.pattern(stage, replica)
        taken = min(
            sum(blocks.block(stage, chunk, kind, pattern)[0].total for kind in WHOLE)
            for chunk in range(plan.chunks)
        )
        delay = max(spare[stage], _longest(capacities, totals, own, plan.chunks))
        worst = max(worst, delay / taken)
    return worst


def _longest(
    capacities: Sequence[float], totals: Mapping[int, float], own: Mapping[int, float], chunks: int
) -> float:
    """Return what others take at most on a link that carries something of one's own [s]."""
    return max(
        ((totals[link] - nbytes / chunks) / capacities[link] for link, nbytes in own.items()),
        default=0.0,
    )


def _places(job: Job) -> Iterator[tuple[int, int]]:
    """Yield stage and replica of every cell."""
    return product(range(job.plan.pipeline), range(job.plan.data))


def carried_by_links(
    job: Job, blocks: Blocks, sends: Sequence[dict[Name, Traffic]], joint: dict[Name, Traffic]
) -> tuple[LinkUse, ...]:
    """Return what every link carries in the step."""
    plan, totals = job.plan, dict[int, float]()
    for traffic in joint.values():
        _add_bytes(totals, traffic, 1.0)
    for transfers in sends:
        handed = _times_handed_on(plan)
        for name, traffic in transfers.items():
            if name[0] == "send":
                _add_bytes(totals, traffic, float(handed[name]))
    inside = [blocks.carried(*place) for place in _places(job)] if blocks.axes else []
    inside += [blocks.carried_by_stage(stage) for stage in range(plan.pipeline)]
    for carried in inside:
        for link, nbytes in carried.items():
            totals[link] = totals.get(link, 0.0) + nbytes * plan.microbatches / plan.wired.copies
    links = job.cluster.links
    return tuple(
        LinkUse(links.names[link], links.capacities[link], nbytes)
        for link, nbytes in sorted(totals.items())
    )


def _times_handed_on(plan: Plan) -> Counter[Name]:
    """Return how often each stage transfer happens in a step."""
    wiring, times = plan.wired, Counter[Name]()
    for kind, stage, chunk in product(WHOLE, range(plan.pipeline), range(plan.chunks)):
        if wiring.onward(stage, chunk, forward=kind == FORWARD) is not None:
            count = len(wiring.batch(chunk, plan.microbatches))
            times[send_name(kind, stage, chunk, wiring)] += count
    return times


def limits_of(
    job: Job, blocks: Blocks, sends: Sequence[dict[Name, Traffic]], joint: dict[Name, Traffic]
) -> dict[str, Limit]:
    """Return the link that sets the pace of each kind of communication: of replica 0, alone.

    Of several transfers of a kind, the one that takes longest tells.
    """
    found: dict[str, dict[int, float]] = {}
    for axis in blocks.axes:
        stages = (blocks.on_links([axis], stage, 0) for stage in range(job.plan.pipeline))
        found[axis] = next(filter(None, stages))
    for part, transfers in (("pipeline", sends[0]), ("data", joint), ("embedding", joint)):
        wanted = {"pipeline": "send", "data": "gradients", "embedding": "embedding"}[part]
        moved = [traffic for (name, *_), traffic in transfers.items() if name == wanted]
        if moved:
            longest = max(moved, key=lambda traffic: traffic.nbytes / traffic.cap)
            found[part] = dict(zip(longest.links, longest.weights, strict=True))
    links = job.cluster.links
    return {
        part: Limit(links.names[link], links.kinds[link], links.capacities[link])
        for part, loads in found.items()
        for link in [max(loads, key=lambda number: loads[number] / links.capacities[number])]
    }


def _add_bytes(totals: dict[int, float], traffic: Traffic, times: float) -> None:
    for link, weight in zip(traffic.links, traffic.weights, strict=True):
        totals[link] = totals.get(link, 0.0) + weight * traffic.nbytes * times
