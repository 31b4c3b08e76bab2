"""A rank class: the actions of its steps, its record, and the tail after its last step.

Two subclasses execute the steps: `direct_replay.DirectRank`, without an event for each of them, and
`event_replay.EventRank`, event by event.  The tail is the same for both:
gradients are reduced over the replicas, the tied embedding over the first and the last stage, the
gradient norm over all ranks of a replica; then the optimiser runs.
"""

from collections.abc import Generator, Mapping
from functools import partial
from typing import Any, NamedTuple

from simpy.events import Event

from clustersim.engine.clock import Clock, TimeGrid
from clustersim.engine.network.limiting import limiting_links
from clustersim.engine.network.network import Network
from clustersim.engine.network.transfer import Transfer
from clustersim.program.blocks.units import Units
from clustersim.program.program import Actor, Position, Program
from clustersim.program.schedules.steps import Code, completing
from clustersim.timeline import (
    EMBEDDING,
    FORWARD,
    GRADIENTS,
    NORM,
    OPTIMISER,
    PARAMETERS,
    WEIGHT,
    CollectiveSpan,
    Floats,
    Span,
    Track,
)
from clustersim.traffic import Traffic

NO_TIME = float("nan")

Process = Generator[Event, Any, float]
"""A SimPy process that returns the instant at which its work began [s]."""


class Rendezvous:
    """A collective that begins when the last of its rank classes is ready.

    Attributes
    ----------
    missing : rank classes that are not ready yet [count]
    begun : when it began [s]
    done : event of its end
    """

    def __init__(self, env: Clock, size: int) -> None:
        self.missing = size
        self.begun = NO_TIME
        self.done = Event(env)

    def arrive(self) -> bool:
        """Count one more rank class that is ready; return whether it was the last."""
        self.missing -= 1
        return self.missing == 0


class ReplayState:
    """State that all rank classes share.

    Attributes
    ----------
    grid : of all instants of blocks and transfers
    latest : for each stage, when its last rank class was ready for the end of its reduction [s]
    collectives : collectives of several rank classes, in the order of their ends
    crossed : traffic, begin and end of those that crossed links [s]
    """

    def __init__(self, program: Program, grid: TimeGrid) -> None:
        self.program = program
        self.grid = grid
        self.env = Clock(self.grid)
        moved = program.moved
        limiting = None if moved is None else limiting_links(moved, program.capacities)
        self.network = Network(self.env, program.capacities, grid=grid, limiting=limiting)
        self._rendezvous: dict[tuple[Any, ...], Rendezvous] = {}
        self.latest: dict[int, float] = {}
        self.collectives: list[CollectiveSpan] = []
        self.crossed: list[tuple[Traffic, float, float]] = []

    def number(self, position: Position) -> int:
        """Return the index of a rank class in the program's order."""
        stages, tensor_ranks = self.program.stages, self.program.tensor_ranks
        return (position.replica * stages + position.stage) * tensor_ranks + position.tensor_rank

    def rendezvous(self, *name: Any, size: int) -> Rendezvous:
        """Return the rendezvous of a name, in which `size` rank classes take part."""
        if name not in self._rendezvous:
            self._rendezvous[name] = Rendezvous(self.env, size)
        return self._rendezvous[name]

    def record(self, transfer: Transfer) -> None:
        """Record a collective that ends now."""
        traffic, begin, end = transfer.traffic, transfer.begin, self.env._now
        self.collectives.append(CollectiveSpan(traffic.name, traffic.nbytes, begin, end))
        if traffic.links:
            self.crossed.append((traffic, begin, end))

    @property
    def ranks_of_stage(self) -> int:
        """Rank classes of one stage."""
        return self.program.classes * self.program.tensor_ranks


# --- rank classes ---------------------------------------------------------------------------------


class Action(NamedTuple):
    """What a rank class does in steps of one code.

    Attributes
    ----------
    source : whether the step needs no result of another chunk
    seconds : of a fused block; NaN where its collectives are separate operations
    segments : of the block otherwise
    duration : of the block on uncontended links [s]
    stage : that receives the result; -1 for none
    shift : address of the receiving step minus the address of this step
    traffic : of the result; None where it stays on the stage
    rate, transfer_seconds : of one flow, and time of the transfer, on uncontended links [B/s], [s]
    direction : 0 to the next stage, 1 to the previous one
    leads, follows : whether it is the first or the second step of a pair that runs concurrently;
        the first waits for the inputs of both, the second sends the results of both
    """

    source: bool
    seconds: float
    segments: tuple[float | Traffic, ...]
    duration: float
    stage: int
    shift: int
    traffic: Traffic | None
    rate: float
    transfer_seconds: float
    direction: int
    leads: bool
    follows: bool
    units: Units | None


