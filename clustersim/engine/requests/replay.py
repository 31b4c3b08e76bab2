"""Requests through replicas of an engine: the clock, the load and what is conserved.

    load --route--> replicas -------------------------------> tokens
    load --route--> prefill replicas --KV cache over links--> decode replicas --> tokens

An open load arrives at given times; a closed one has a fixed number of users, each of which sends
its next request when the last one is complete.  A replay can end before its last request, when a
review of the complete requests ends it.
"""

from collections.abc import Callable
from math import inf

from clustersim.answers import in_brief
from clustersim.arrays import Floats, Integers
from clustersim.engine.clock import CONTINUOUS, Clock
from clustersim.engine.requests.completed import CompletedRequests, RequestRecord
from clustersim.engine.requests.front_end import NO_INTAKE, FrontEnd, Intake
from clustersim.engine.requests.handover import NO_PASSAGE, Handover, KvLinks, Passage
from clustersim.engine.requests.replica import ROUTING, ReplicaProcess
from clustersim.engine.requests.request import Request
from clustersim.engine.requests.scheduling import ReplicaModel
from clustersim.engine.requests.steps import LEAST_STEPS, MOST_STEPS, Steps
from clustersim.records import dataclass

Review = Callable[[CompletedRequests], int]
"""Returns after how many complete requests, in the order of their ends, the next review is; 0 ends
the replay."""


@dataclass(frozen=True, eq=False)
class RequestLoad:
    """The requests of a replay.

    Attributes
    ----------
    inputs, outputs : tokens of each request
    arrivals : when each arrives [s]; None for a closed load
    users : number of users of a closed load
    warm_up : requests before those that are measured
    complete : completed requests with which a closed load ends, warm-up included; it needs `users`
        requests more; unless a review ends it
    intake : time of a request in the front end, for which it keeps others from coming
    after : time of a first token after the engine; later ones do not wait for it [s]
    cached : whether the KV cache of every prompt is there already
    review : ends a load; None to end it with `complete`, or with all requests of an open load
    """

    inputs: Integers
    outputs: Integers
    arrivals: Floats | None = None
    users: int = 0
    warm_up: int = 0
    complete: int = 0
    intake: Intake = NO_INTAKE
    after: float = 0.0
    cached: bool = False
    review: Review | None = None

    @property
    def closed(self) -> bool:
        """Whether users wait for their requests."""
        return self.arrivals is None


@dataclass(frozen=True)
class Deployment:
    """The replicas of a service.

    Attributes
    ----------
    model : of a replica, of those for decode where there are some for prefill
    replicas : number of these
    routing : name of the way to route requests
    prefill : model of a replica for prefill; None where a replica does both
    prefill_replicas : number of these
    links : between them
    passage : what requests pass from these to the others
    """

    model: ReplicaModel
    replicas: int = 1
    routing: str = "round-robin"
    prefill: ReplicaModel | None = None
    prefill_replicas: int = 0
    links: KvLinks | None = None
    passage: Passage = NO_PASSAGE


@dataclass(frozen=True, eq=False, repr=False)
class ReplayedRequests:
    """What happened to the requests.

    Attributes
    ----------
    requests : those that are complete, in the order of their ends
    steps : of each replica for decode, or for both
    prefill_steps : of each replica for prefill
    peak_blocks : most KV blocks in use, of each replica of `steps`
    measured : requests that are measured: without those that arrived, or ended, in the warm-up
    begin, end : of the time in which tokens are counted [s]
    emitted : tokens generated in this time
    """

    requests: CompletedRequests
    steps: tuple[Steps, ...]
    prefill_steps: tuple[Steps, ...]
    peak_blocks: tuple[int, ...]
    measured: CompletedRequests
    begin: float
    end: float
    emitted: float

    __repr__ = in_brief

    @property
    def seconds(self) -> float:
        """Time in which tokens are counted [s]."""
        return self.end - self.begin


def replay_requests(load: RequestLoad, deployment: Deployment) -> ReplayedRequests:
    """Send the requests of a load through the replicas of a service.

    Every token is counted twice, by request and by step, and every KV block must be returned.
    """
    replay = _Replay(load, deployment)
    replay.run()
    replay.check()
    return replay.result()


