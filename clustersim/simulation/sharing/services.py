"""A service on a shared machine: the mean step of its replicas, with its traffic between nodes.

    requests --replayed alone--> mean batch --> compute, then its messages between nodes --> step
                                 prompts ----> KV caches from pool to pool, next to the step

What stays in a node is part of the computing.  All replicas begin a step together, so that a step
takes as long as that of the slowest one.
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.errors import ScenarioError
from clustersim.inference.batch import Batch
from clustersim.inference.step_costs import Sent
from clustersim.program.collectives.communicator import Communicator
from clustersim.program.fold import Folded, JobTraffic
from clustersim.program.operations import Operations
from clustersim.records import dataclass
from clustersim.scenario.load import LoadedService
from clustersim.simulation.service.attribution import mean_step
from clustersim.simulation.service.pools import Pool
from clustersim.simulation.service.result import ServeResult
from clustersim.simulation.service.serve import serve
from clustersim.simulation.sharing.job import SharedJob
from clustersim.topology.cluster import Cluster
from clustersim.traffic import Name, TrafficRows, bytes_by_link, link_rows, stacked


@dataclass(frozen=True, eq=False)
class _Message:
    """One kind of message of a step, of all replicas in which it crosses the network.

    Attributes
    ----------
    sent : what it is of
    names : of its traffic, of groups that send at the same time
    """

    sent: Sent
    names: tuple[Name, ...]


class SharedService(SharedJob):
    """A job that repeats the mean step of a service.

    Parameters
    ----------
    nodes : of the service, in the order of its devices
    """

    kind = "service"

    def __init__(
        self, name: str, loaded: LoadedService, nodes: tuple[int, ...], cluster: Cluster,
        start: float,
    ) -> None:  # fmt: skip
        self._result = serve(loaded)
        if self._result.replayed is None:
            memory = self._result.memory.verdict
            raise ScenarioError(f"{loaded.name}: the service serves nothing: {memory}")
        super().__init__(name, nodes, start)
        self._cluster, self._loaded = cluster, loaded
        self._pool, self._batch = _stepping(self._result)
        self._seconds = self._pool.costs.step(self._batch).seconds
        self._own: dict[Name, TrafficRows] = {}
        self._joint: dict[Name, TrafficRows] = {}
        self._messages = [*self._sent()]
        if len(self._result.pools) > 1:
            self._hand_over()

    # --- its traffic ------------------------------------------------------------------------------

    def _sent(self) -> Iterator[_Message]:
        """Yield the messages of a step that cross the network, with their traffic."""
        for sent in self._pool.costs.sent(self._batch):
            groups = self._groups(sent.part)
            if not (groups // self._size != groups[..., :1] // self._size).any():
                continue
            names: list[Name] = []
            for number in range(groups.shape[1]):
                names.append((sent.part, number))
                rows = [self._row(names[-1], each, sent) for each in groups[:, number]]
                self._own[names[-1]] = _joined(names[-1], rows)
            yield _Message(sent, tuple(names))

    @property
    def _size(self) -> int:
        return self._cluster.node.devices

    def _groups(self, part: str) -> Integers:
        """Return the devices of each group that sends together, by replica and group."""
        pool, layout = self._pool, self._pool.layout
        replicas = np.arange(pool.replicas).reshape(-1, 1, 1, 1, 1) * layout.devices
        mesh = self._placed(layout.mesh + pool.first + replicas)
        if part == "tensor":
            return mesh.reshape(pool.replicas, -1, layout.tensor)
        if part == "pipeline":
            ends = np.stack([mesh[:, :-1], mesh[:, 1:]], axis=-1)
            return ends.reshape(pool.replicas, -1, 2)
        return mesh.reshape(pool.replicas, layout.pipeline, -1)

    def _placed(self, devices: Integers) -> Integers:
        """Return devices of the service as devices of the shared machine."""
        nodes, local = np.divmod(devices, self._size)
        placed: Integers = np.array(self.nodes, dtype=np.int64)[nodes] * self._size + local
        return placed

    def _row(self, name: Name, group: Integers, sent: Sent) -> TrafficRows:
        """Return what a group sends in a step, which takes as long as alone in the service."""
        communicator = Communicator(self._cluster, group.reshape(1, -1))
        one = communicator.traffic_rows(str(name), sent.operation, sent.nbytes)
        nbytes = one.nbytes * sent.repeats
        rate = one.uncontended_rates(self._cluster.links.capacities)
        latency = np.maximum(sent.seconds - nbytes / rate, 0.0)
        return TrafficRows(one.name, one.crossings, nbytes, latency, one.cap)

    def _hand_over(self) -> None:
        """Add the KV caches that move from pool to pool in the time of a step."""
        prefill, decode = self._result.pools
        rates = self._result.rates
        memory = decode.costs.memory
        prompts = rates["total_tokens_per_s"] - rates["output_tokens_per_s"]
        states = rates["requests_per_s"] * memory.state
        nbytes = (prompts + states) * memory.token * self._seconds
        senders, receivers = (
            self._placed(np.arange(pool.devices) + pool.first) for pool in (prefill, decode)
        )
        count = max(len(senders), len(receivers))
        pairs = np.resize(senders, count), np.resize(receivers, count)
        routes = self._cluster.routes(*pairs)
        zeros = np.zeros(len(routes.links), dtype=np.int64)
        crossings = link_rows(zeros, routes.links, routes.shares, 1)
        each, cap = np.array([nbytes / count]), np.full(1, np.inf)
        self._joint["KV caches",] = TrafficRows("KV caches", crossings, each, np.zeros(1), cap)

    # --- as a job ---------------------------------------------------------------------------------

    @cached_property
    def carried(self) -> tuple[Integers, Floats]:
        """Bytes of one step on each link that it uses, by number [B]."""
        rows = (*self._own.values(), *self._joint.values())
        return bytes_by_link(each.carried for each in rows)

    @property
    def traffic(self) -> JobTraffic:
        """Its traffic on the links of the machine."""
        return JobTraffic(self._own, self._joint, np.zeros(self._pool.replicas, dtype=np.int64))

    @property
    def alone(self) -> None:
        """No time of a step with the machine to itself: a replay states it."""

    def operations(self, folded: Folded) -> Operations:
        """Return a step as a graph of operations: each class computes, then sends part by part.

        What the engine overlaps is sent while it computes.
        """
        graph = Operations()
        for traffic in folded.joint.values():
            graph.add(traffic.name, traffic=traffic)
        after = [message for message in self._messages if not message.sent.overlapped]
        between = sum(message.sent.seconds for message in after)
        for of_class in folded.traffic:
            last = [graph.add("step", seconds=max(0.0, self._seconds - between))]
            for message in self._messages:
                before = last if message in after else []
                sends = [graph.add(str(n), before, traffic=of_class[n]) for n in message.names]
                last = sends if message in after else last
        return graph


def _stepping(result: ServeResult) -> tuple[Pool, Batch]:
    """Return the pool whose steps are repeated, and its mean batch."""
    assert result.replayed is not None, "checked before"
    if any(map(len, result.replayed.steps)):
        return result.pools[-1], mean_step(result.replayed.steps)
    return result.pools[0], mean_step(result.replayed.prefill_steps)


def _joined(name: Name, rows: list[TrafficRows]) -> TrafficRows:
    """Return the rows of all replicas as one table."""
    amounts = (np.concatenate([getattr(row, key) for row in rows])
               for key in ("nbytes", "latency", "cap"))  # fmt: skip
    return TrafficRows(str(name), stacked([row.crossings for row in rows]), *amounts)
