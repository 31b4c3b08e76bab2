"""An execution trace on a machine: its operations, with communication as traffic on links.

    trace --meetings--> one operation for what several ranks run together --groups--> traffic
          --the rest--> operations of one rank, one at a time on what runs them

Rank r runs on the r-th of the given devices.  Groups that the trace runs together have one
communicator, as those of a stage of a pipeline; others have one each and share links as flows do.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from math import isnan
from typing import Final

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.cost.compute import pass_seconds
from clustersim.cost.kernels.products import gemm_seconds
from clustersim.errors import PlanError
from clustersim.importers.traces.trace import (
    COLLECTIVE,
    COMPUTE,
    RECEIVE,
    SEND,
    Meeting,
    Node,
    NotPlaced,
    Trace,
    Work,
    count_not_placed,
)
from clustersim.program.collectives.algorithms import scalar_reduction
from clustersim.program.collectives.communicator import Communicator, Prescribed
from clustersim.program.fold import Folded, JobTraffic
from clustersim.program.movement.transfers import message_rows
from clustersim.program.operations import Operations
from clustersim.records import dataclass
from clustersim.topology.accelerator import Accelerator
from clustersim.topology.cluster import Cluster
from clustersim.traffic import LinkRows, Name, Traffic, TrafficRows
from clustersim.workload.kernels import Gemm

RECORDED: Final = "recorded"
ROOFLINE: Final = "roofline"
"""Times of operations that compute: those of the trace, or of their work where it is stated."""

assumed_format: Final = "bf16"
"""Format of the products whose FLOPs a trace states; assumed, as traces do not state it."""


def work_seconds(work: Work, device: Accelerator) -> float:
    """Return the time of some work: the longer of its products and of its passes over memory [s].

    The FLOPs are priced as those of one square product.
    """
    side = max(1, round((work.flops / 2) ** (1 / 3)))
    product = Gemm("traced", side, side, side, peak=assumed_format)
    rate = 2 * side**3 / gemm_seconds(product, device) if work.flops else 1.0
    return max(work.flops / rate, pass_seconds(work.nbytes, device))


@dataclass(frozen=True)
class Communication:
    """What several ranks of a trace run together.

    Attributes
    ----------
    operation : of the library, or `send`
    ranks : of one of the groups that run it
    groups : number of groups, or of messages, that run it at the same time
    nbytes : of the whole buffer, or of the message [B]
    number : of its operation in the graph
    """

    operation: str
    ranks: tuple[int, ...]
    groups: int
    nbytes: float
    number: int


class TracedProgram:
    """A trace as a program on some devices of a machine.

    Parameters
    ----------
    devices : of each rank
    compute : `RECORDED` or `ROOFLINE`
    fixed : prescribed algorithms, by operation

    Attributes
    ----------
    not_placed : operations that have no time, counted
    communications : in the order of their operations
    parts : by operation of the graph, the part of what it computes; empty of others
    priced : operations that compute by the work that the trace states
    """

    def __init__(
        self,
        trace: Trace,
        cluster: Cluster,
        devices: Sequence[int],
        compute: str = RECORDED,
        fixed: Mapping[str, Prescribed] | None = None,
    ) -> None:
        self.trace, self.cluster, self._compute = trace, cluster, compute
        self._devices, self._fixed = np.array(devices, dtype=np.int64), fixed or {}
        self._rows: dict[Name, TrafficRows] = {}
        self._names: dict[Hashable, Name] = {}
        self._communicators: dict[tuple[tuple[int, ...], ...], Communicator] = {}
        self._work_seconds: dict[Work, float] = {}
        self._missed: list[NotPlaced] = []
        self.priced = 0
        self.communications: list[Communication] = []
        self.parts: list[str] = []
        self._named: dict[int, Name] = {}
        self._graph = Operations()
        self._write()
        self._graph.check()
        missed = count_not_placed(self._missed)
        self.not_placed = {**trace.not_placed, **missed}

    @property
    def ranks(self) -> int:
        """Ranks of the trace."""
        return len(self.trace.ranks)

    @property
    def traffic(self) -> JobTraffic:
        """Its traffic on the links of the machine.

        Equal operations have one name and may run at the same time, so that each name with several
        has the others as a further one: a link has no room that has it for one of them alone.
        """
        uses = Counter(self._named.values())
        further = {
            ("further", *name): replace(rows, crossings=_times(rows.crossings, uses[name] - 1))
            for name, rows in self._rows.items()
            if uses[name] > 1
        }
        return JobTraffic({**self._rows, **further}, {}, np.zeros(1, dtype=np.int64))

    @property
    def carried(self) -> tuple[Integers, Floats]:
        """Bytes of one pass on each link that it uses, by number [B]."""
        totals = np.zeros(len(self.cluster.loaded))
        for number, name in self._named.items():
            crossings = self._rows[name].crossings
            moved = self._graph.traffic[number]
            assert moved is not None
            totals[crossings.links] += crossings.values * moved.nbytes
        (used,) = np.nonzero(totals)
        return used, totals[used]

    def operations(self, folded: Folded) -> Operations:
        """Return one pass through the trace, with its traffic on the links of folded replicas."""
        own = folded.traffic[0]
        for number, name in self._named.items():
            before = self._graph.traffic[number]
            assert before is not None
            self._graph.traffic[number] = own[name]._replace(nbytes=before.nbytes)
        return self._graph

    # --- the graph --------------------------------------------------------------------------------

    def _write(self) -> None:
        """Write all operations, then what each of them follows."""
        numbers: dict[tuple[int, int], int] = {}
        begun: dict[tuple[int, int], int] = {}
        for meeting in self.trace.meetings():
            number = self._meet(meeting)
            for rank, node in meeting.members:
                begun[rank, node.id] = numbers[rank, node.id] = number
                if self.trace.eager and node.kind == RECEIVE:
                    received = self._add("receive", ranks=[rank])
                    self._graph.follow(received, number)
                    begun[rank, node.id] = numbers[rank, node.id] = received
        for rank, nodes in enumerate(self.trace.ranks):
            for node in nodes:
                if node.kind == COMPUTE:
                    number = self._add(
                        node.name, seconds=self._seconds(node), ranks=[rank],
                        part=node.part, unit=(rank, node.unit) if node.unit else None,
                    )  # fmt: skip
                    begun[rank, node.id] = numbers[rank, node.id] = number
        for rank, nodes in enumerate(self.trace.ranks):
            for node in nodes:
                after = (numbers[rank, other] for other in node.after)
                self._graph.follow(begun[rank, node.id], *after)

    def _add(
        self,
        name: str,
        *,
        seconds: float = 0.0,
        traffic: Traffic | None = None,
        ranks: Sequence[int],
        part: str = "",
        unit: Hashable = None,
    ) -> int:
        self.parts.append(part)
        return self._graph.add(name, seconds=seconds, traffic=traffic, ranks=ranks, unit=unit)

    def _seconds(self, node: Node) -> float:
        """Return the time of an operation that computes [s]."""
        if node.work is None or (self._compute == RECORDED and not isnan(node.seconds)):
            return node.seconds
        self.priced += 1
        if node.work not in self._work_seconds:
            self._work_seconds[node.work] = work_seconds(node.work, self.cluster.accelerator)
        return self._work_seconds[node.work]

    def _meet(self, meeting: Meeting) -> int:
        """Add what several ranks run together; return its number."""
        node, ranks = meeting.first, [rank for rank, _ in meeting.members]
        if self.trace.eager and node.kind in (SEND, RECEIVE):
            ranks = [rank for rank, each in meeting.members if each.kind == SEND]
        operation = node.operation if node.kind == COLLECTIVE else SEND
        traffic, name = self._traffic(meeting, operation)
        number = self._add(node.name, traffic=traffic, ranks=ranks)
        if name is not None:
            self._named[number] = name
        nbytes = meeting.nbytes * node.share
        groups = len(meeting.groups)
        self.communications.append(Communication(operation, node.ranks, groups, nbytes, number))
        return number

    def _traffic(self, meeting: Meeting, operation: str) -> tuple[Traffic | None, Name | None]:
        """Return the traffic of a meeting, and the name of its links; None for no traffic."""
        node, groups = meeting.first, meeting.groups
        several = [group for group in groups if len({*group}) > 1]
        if node.kind == COLLECTIVE and not isnan(node.seconds):
            return Traffic(node.name, (), (), 0.0, node.seconds), None
        if not several:
            return None, None
        if operation == "barrier":
            latency = scalar_reduction(self._communicator(several).span, self.cluster.library)
            return Traffic(node.name, (), (), 0.0, latency), None
        name = self._rows_of(operation, meeting.nbytes, several)
        if name is None:
            return None, None
        row = self._rows[name].of_row(0)
        return row._replace(nbytes=row.nbytes * node.share), name

    def _rows_of(self, operation: str, nbytes: float, groups: list[tuple[int, ...]]) -> Name | None:
        """Return the name of an operation's traffic, made once; None where it has no algorithm."""
        key = operation, nbytes, tuple(groups)
        if key in self._names:
            return self._names[key]
        name = ("traced", len(self._rows))
        try:
            self._rows[name] = self._made(operation, nbytes, groups)
        except PlanError as problem:
            self._missed.append(NotPlaced(f"COMM_COLL {operation}", str(problem)))
            return None
        self._names[key] = name
        return name

    def _made(self, operation: str, nbytes: float, groups: list[tuple[int, ...]]) -> TrafficRows:
        title = f"{operation} over {len(groups[0])} ranks"
        if operation == SEND:
            sources, targets = (self._devices[[*ends]] for ends in zip(*groups, strict=True))
            return message_rows(self.cluster, title, nbytes, sources, targets)
        return self._communicator(groups).traffic_rows(title, operation, nbytes)

    def _communicator(self, groups: list[tuple[int, ...]]) -> Communicator:
        key = tuple(groups)
        if key not in self._communicators:
            devices = self._devices[np.array(groups)]
            self._communicators[key] = Communicator(self.cluster, devices, self._fixed)
        return self._communicators[key]


def _times(rows: LinkRows, times: int) -> LinkRows:
    """Return rows with their values several times."""
    return rows.with_values(rows.values * times)
