"""From a placed plan to a program: for each rank class its steps, blocks, transfers and tail.

    kernels of a layer --cost--> seconds --times layers--> block of each (stage, chunk, kind)
    stage boundaries, data groups --routes--> traffic on links --fold--> one actor for each class

Blocks are costed once for each distinct share of layers, not for each microbatch: a step of a
trillion parameters has 205,000 blocks of six kinds.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from clustersim.catalog.records import FrameworkRecord
from clustersim.cost import collectives as closed
from clustersim.cost.compute import Seconds, chain_seconds, stream_seconds
from clustersim.plan.parallelism import Plan
from clustersim.plan.placement import Placement
from clustersim.program.collectives.ring import Load, ring_load
from clustersim.program.fold import Folded, Name, alone_rate, fold
from clustersim.program.ops import (
    BACKWARD,
    FORWARD,
    Actor,
    Block,
    Fused,
    LinkUse,
    Position,
    Program,
    Step,
    Tail,
    hand_over,
)
from clustersim.program.schedules import grid
from clustersim.topology.cluster import Cluster
from clustersim.traffic import Traffic
from clustersim.workload import kernels as work
from clustersim.workload.kernels import Collective, Kernel, KernelChoice, Slice
from clustersim.workload.memory import rank_parameters
from clustersim.workload.model import Transformer

KINDS = (FORWARD, BACKWARD)
MOST_BUCKETS = 16
"""Pieces that an overlapped gradient reduction is replayed in, at most."""


@dataclass(frozen=True)
class Job:
    """Everything that decides a program: what is trained, how, and on what.

    Attributes
    ----------
    precision : of the matrix products, ``fp16`` or ``bf16``
    recompute : ``none`` or ``full``
    """

    cluster: Cluster
    model: Transformer
    plan: Plan
    framework: FrameworkRecord
    precision: str
    recompute: str

    @cached_property
    def placement(self) -> Placement:
        """Ranks on devices."""
        return Placement(self.plan)

    @cached_property
    def part(self) -> Slice:
        """What one tensor rank computes on for one microbatch."""
        facts = self.framework.kernels
        choice = KernelChoice(
            attention=facts.attention.value,
            bias_gelu_fused=facts.bias_gelu_fused.value,
            bias_dropout_fused=facts.bias_dropout_fused.value,
            gradient_accumulation=facts.gradient_accumulation.value,
            loss_forward=facts.loss_forward.value,
            loss_backward=facts.loss_backward.value,
        )
        return Slice(self.model, self.plan.micro, self.plan.tensor, choice)

    def ends(self, stage: int, chunk: int) -> tuple[bool, bool]:
        """Return whether a chunk holds the embedding, and whether it holds the logits."""
        plan = self.plan
        virtual = chunk * plan.pipeline + stage
        return virtual == 0, virtual == plan.pipeline * plan.chunks - 1

    def parameters(self, stage: int) -> float:
        """Return the parameters that one rank of a stage holds."""
        plan = self.plan
        layers = sum(plan.layers_of(self.model, stage, chunk) for chunk in range(plan.chunks))
        first, last = stage == 0, stage == plan.pipeline - 1
        return rank_parameters(self.model, plan.tensor, layers, first=first, last=last)


def compile_program(job: Job, *, together: bool, fusion_bound: float) -> Program:
    """Return the program of a job.

    Parameters
    ----------
    together : whether ranks that behave alike are replayed as one
    fusion_bound : most that other traffic may change a fused block, share of its time
    """
    plan = job.plan
    rings = _TensorRings(job)
    sends = [_sends(job, replica) for replica in range(plan.data)]
    joint = _joint(job)
    bound = _fusion_bound(job, rings, sends, joint)
    whole = bound <= fusion_bound
    if not whole:
        for replica, transfers in enumerate(sends):
            transfers.update(rings.traffic(replica))
    links = job.cluster.links
    carried = _carried(job, rings, sends, joint)
    kinds = [rings.kinds(replica) for replica in range(plan.data)]
    folded = fold(sends, joint, links.capacities, links.names, kinds, together=together)
    return Program(
        actors=tuple(_actors(job, rings, folded, whole=whole, together=together)),
        stages=plan.pipeline,
        chunks=plan.chunks,
        microbatches=plan.microbatches,
        parts=1 if together else plan.tensor,
        blocking=job.framework.pipeline.blocking.value,
        norm_sync=_norm_sync(job),
        capacities=folded.capacities,
        link_names=folded.link_names,
        fused=Fused(whole, bound),
        carried=carried,
    )


# --- blocks --------------------------------------------------------------------------------------


class _TensorRings:
    """The ring of every tensor group, and what blocks take with it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._loads: dict[tuple[int, int], Load] = {}
        self._blocks: dict[Hashable, tuple[Seconds, Seconds]] = {}

    def load(self, stage: int, replica: int) -> Load:
        """Return the load of a group's ring on the links."""
        if (stage, replica) not in self._loads:
            group = self.job.placement.tensor_group(stage, replica)
            self._loads[stage, replica] = ring_load(self.job.cluster, [group])
        return self._loads[stage, replica]

    def pattern(self, stage: int, replica: int) -> tuple[float, int]:
        """Return what a block's time depends on: the ring's bandwidth [B/s] and its nodes."""
        if self.job.plan.tensor == 1:
            return math.inf, 1
        load = self.load(stage, replica)
        return load.bandwidth(self.job.cluster.links.capacities), load.nodes

    def kinds(self, replica: int) -> Hashable:
        """Return the patterns of all stages of a replica."""
        return tuple(self.pattern(stage, replica) for stage in range(self.job.plan.pipeline))

    def cost(self, collective: Collective, pattern: tuple[float, int]) -> closed.Cost:
        """Return the closed form of a collective of a group."""
        bandwidth, nodes = pattern
        tensor, library = self.job.plan.tensor, self.job.cluster.library
        return closed.ring(
            collective.operation, collective.nbytes, tensor, nodes, bandwidth, library
        )

    def block(
        self, stage: int, chunk: int, kind: str, pattern: tuple[float, int]
    ) -> tuple[Seconds, Seconds]:
        """Return the time of a block, and of it what is computed a second time."""
        job = self.job
        layers = job.plan.layers_of(job.model, stage, chunk)
        key = (layers, *job.ends(stage, chunk), kind, pattern)
        if key not in self._blocks:
            self._blocks[key] = self._costed(stage, chunk, kind, layers, pattern)
        return self._blocks[key]

    def _costed(
        self, stage: int, chunk: int, kind: str, layers: int, pattern: tuple[float, int]
    ) -> tuple[Seconds, Seconds]:
        job = self.job

        def chain(kernels: Sequence[Kernel]) -> Seconds:
            return chain_seconds(
                kernels,
                job.cluster.accelerator,
                job.precision,
                lambda collective: self.cost(collective, pattern).seconds,
            )

        before, layer, again, after = _parts(job, stage, chunk, kind)
        repeated = chain(again) * layers
        seconds = chain(before) + chain(layer) * layers + repeated + chain(after)
        return seconds.dispatched(job.framework.dispatch.value), repeated

    def traffic(self, replica: int) -> dict[Name, Traffic]:
        """Return the collectives of a replica's tensor groups as traffic, by name."""
        found: dict[Name, Traffic] = {}
        for stage in range(self.job.plan.pipeline):
            pattern, load = self.pattern(stage, replica), self.load(stage, replica)
            for collective in _collectives(self.job, stage):
                cost = self.cost(collective, pattern)
                found[_tensor_name(stage, collective)] = Traffic(
                    f"{collective.operation} of tensor group, stage {stage}",
                    load.links,
                    load.weights,
                    cost.wire_bytes,
                    cost.latency,
                )
        return found


