"""KV caches on their way from replicas for prefill to those for decode, over the machine's links.

prompt complete --passage--> queued for decode --blocks there--> transfer --> joins the next step
(holds its blocks for prefill until the transfer is complete)
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from clustersim.engine.clock import Clock
from clustersim.engine.network.network import Network
from clustersim.engine.requests.batcher import Batcher
from clustersim.engine.requests.replica import ReplicaProcess, Route
from clustersim.engine.requests.request import Request
from clustersim.records import dataclass
from clustersim.traffic import Traffic


@dataclass(frozen=True, eq=False)
class KvLinks:
    """The links over which KV caches move.

    Attributes
    ----------
    capacities : of all links [B/s]
    traffic : of the KV cache of some tokens, from a replica for prefill to one for decode, by
        their numbers; without the part that moves while the prompt is processed
    """

    capacities: Sequence[float]
    traffic: Callable[[int, int, int], Traffic]


class Passage(NamedTuple):
    """What a request passes from one pool to the other.

    Attributes
    ----------
    seconds : until it is at the pool for decode: the output of one engine, and the front end of the
        other, which has the tokens of the prompt [s]
    recomputed : whether the last token of the prompt is, there, for the first token
    """

    seconds: float = 0.0
    recomputed: bool = False


NO_PASSAGE: Final = Passage()
"""Pools between which no engine has a time of its own."""


class Sender(NamedTuple):
    """The replica that holds the KV cache of a request until it has moved, and its blocks."""

    replica: int
    blocks: int


class Handover:
    """Moves KV caches between two pools of replicas.

    Attributes
    ----------
    network : the links, with the transfers in flight
    """

    def __init__(
        self,
        clock: Clock,
        links: KvLinks,
        senders: Sequence[ReplicaProcess],
        receivers: Sequence[ReplicaProcess],
        route: Route,
        passage: Passage,
    ) -> None:
        self.network = Network(clock, links.capacities)
        self._clock, self._passage = clock, passage
        self._links, self._senders, self._receivers = links, senders, receivers
        self._route = route
        self._moving: dict[Request, Sender] = {}
        for number, replica in enumerate(senders):
            for batcher in replica.batchers:
                batcher.handoff = partial(self._queue, number)
        for number, replica in enumerate(receivers):
            for batcher in replica.batchers:
                batcher.fetch = partial(self._start, number, batcher)
                batcher.recomputed = passage.recomputed

    def _queue(self, sender: int, request: Request) -> None:
        """Queue a request whose prompt is complete at a replica for decode."""
        self._moving[request] = Sender(sender, request.blocks)
        request.transferred = True
        reached = self._clock.now + self._passage.seconds
        self._clock.call_at(reached, lambda: self._route().add(request))

    def _start(self, receiver: int, batcher: Batcher, request: Request) -> None:
        """Start the transfer of a KV cache to the replica that has blocks for it."""
        traffic = self._links.traffic(self._moving[request].replica, receiver, request.prompt)
        self.network.start(traffic, lambda _: self._deliver(receiver, batcher, request))

    def _deliver(self, receiver: int, batcher: Batcher, request: Request) -> None:
        """Let a request decode, and return the KV blocks that it held for prefill."""
        number, blocks = self._moving.pop(request)
        sender = self._senders[number]
        sender.pool.release(blocks)
        sender.wake()
        batcher.arrive(request)
        self._receivers[receiver].wake()

    def check_empty(self) -> None:
        """Check that all KV caches arrived within the capacities of the links."""
        assert not self._moving, "a KV cache is on its way"
        self.network.check()