class _Replay:
    """A deployment, its load and its clock."""

    def __init__(self, load: RequestLoad, deployment: Deployment) -> None:
        self._clock = clock = Clock(CONTINUOUS)
        self._load, self._issued = load, 0
        self._front = front = FrontEnd(load.intake)
        self._reached = (self._reach,)
        self._completed = RequestRecord(load.inputs, load.outputs)
        self._begin = self._emitted_before = 0.0  # of the time in which tokens are counted
        self._done = False
        self._reviewed = load.complete if load.closed else len(load.inputs)  # complete ones
        if load.review is not None:
            self._reviewed = load.review(self._completed.requests())
        most = _most_steps(load, deployment)
        self._replicas = _processes(clock, front, deployment.model, deployment.replicas, most)
        for replica in self._replicas:
            for batcher in replica.batchers:
                batcher.finished = self._finish
        routing = ROUTING[deployment.routing]
        self._route = routing(self._replicas)
        self._prefill: list[ReplicaProcess] = []
        self._handover: Handover | None = None
        if deployment.prefill is not None and deployment.links is not None:
            self._prefill = _processes(
                clock, front, deployment.prefill, deployment.prefill_replicas, most
            )
            self._handover = Handover(
                clock,
                deployment.links,
                self._prefill,
                self._replicas,
                self._route,
                deployment.passage,
            )
            self._route = routing(self._prefill)

    def run(self) -> None:
        """Run the clock until the load is complete."""
        load = self._load
        if load.arrivals is None:
            for _ in range(load.users):
                self._issue()
        else:
            self._arrive(load.arrivals)
        self._clock.run_all()
        assert self._done, "a request has no event left"

    def _arrive(self, arrivals: Floats) -> None:
        """Let the requests of an open load arrive, as far as it is time; wait for the next one."""
        while self._issued < len(arrivals):
            arrival = arrivals.item(self._issued)
            if arrival > self._clock.now:
                self._clock.call_at(arrival, lambda: self._arrive(arrivals))
                return
            self._issue()

    def _issue(self) -> None:
        """Let the next request arrive; it reaches a replica after the front end."""
        number, load, now = self._issued, self._load, self._clock.now
        self._issued += 1
        tokens = load.inputs.item(number), load.outputs.item(number)
        request = Request(number, now, *tokens, self._reached)
        if number == load.warm_up and not load.closed:
            self._begin_count()
        reached = self._front.take(now, request.input)
        if reached > now:
            self._clock.schedule_at(reached, request)
        else:
            self._reach(request)

    def _reach(self, request: Request) -> None:
        """Queue a request at a replica."""
        request.reached, request.transferred = self._clock.now, self._load.cached
        self._route().add(request)

    def _finish(self, request: Request, now: float) -> None:
        """Send the last token of a request, no sooner than its first one."""
        request.first += self._load.after
        if request.first > now:
            request.finish = request.first
            self._clock.call_at(request.first, lambda: self._complete(request))
        else:
            self._complete(request)

    def _complete(self, request: Request) -> None:
        """Count a request that is complete; let its user send the next one."""
        load, completed = self._load, self._completed.add(request)
        if self._done:
            return
        if completed == self._reviewed:
            self._reviewed = load.review(self._completed.requests()) if load.review else 0
            if not self._reviewed:
                self._done = True
                self._clock.call_at(self._clock.now, self._clock.stop)  # after others of now
                return
        if load.arrivals is None:
            if completed == load.warm_up:
                self._begin_count()
            if self._issued < len(load.inputs):
                self._issue()

    def _begin_count(self) -> None:
        self._begin, self._emitted_before = self._clock.now, self._emitted

    @property
    def _emitted(self) -> float:
        return sum(replica.emitted for replica in self._replicas)

    def check(self) -> None:
        """Check that tokens out are the tokens of the requests, and that engines are empty."""
        if self._load.closed or len(self._completed) < len(self._load.inputs):
            return  # it ends with requests in flight
        out = int(self._load.outputs.sum())
        assert abs(self._emitted - out) < 1e-6 * out, f"{self._emitted} tokens of {out}"
        for replica in [*self._replicas, *self._prefill]:
            replica.check_empty()
        if self._handover is not None:
            self._handover.check_empty()

    def result(self) -> ReplayedRequests:
        """Return what happened."""
        warm_up, completed = self._load.warm_up, self._completed.requests()
        in_order = self._load.closed or not warm_up  # then no column is copied
        chosen = slice(warm_up, None) if in_order else completed.number >= warm_up
        return ReplayedRequests(
            requests=completed,
            steps=tuple(replica.steps() for replica in self._replicas),
            prefill_steps=tuple(replica.steps() for replica in self._prefill),
            peak_blocks=tuple(replica.pool.peak for replica in self._replicas),
            measured=completed[chosen],
            begin=self._begin,
            end=self._clock.now,
            emitted=self._emitted - self._emitted_before,
        )


def _most_steps(load: RequestLoad, deployment: Deployment) -> float:
    """Return how many steps the record of a replica has; what is reviewed needs all of them."""
    if load.review is not None:
        return inf
    replicas = deployment.replicas + deployment.prefill_replicas
    return max(MOST_STEPS / replicas, LEAST_STEPS)


def _processes(
    clock: Clock, front: FrontEnd, model: ReplicaModel, count: int, most_steps: float
) -> list[ReplicaProcess]:
    return [ReplicaProcess(clock, model, front, most_steps) for _ in range(count)]