def _parts(
    job: Job, stage: int, chunk: int, kind: str
) -> tuple[list[Kernel], list[Kernel], list[Kernel], list[Kernel]]:
    """Return the kernels of a block: before, each layer, each layer again, and after."""
    part, first_last = job.part, job.ends(stage, chunk)
    first, last = first_last
    facts = job.framework.pipeline
    gathers = facts.gathers_forward if kind == FORWARD else facts.gathers_backward
    received = not (first if kind == FORWARD else last)
    times = gathers.value if facts.sharded.value and received else 0
    handed = work.boundary_gather(part, times)
    if kind == FORWARD:
        below = work.embedding_forward(part) if first else []
        above = work.head_forward(part) if last else []
        return handed + below, work.layer_forward(part), [], above
    above = work.head_backward(part) if last else []
    below = work.embedding_backward(part) if first else []
    again = work.layer_forward(part) if job.recompute == "full" else []
    return handed + above, work.layer_backward(part), again, below


def _collectives(job: Job, stage: int) -> list[Collective]:
    """Return each different collective of a stage's blocks once."""
    found: dict[tuple[str, float], Collective] = {}
    for chunk in range(job.plan.chunks):
        for kind in KINDS:
            for kernels in _parts(job, stage, chunk, kind):
                for kernel in kernels:
                    if isinstance(kernel, Collective):
                        found[kernel.operation, kernel.nbytes] = kernel
    return list(found.values())


