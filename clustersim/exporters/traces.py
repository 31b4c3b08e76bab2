"""A training step written out as an execution trace: each rank's operations, with their messages.

    scenario --compiled, no rank folded--> graph of operations --by rank--> trace

Collectives inside blocks are operations of their own where the program has them as such; ranks of
a tensor group, and groups of a stage, run theirs together.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from clustersim.arrays import Integers
from clustersim.engine.program_operations import READY, REQUEST, operations_of
from clustersim.errors import ScenarioError
from clustersim.importers.traces.trace import (
    COLLECTIVE,
    COMPUTE,
    DEVICE,
    RECEIVE,
    SEND,
    Kind,
    Node,
    Trace,
)
from clustersim.program.collectives.axes import OF_CELL, groups_along
from clustersim.program.compile import Compilation
from clustersim.program.job import Job
from clustersim.program.links.usage import inner_title
from clustersim.program.movement.transfers import (
    gathers,
    hops_of,
    reductions,
    sent_bytes,
    stage_title,
    sums_of_stages,
)
from clustersim.program.operations import Operations
from clustersim.program.program import Program
from clustersim.scenario.load import Loaded
from clustersim.simulation.step.build import build_job
from clustersim.timeline import NORM
from clustersim.traffic import Traffic
from clustersim.workload.kernels import Axis

TIMERS: Final = (READY, REQUEST, "network", "from-host", "to-host")
"""Operations that take time next to those of the device."""

MOST_STEPS: Final = 1_000_000
"""Steps of all ranks that are written out."""


class Message(NamedTuple):
    """What a communication of a program moves.

    Attributes
    ----------
    operation : of the library, or `send`
    nbytes : of the whole buffer, or of each message [B]
    groups : devices of each group that runs it at the same time
    whole : bytes of one of its flows, of the whole buffer [B]
    """

    operation: str
    nbytes: float
    groups: Integers
    whole: float


def trace_of(loaded: Loaded, most: int = MOST_STEPS) -> tuple[Trace, Operations, Program]:
    """Return the step of a scenario as a trace, as a graph of operations, and as a program.

    Raises
    ------
    ScenarioError
        when the step has too many operations.
    """
    job = build_job(loaded)
    plan = job.plan
    steps = plan.ranks * len(job.order.of[0])
    if steps > most:
        raise ScenarioError(
            f"{loaded.where('plan')}: {plan.ranks:,} ranks have {steps:,} steps, and at most"
            f" {most:,} are written out (fewer replicas or microbatches)"
        )
    compilation = unfused(job)
    (folded,) = compilation.replicas.unfolded()
    program = compilation.program(folded)
    whole = {traffic.name: traffic.nbytes for traffic in folded.joint.values()}
    writer = _Writer(job, program, Messages(job, compilation, whole))
    notes = [] if program.fused.whole else ["collectives inside blocks are operations"]
    if off := job.framework.algorithms_off:
        name = loaded.scenario.framework.name
        notes.append(
            f"a trace does not state that {name} turns off {', '.join(off)}: a replay may choose"
            " them (name others in collectives)"
        )
    return Trace("chakra", loaded.name, writer.ranks(), notes=tuple(notes)), writer.graph, program


def unfused(job: Job) -> Compilation:
    """Return a job compiled with the collectives of its blocks as operations of their own.

    Two steps that run concurrently on a device keep the closed form of theirs.
    """
    if any(code.paired for code in job.order.codes):
        return Compilation(job, fusion_bound=1.0)
    alone = Compilation(job, fusion_bound=-1.0)
    if alone.inner.axes in ([], ["tensor"]) and not job.offload.any:
        return alone
    return Compilation(job, fusion_bound=0.0, met=np.ones(len(job.cluster.links), dtype=np.bool_))


class Messages:
    """What the communications of a program move, by their titles.

    Parameters
    ----------
    whole : bytes of a flow of the collectives of all replicas, by title [B]
    """

    def __init__(self, job: Job, compilation: Compilation, whole: Mapping[str, float]) -> None:
        self._job, self._compilation = job, compilation
        self._targets = {hop.title: hop.to for hop in hops_of(job).values()}
        self._joint = {
            title: each._replace(whole=whole[title]) for title, each in self._of_stages()
        }
        self._inner = dict(self._in_blocks())

    def of(self, traffic: Traffic, position: tuple[int, int], device: int) -> Message | None:
        """Return what a communication moves; None of one that is only a latency.

        Parameters
        ----------
        position : replica and stage of a rank that takes part
        device : of that rank, whose own message it is
        """
        title, (replica, stage) = traffic.name, position
        cells = self._job.placement.cells
        if title in self._targets:
            index = np.flatnonzero(cells[stage, replica] == device)[0]
            target = cells[self._targets[title], replica, index]
            pair = np.array([[device, target]])
            return Message(SEND, sent_bytes(self._job), pair, traffic.nbytes)
        if title in self._joint:
            return self._joint[title]
        if (title, traffic.nbytes) in self._inner:
            axis, message = self._inner[title, traffic.nbytes]
            row = stage * self._job.plan.data + replica if axis in OF_CELL else stage
            return message._replace(groups=groups_along(self._job.placement, axis)[row])
        assert title == NORM, title
        return None

    def _of_stages(self) -> Iterator[tuple[str, Message]]:
        job = self._job
        for stage in range(job.plan.pipeline):
            trained = job.weights.trained(stage)
            for axis, operation, nbytes in (*reductions(job, trained), *gathers(job, trained)):
                groups = groups_along(job.placement, axis)[stage]
                title = stage_title(axis, operation, groups.shape[1], stage)
                yield title, Message(operation, nbytes, groups, 0.0)
        for _, title, nbytes, groups in sums_of_stages(job):
            yield title, Message("all-reduce", nbytes, groups, 0.0)

    def _in_blocks(self) -> Iterator[tuple[tuple[str, float], tuple[Axis, Message]]]:
        inner = self._compilation.inner
        for stage, calls in enumerate(inner.calls):
            for call in calls.all:
                for wire in np.unique(inner.of(stage, call).nbytes).tolist():
                    none = np.zeros((0, 0), dtype=np.int64)
                    message = Message(call.operation, call.nbytes, none, wire)
                    yield (inner_title(stage, call), wire), (call.axis, message)


class _Writer:
    """The operations of each rank, from the graph of all.

    Ranks are numbered as their devices.  Operations without a time are left out: what follows them
    follows what they follow.
    """

    def __init__(self, job: Job, program: Program, messages: Messages) -> None:
        self.graph: Operations = operations_of(program)
        self._messages, self._plan = messages, job.plan
        cells = job.placement.cells
        self._positions = [
            (actor.replicas[0], actor.position.stage, actor.position.tensor_rank)
            for actor in program.actors
        ]
        self._devices = [
            int(cells[stage, replica, index]) for replica, stage, index in self._positions
        ]
        numbers = {device: rank for rank, device in enumerate(sorted(self._devices))}
        self._rank_of = numbers
        self._nodes: list[list[Node]] = [[] for _ in numbers]
        self._ends: list[dict[int, tuple[int, ...]]] = [{} for _ in range(len(self.graph))]
        self._received: dict[tuple[int, int], int] = {}

    def ranks(self) -> list[list[Node]]:
        """Return the operations of each rank, each after those that it follows."""
        for number in _in_order(self.graph):
            for actor in self.graph.ranks[number]:
                self._write(number, actor)
        return self._nodes

    def _write(self, number: int, actor: int) -> None:
        """Write the part of an operation that is of a rank."""
        graph, rank = self.graph, self._rank_of[self._devices[actor]]
        after = self._after(number, actor)
        traffic, seconds = graph.traffic[number], graph.seconds[number]
        if traffic is None and not seconds:
            self._ends[number][actor] = after
            return
        if traffic is None:
            unit = "" if graph.names[number] in TIMERS else DEVICE
            node = Node(number, graph.names[number], COMPUTE, after, seconds, unit)
        else:
            node = self._communication(number, actor, traffic, after)
        self._nodes[rank].append(node)
        self._ends[number][actor] = (number,)

    def _after(self, number: int, actor: int) -> tuple[int, ...]:
        """Return what an operation of a rank follows in its rank: its own, and what it receives."""
        graph, own, others = self.graph, dict[int, None](), []
        for before in graph.after[number]:
            if actor in self._ends[before]:
                own |= dict.fromkeys(self._ends[before][actor])
            elif len(graph.ranks[number]) == 1:
                others.append(before)
        follows = tuple(own)
        return (*follows, *(self._receive(before, actor, follows) for before in others))

    def _receive(self, send: int, actor: int, after: tuple[int, ...]) -> int:
        """Receive what another rank sends; return the number of the operation."""
        if (send, actor) in self._received:
            return self._received[send, actor]
        traffic, target = self.graph.traffic[send], self._devices[actor]
        assert traffic is not None
        source = next(
            each
            for each in self.graph.ranks[send]
            if self._positions[each][2] == self._positions[actor][2]
        )
        ends = (self._rank_of[self._devices[source]], self._rank_of[target])
        nodes = self._nodes[self._rank_of[target]]
        number = len(self.graph) + len(self._received)
        nbytes = self._message(traffic, source).nbytes
        name = f"receive {traffic.name.removeprefix('send ')}"
        nodes.append(
            Node(number, name, RECEIVE, after, nbytes=nbytes, ranks=ends, tag=send, together=send)
        )
        self._received[send, actor] = number
        return number

    def _message(self, traffic: Traffic, actor: int) -> Message:
        replica, stage, _ = self._positions[actor]
        message = self._messages.of(traffic, (replica, stage), self._devices[actor])
        assert message is not None
        return message

    def _communication(
        self, number: int, actor: int, traffic: Traffic, after: tuple[int, ...]
    ) -> Node:
        replica, stage, _ = self._positions[actor]
        device = self._devices[actor]
        message = self._messages.of(traffic, (replica, stage), device)
        if message is None:  # the norm: an all-reduce of two numbers, of which the latency counts
            everyone = tuple(
                sorted(self._rank_of[self._devices[each]] for each in self.graph.ranks[number])
            )
            return Node(
                number, traffic.name, COLLECTIVE, after, traffic.latency,
                operation="all-reduce", nbytes=8.0, ranks=everyone, together=number,
            )  # fmt: skip
        group = next(group for group in message.groups.tolist() if device in group)
        ranks = tuple(self._rank_of[each] for each in group)
        share = traffic.nbytes / message.whole if message.whole else 1.0
        kind: Kind = SEND if message.operation == SEND else COLLECTIVE
        return Node(
            number, traffic.name, kind, after, np.nan if kind == COLLECTIVE else 0.0,
            operation="" if kind == SEND else message.operation, nbytes=message.nbytes, ranks=ranks,
            tag=number, together=number, share=share,
        )  # fmt: skip


def _in_order(graph: Operations) -> Iterator[int]:
    """Yield the operations of a graph, each after those that it follows."""
    missing = [len(before) for before in graph.after]
    ready = [number for number, count in enumerate(missing) if not count]
    for number in ready:  # which grows
        yield number
        for follower in graph.followers[number]:
            missing[follower] -= 1
            if not missing[follower]:
                ready.append(follower)
