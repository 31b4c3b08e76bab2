"""Requests through replicas of an engine: the clock, the load and what is conserved.

    load --route--> replicas -------------------------------> tokens
    load --route--> prefill replicas --KV cache over links--> decode replicas --> tokens

An open load arrives at given times; a closed one has a fixed number of users, each of which sends
its next request when the last one is complete.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from simpy import Environment
from simpy.events import Event

from clustersim.arrays import Floats, Integers
from clustersim.engine.requests.handover import Handover, KvLinks
from clustersim.engine.requests.replica import Replica
from clustersim.engine.requests.request import Request
from clustersim.engine.requests.request_routing import ROUTING
from clustersim.engine.requests.scheduling import ReplicaModel
from clustersim.engine.requests.step_log import Steps


@dataclass(frozen=True, eq=False)
class Load:
    """The requests of a replay.

    Attributes
    ----------
    inputs, outputs : tokens of each request
    arrivals : when each arrives [s]; None for a closed load
    users : number of users of a closed load
    warm_up : requests before those that are measured
    complete : completed requests with which a closed load ends, warm-up included; it needs `users`
        requests more
    before : time of a request before it reaches a replica [s]
    cached : whether the KV cache of every prompt is there already
    """

    inputs: Integers
    outputs: Integers
    arrivals: Floats | None = None
    users: int = 0
    warm_up: int = 0
    complete: int = 0
    before: float = 0.0
    cached: bool = False

    @property
    def closed(self) -> bool:
        """Whether users wait for their requests."""
        return self.arrivals is None


@dataclass(frozen=True)
class Service:
    """The replicas of a service.

    Attributes
    ----------
    model : of a replica, of those for decode where there are some for prefill
    replicas : number of these
    routing : name of the way to route requests
    prefill : model of a replica for prefill; None where a replica does both
    prefill_replicas : number of these
    links : between them
    """

    model: ReplicaModel
    replicas: int = 1
    routing: str = "round-robin"
    prefill: ReplicaModel | None = None
    prefill_replicas: int = 0
    links: KvLinks | None = None


@dataclass(frozen=True, eq=False)
class ReplayedRequests:
    """What happened to the requests.

    Attributes
    ----------
    requests : those that are complete, in the order of their ends
    issued : number of requests that arrived
    steps : of each replica for decode, or for both
    prefill_steps : of each replica for prefill
    peak_blocks : most KV blocks in use, of each replica of `steps`
    begin, end : of the time in which tokens are counted [s]
    emitted : tokens generated in this time
    warm_up : requests that are not measured
    closed : whether users waited for their requests
    """

    requests: tuple[Request, ...]
    issued: int
    steps: tuple[Steps, ...]
    prefill_steps: tuple[Steps, ...]
    peak_blocks: tuple[int, ...]
    begin: float
    end: float
    emitted: float
    warm_up: int
    closed: bool

    @property
    def measured(self) -> list[Request]:
        """Requests that are measured: without those that arrived, or ended, in the warm-up."""
        if self.closed:
            return list(self.requests[self.warm_up :])
        return [request for request in self.requests if request.number >= self.warm_up]


def replay_requests(load: Load, service: Service) -> ReplayedRequests:
    """Send the requests of a load through the replicas of a service.

    Every token is counted twice, by request and by step, and every KV block must be returned.
    """
    replay = _Replay(load, service)
    replay.run()
    replay.check()
    return replay.result()


@dataclass
class _Window:
    """The time in which tokens are counted, and the requests that are complete."""

    begin: float = 0.0
    emitted: float = 0.0
    completed: list[Request] = field(default_factory=list)


class _Replay:
    """A service, its load and its clock."""

    def __init__(self, load: Load, service: Service) -> None:
        self._env = env = Environment()
        self._load, self._window, self._issued = load, _Window(), 0
        self._done: Event = env.event()
        self._replicas = [Replica(env, service.model) for _ in range(service.replicas)]
        for replica in self._replicas:
            for batcher in replica.batchers:
                batcher.finished = self._finish
        self._route = ROUTING[service.routing](self._replicas)
        self._prefill: list[Replica] = []
        self._handover: Handover | None = None
        if service.prefill is not None and service.links is not None:
            count = range(service.prefill_replicas)
            self._prefill = [Replica(env, service.prefill) for _ in count]
            self._handover = Handover(
                env, service.links, self._prefill, self._replicas, self._route
            )
            self._route = ROUTING[service.routing](self._prefill)

    def run(self) -> None:
        """Run the clock until the load is complete."""
        load = self._load
        if load.arrivals is None:
            for _ in range(load.users):
                self._issue()
        else:
            self._env.process(self._arrive(load.arrivals))
        self._env.run(until=self._done)

    def _arrive(self, arrivals: Floats) -> Generator[Event, Any, None]:
        """Let the requests of an open load arrive."""
        for arrival in arrivals.tolist():
            if arrival > self._env.now:
                yield self._env.timeout(arrival - self._env.now)
            self._issue()

    def _issue(self) -> None:
        """Let the next request arrive; it reaches a replica after the time before."""
        number, load, env = self._issued, self._load, self._env
        self._issued += 1
        request = Request(number, env.now, int(load.inputs[number]), int(load.outputs[number]))
        if number == load.warm_up and not load.closed:
            self._open_window()
        if load.before:
            event = env.timeout(load.before)
            event.callbacks.append(lambda _: self._reach(request))
        else:
            self._reach(request)

    def _reach(self, request: Request) -> None:
        """Queue a request at a replica."""
        request.transferred = self._load.cached
        self._route().add(request)

    def _finish(self, request: Request, _now: float) -> None:
        """Count a request that is complete; let its user send the next one."""
        load, completed = self._load, self._window.completed
        completed.append(request)
        if not load.closed:
            if len(completed) == len(load.inputs):
                self._done.succeed()
            return
        if len(completed) == load.warm_up:
            self._open_window()
        if len(completed) == load.complete:
            self._done.succeed()
        elif len(completed) < load.complete:
            self._issue()

    def _open_window(self) -> None:
        self._window.begin, self._window.emitted = self._env.now, self._emitted

    @property
    def _emitted(self) -> float:
        return sum(replica.emitted for replica in self._replicas)

    def check(self) -> None:
        """Check that tokens out are the tokens of the requests, and that engines are empty."""
        if self._load.closed:
            return  # it ends with requests in flight
        out = sum(request.output for request in self._window.completed)
        assert abs(self._emitted - out) < 1e-6 * out, f"{self._emitted} tokens of {out}"
        for replica in [*self._replicas, *self._prefill]:
            replica.check_empty()
        if self._handover is not None:
            self._handover.check_empty()

    def result(self) -> ReplayedRequests:
        """Return what happened."""
        window, load = self._window, self._load
        return ReplayedRequests(
            requests=tuple(window.completed),
            issued=self._issued,
            steps=_steps(self._replicas),
            prefill_steps=_steps(self._prefill),
            peak_blocks=tuple(replica.pool.peak for replica in self._replicas),
            begin=window.begin,
            end=self._env.now,
            emitted=self._emitted - window.emitted,
            warm_up=load.warm_up,
            closed=load.closed,
        )


def _steps(replicas: Sequence[Replica]) -> tuple[Steps, ...]:
    return tuple(replica.log.steps() for replica in replicas)