def _tensor_name(stage: int, collective: Collective) -> Name:
    return ("tensor", collective.operation, stage, collective.nbytes)


def _segments(
    job: Job, stage: int, chunk: int, kind: str, dispatch: float, traffic: dict[Name, Traffic]
) -> tuple[float | Traffic, ...]:
    """Return a block as times of kernels with its collectives between them.

    Parameters
    ----------
    dispatch : by how much the host is slower than the whole block, at the end of it [s]
    """
    before, layer, again, after = _parts(job, stage, chunk, kind)
    layers = job.plan.layers_of(job.model, stage, chunk)
    segments: list[float | Traffic] = []
    seconds = 0.0
    for kernel in [*before, *((again + layer) * layers), *after]:
        if isinstance(kernel, Collective):
            segments += [seconds, traffic[_tensor_name(stage, kernel)]]
            seconds = 0.0
        else:
            device, precision = job.cluster.accelerator, job.precision
            seconds += chain_seconds([kernel], device, precision, lambda _: 0.0).compute
    return (*segments, seconds + dispatch)


# --- traffic -------------------------------------------------------------------------------------


def _sends(job: Job, replica: int) -> dict[Name, Traffic]:
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


def _joint(job: Job) -> dict[Name, Traffic]:
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


def _norm_sync(job: Job) -> float:
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


def _fusion_bound(
    job: Job, rings: _TensorRings, sends: Sequence[dict[Name, Traffic]], joint: dict[Name, Traffic]
) -> float:
    """Return the most that other traffic can lengthen a forward and backward, share of it.

    While a stage does one microbatch forward and backward, each transfer on the links of its
    tensor group happens at most once, and delays the ring by no more than its own bytes take.
    """
    plan, capacities = job.plan, job.cluster.links.capacities
    if plan.tensor == 1:
        return 0.0
    others: dict[int, float] = {}
    for transfers in sends:
        for traffic in transfers.values():
            _add_bytes(others, traffic, 1.0)
    if _overlapped(job):
        for (kind, *_), traffic in joint.items():
            if kind == "gradients":
                _add_bytes(others, traffic, 1.0 / plan.microbatches)
    worst = 0.0
    for replica in range(plan.data):
        for stage in range(plan.pipeline):
            pattern = rings.pattern(stage, replica)
            taken = min(
                sum(rings.block(stage, chunk, kind, pattern)[0].total for kind in KINDS)
                for chunk in range(plan.chunks)
            )
            links = rings.load(stage, replica).links
            delay = max(others.get(link, 0.0) / capacities[link] for link in links)
            worst = max(worst, delay / taken)
    return worst