class Rank:
    """One rank class during the replay of a step.

    Attributes
    ----------
    at : index of the current step
    extra : additional time of each step; None where steps of a code take the same time [s]
    awaited : address of the input that it waits for; -1 for none
    completing : for each step that completes the gradients of a chunk, by its index, how many
        chunks were complete before
    reducing : process of the gradient reduction that began last
    finished : whether it has finished the step
    waits_for : what an unfinished rank class waits for
    tail : of its `Track`
    """

    def __init__(self, state: ReplayState, actor: Actor) -> None:
        self.state, self.actor = state, actor
        self.env, self.network = state.env, state.network
        self.blocking = state.program.blocking
        self.finished = False
        self.waits_for = "its first step"
        self.at = 0
        self.awaited = -1
        order, stage = state.program.order, actor.position.stage
        self.number = state.number(actor.position)
        rates = state.program.rates[self.number]
        self.actions = [
            action_of(actor, rates, state.program, code, state.grid) for code in order.codes
        ]
        overlapped = actor.tail.overlapped and actor.tail.gradients
        self.completing = completing(order, stage) if overlapped else {}
        self.reducing: Event | None = None
        self.extra: list[float] | None = None if actor.extra is None else actor.extra.tolist()
        self.tail: list[Span] = []

    # --- after the last step ---------------------------------------------------------------------

    def run_tail(self) -> Generator[Event, Any, None]:
        """Reduce gradients, embedding and norm; run the optimiser; gather the parameters."""
        state, tail = self.state, self.actor.tail
        stage, replica = self.actor.position.stage, self.actor.position.replica
        if tail.overlapped and tail.gradients:
            yield from self._record(GRADIENTS, self._wait_for_reduction())
        else:
            for number, piece in enumerate(piece for pieces in tail.gradients for piece in pieces):
                name = GRADIENTS, stage, 0, number
                work = self.collective(name, piece, state.ranks_of_stage)
                yield from self._record(GRADIENTS, work)
        if tail.mirrored is not None:
            pair = min(stage, state.program.stages - 1 - stage)
            work = self.collective(("mirrored", pair), tail.mirrored, 2 * state.ranks_of_stage)
            yield from self._record(GRADIENTS, work)
        if tail.embedding is not None:
            work = self.collective((EMBEDDING,), tail.embedding, 2 * state.ranks_of_stage)
            yield from self._record(EMBEDDING, work)
        if state.program.norm_sync:
            size = state.program.stages * state.program.tensor_ranks
            traffic = Traffic(NORM, (), (), 0.0, state.program.norm_sync)
            yield from self._record(NORM, self.collective((NORM, replica), traffic, size))
        yield from self._record(OPTIMISER, self._compute_for(tail.optimiser))
        for number, gather in enumerate(tail.parameters):
            work = self.collective((PARAMETERS, stage, number), gather, state.ranks_of_stage)
            yield from self._record(PARAMETERS, work)
        self.finished = True

    def collective(self, name: tuple[Any, ...], traffic: Traffic, size: int) -> Process:
        """Take part in a collective, and wait for its end."""
        rendezvous = self.join(name, traffic, size)
        yield rendezvous.done
        return rendezvous.begun

    def join(self, name: tuple[Any, ...], traffic: Traffic, size: int) -> Rendezvous:
        """Take part in a collective that begins when all its rank classes are ready."""
        rendezvous = self.state.rendezvous(*name, size=size)
        if rendezvous.arrive():
            rendezvous.begun = float(self.env.now)
            self.network.start(traffic, partial(self._end_collective, rendezvous))
        self.waits_for = traffic.name
        return rendezvous

    def _end_collective(self, rendezvous: Rendezvous, transfer: Transfer) -> None:
        """Record a collective, and resume its rank classes."""
        self.state.record(transfer)
        rendezvous.done.succeed()

    def _compute_for(self, seconds: float) -> Process:
        begun = self.env.now
        yield self.env.after(seconds)
        return begun

    def _record(self, name: str, work: Process) -> Generator[Event, Any, None]:
        """Run an operation of the tail; record when it was ready, began and ended."""
        ready = self.env.now
        begun = yield from work
        self.tail.append(Span(name, ready, max(ready, begun), self.env.now))

    def additional(self, at: int) -> float:
        """Return the additional time of a step [s]."""
        return 0.0 if self.extra is None else self.extra[at]

    def start_reduction(self, group: int, seconds: float) -> None:
        """Reduce the gradients of a chunk while its last step, of `seconds`, completes them."""
        work = self._reduce(group, seconds, self.reducing)
        self.reducing = self.env.process(work)

    def _reduce(
        self, group: int, seconds: float, previous: Event | None
    ) -> Generator[Event, Any, None]:
        """Reduce gradients piece by piece as they are computed, after the previous chunk's."""
        stage, pieces = self.actor.position.stage, self.actor.tail.gradients[group]
        begun = self.env.now
        if previous is not None:
            yield previous
        for number, piece in enumerate(pieces):
            ready = begun + seconds * (number + 1) / len(pieces)
            if ready > self.env.now:
                yield self.env.after(ready - self.env.now)
            name = GRADIENTS, stage, group, number
            yield from self.collective(name, piece, self.state.ranks_of_stage)

    def _wait_for_reduction(self) -> Process:
        """Wait until the last piece is reduced: communication since the slowest rank is ready."""
        stage, pieces = self.actor.position.stage, self.actor.tail.gradients
        name = GRADIENTS, stage, len(pieces) - 1, len(pieces[-1]) - 1
        self.waits_for = pieces[-1][-1].name
        rendezvous = self.state.rendezvous(*name, size=self.state.ranks_of_stage)
        latest = self.state.latest
        latest[stage] = max(latest.get(stage, 0.0), float(self.env.now))
        yield rendezvous.done
        return latest[stage]

    # --- the record ------------------------------------------------------------------------------

    def missing(self) -> str:
        """Return what an unfinished rank class waits for."""
        if self.awaited >= 0:
            return (
                f"the input of {self.actor.order.step(self.actor.position.stage, self.at).unpaired}"
            )
        return self.waits_for

    def columns(self) -> dict[str, Floats]:
        """Return the columns of the `Track` that the replay records, by name [s]."""
        raise NotImplementedError

    def track(self) -> Track:
        """Return the record of this rank class."""
        position = self.actor.position
        kind, microbatch, chunk = self.state.program.order.track_columns[position.stage]
        return Track(
            replica=position.replica,
            stage=position.stage,
            tensor_rank=position.tensor_rank,
            multiplicity=self.actor.multiplicity,
            kind=kind,
            microbatch=microbatch,
            chunk=chunk,
            **self.columns(),
            tail=tuple(self.tail),
        )