def _carried(
    job: Job, rings: _TensorRings, sends: Sequence[dict[Name, Traffic]], joint: dict[Name, Traffic]
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
        for stage in range(plan.pipeline):
            wire: dict[tuple[float, int], float] = {}
            for replica in range(plan.data):
                load, pattern = rings.load(stage, replica), rings.pattern(stage, replica)
                if pattern not in wire:
                    wire[pattern] = _tensor_wire(job, rings, stage, pattern)
                payload = wire[pattern]
                for link, weight in zip(load.links, load.weights, strict=True):
                    totals[link] = totals.get(link, 0.0) + weight * payload * plan.microbatches
    links = job.cluster.links
    return tuple(
        LinkUse(links.names[link], links.capacities[link], nbytes)
        for link, nbytes in sorted(totals.items())
    )


def _tensor_wire(job: Job, rings: _TensorRings, stage: int, pattern: tuple[float, int]) -> float:
    """Return what each hop of a tensor group's ring carries for one microbatch [B]."""
    wire = 0.0
    for chunk in range(job.plan.chunks):
        layers = job.plan.layers_of(job.model, stage, chunk)
        for kind in KINDS:
            before, layer, again, after = _parts(job, stage, chunk, kind)
            for kernels, times in ((before, 1), (layer, layers), (again, layers), (after, 1)):
                for kernel in kernels:
                    if isinstance(kernel, Collective):
                        wire += times * rings.cost(kernel, pattern).wire_bytes
    return wire


def _add_bytes(totals: dict[int, float], traffic: Traffic, times: float) -> None:
    for link, weight in zip(traffic.links, traffic.weights, strict=True):
        totals[link] = totals.get(link, 0.0) + weight * traffic.nbytes * times


def _overlapped(job: Job) -> bool:
    when = job.framework.gradients.overlap.value
    return when == "always" or (when == "without-pipeline" and job.plan.pipeline == 1)


# --- actors --------------------------------------------------------------------------------------


def _actors(
    job: Job, rings: _TensorRings, folded: Folded, *, whole: bool, together: bool
) -> list[Actor]:
    """Return the actors: by replica class, then stage, then tensor part where not folded."""
    plan = job.plan
    rows = grid(plan.schedule, plan.pipeline, plan.microbatches, plan.chunks)
    tails = [_tail(job, stage, folded) for stage in range(plan.pipeline)]
    actors = []
    for number, replicas in enumerate(folded.classes):
        for stage, steps in enumerate(rows):
            pattern = rings.pattern(stage, replicas[0])
            blocks, send = {}, {}
            for chunk in range(plan.chunks):
                for kind in KINDS:
                    seconds, again = rings.block(stage, chunk, kind, pattern)
                    segments: tuple[float | Traffic, ...] = (seconds.total,)
                    if not whole:
                        own = {n: t for (n, c), t in folded.traffic.items() if c == number}
                        segments = _segments(job, stage, chunk, kind, seconds.dispatch, own)
                    blocks[kind, chunk] = Block(seconds, again, segments)
                    send[kind, chunk] = _send(plan, folded, number, stage, kind, chunk)
            multiplicity = len(replicas) * (plan.tensor if together else 1)
            for part in range(1 if together else plan.tensor):
                position = Position(number, stage, part)
                actors.append(
                    Actor(position, multiplicity, replicas, steps, blocks, send, tails[stage])
                )
    return actors


def _send(
    plan: Plan, folded: Folded, number: int, stage: int, kind: str, chunk: int
) -> Traffic | None:
    from_here = hand_over(Step(kind, 0, chunk), stage, plan.pipeline, plan.chunks)
    if from_here is None or plan.pipeline == 1:
        return None
    return folded.traffic[("send", kind, stage), number]


def _tail(job: Job, stage: int, folded: Folded) -> Tail:
    """Return what follows the last step of a stage."""
    plan, facts, device = job.plan, job.framework.optimiser, job.cluster.accelerator
    held = job.parameters(stage)
    updated = held / plan.data if plan.zero else held
    moved = facts.held.value * held + facts.updated.value * updated
    overlapped = _overlapped(job)
    reduction = folded.joint.get(("gradients", stage))
    pieces = min(MOST_BUCKETS, job.model.layers) if overlapped else 1
    ends = stage in (0, plan.pipeline - 1)
    return Tail(
        gradients=()
        if reduction is None
        else (reduction._replace(nbytes=reduction.nbytes / pieces),) * pieces,
        overlapped=overlapped,
        embedding=folded.joint.get(("embedding",)) if ends else None,
        optimiser=stream_seconds(moved, device),
        parameters=folded.joint.get(("parameters", stage)),
    )