def action_of(
    actor: Actor, rates: Mapping[Code, float], program: Program, code: Code, grid: TimeGrid
) -> Action:
    """Return what an actor does in steps of a code.

    Parameters
    ----------
    rates : of its transfers, as in `Program.rates`
    """
    stage, wiring = actor.position.stage, program.wiring
    forward, weight = code.kind == FORWARD, code.kind == WEIGHT
    if code not in actor.blocks:
        return NO_ACTION
    block, traffic = actor.blocks[code], actor.send[code]
    target = None if weight else wiring.onward(stage, code.chunk, forward=forward)
    rate = rates.get(code, float("inf"))
    seconds = 0.0 if traffic is None else traffic.latency + traffic.nbytes / rate
    return Action(
        source=weight or not wiring.fed(stage, code.chunk, forward=forward),
        seconds=grid.round(_fused_seconds(block.segments)),
        segments=block.segments,
        duration=block.seconds.total + block.late,
        stage=-1 if target is None else target.stage,
        shift=0 if target is None else 2 * (target.chunk - code.chunk),
        traffic=traffic,
        rate=rate,
        transfer_seconds=grid.round(seconds),
        direction=0 if wiring.upward(code.chunk, forward=forward) else 1,
        leads=code.leads,
        follows=code.paired is not None and not code.leads,
        units=block.units,
    )


NO_ACTION = Action(True, 0.0, (0.0,), 0.0, -1, 0, None, float("inf"), 0.0, 0, False, False, None)
"""Of a code that only other stages have."""


def _fused_seconds(segments: tuple[float | Traffic, ...]) -> float:
    """Return the time of a fused block; NaN for one with separate collectives [s]."""
    first, *rest = segments
    return NO_TIME if rest or isinstance(first, Traffic) else first
