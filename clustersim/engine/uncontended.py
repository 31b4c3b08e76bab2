"""Uncontended replay: each transfer has its links to itself, so that ranks wait for inputs only.

The end of a transfer follows from its start, and no clock is needed to order what ranks do.
Whether the assumption held is checked afterwards, for all transfers at once.
"""

from collections import deque
from collections.abc import Iterator
from functools import cached_property, partial

import numpy as np

from clustersim.engine.network.contention_check import TransferSeries, check_delivered, contended
from clustersim.engine.rank import Rank
from clustersim.engine.state import NO_TIME, ReplayState
from clustersim.program.program import Actor, Program


class UncontendedReplay(ReplayState):
    """Rank classes whose transfers are assumed to have their links to themselves."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.ranks = [UncontendedRank(self, actor) for actor in program.actors]

    def run(self) -> None:
        """Run the steps of all ranks, then their tails by the clock."""
        ready = deque(self.ranks)
        for rank in self.ranks:
            rank.steps = rank.run_steps(ready)
        while ready:
            next(ready.popleft().steps, None)
        self.env.run_all()

    @cached_property
    def stage_transfers(self) -> list[TransferSeries]:
        """The stage transfers of all ranks."""
        return [series for rank in self.ranks for series in rank.stage_transfers()]

    def contended(self) -> bool:
        """Return whether transfers shared a link that could not serve all of them at full rate."""
        transfers = [*self.stage_transfers, *self.collectives_on_links]
        return contended(transfers, self.program.capacities)

    def check(self) -> None:
        """Check that every transfer delivered its bytes; see `Network.check` for the others."""
        self.network.check()
        check_delivered(self.stage_transfers)

    @property
    def activities(self) -> int:
        """Transfers and collectives that ran [count]."""
        return self.network.started + sum(len(series.begin) for series in self.stage_transfers)


class UncontendedRank(Rank):
    """A rank class that computes the ends of its transfers when they start.

    Attributes
    ----------
    steps : the generator of its steps
    arrivals : for each input, by its address, its departure and its arrival [s]
    channel : when each direction is free for the next transfer [s]
    departures : of the transfers of each code, where these differ from the ends of the steps [s]
    """

    state: UncontendedReplay
    steps: Iterator[None]

    def __init__(self, state: UncontendedReplay, actor: Actor) -> None:
        super().__init__(state, actor)
        self.arrivals: dict[int, tuple[float, float]] = {}
        self.channel = [0.0, 0.0]
        self.departures: list[list[float]] = [[] for _ in self.actions]

    def run_steps(self, ready: "deque[UncontendedRank]") -> Iterator[None]:
        """Run the steps; pause while an input is missing, and append resumed receivers to `ready`.

        The order in which ranks run does not change results: a rank reads only what was sent to
        it.  Long by intent: ranks pause at every other block, and a function call for each block,
        with its attribute look-ups, took 0.43 s instead of 0.35 s for 204,800 blocks.
        """
        actions, inbox, blocking = self.actions, self.arrivals, self.blocking
        free, sent, start, end = self.free, self.sent, self.start, self.end
        extra = self.extra
        ranks, first_peer = self.state.ranks, self.number - self.actor.position.stage
        now = 0.0
        for at, (code, address) in enumerate(zip(self.codes, self.inputs, strict=True)):
            (source, seconds, _, _, stage, shift, traffic, _, transfer_seconds, direction,
             leads, follows, _) = actions[code]  # fmt: skip
            departure, begin = NO_TIME, now
            if leads:
                while (missing := self._missing_input(at)) >= 0:
                    self.at, self.awaited = at, missing
                    yield
                departure, begin = self._take_both_inputs(at, now)
            elif not (source or follows):
                while (delivery := inbox.pop(address, None)) is None:
                    self.at, self.awaited = at, address
                    yield
                departure, arrival = delivery
                begin = arrival if arrival > now else now
            free.append(now)
            sent.append(departure)
            start.append(begin)
            if extra is not None:
                seconds += extra[at]
            now = computed = begin + seconds
            end.append(computed)
            if leads:
                continue
            if follows:
                now = self._send_result(at - 1, now, ready)
                now = self._send_result(at, now, ready)
            elif traffic is not None:
                departs = computed if blocking else max(computed, self.channel[direction])
                arrives = departs + transfer_seconds
                if blocking:
                    now = arrives
                else:
                    self.channel[direction] = arrives
                    self.departures[code].append(departs)
                peer, target = ranks[first_peer + stage], address + shift
                peer.arrivals[target] = departs, arrives
                if peer.awaited == target:
                    peer.awaited = -1
                    ready.append(peer)
            elif stage >= 0:
                inbox[address + shift] = computed, computed
        free.append(now)
        self._schedule_tail(now)

    def _missing_input(self, at: int) -> int:
        """Return the address of a missing input of a concurrent pair of steps; -1 for none."""
        for step in (at, at + 1):
            source = self.actions[self.codes[step]].source
            if not source and self.inputs[step] not in self.arrivals:
                return self.inputs[step]
        return -1

    def _take_both_inputs(self, at: int, now: float) -> tuple[float, float]:
        """Take the inputs of a pair of steps; return the later departure and the common start."""
        steps = [step for step in (at, at + 1) if not self.actions[self.codes[step]].source]
        deliveries = [self.arrivals.pop(self.inputs[step]) for step in steps]
        departure = max((departure for departure, _ in deliveries), default=NO_TIME)
        return departure, max([now, *(arrival for _, arrival in deliveries)])

    def _send_result(self, at: int, now: float, ready: "deque[UncontendedRank]") -> float:
        """Send the result of one step of a pair; return when the rank can continue.

        For a single step `run_steps` does the same in place.
        """
        action = self.actions[self.codes[at]]
        if action.stage < 0:
            return now
        target = self.inputs[at] + action.shift
        if action.traffic is None:
            self.arrivals[target] = now, now
            return now
        departs = now if self.blocking else max(now, self.channel[action.direction])
        arrives = departs + action.transfer_seconds
        self.departures[self.codes[at]].append(departs)
        peer = self.state.ranks[self.number - self.actor.position.stage + action.stage]
        peer.arrivals[target] = departs, arrives
        if peer.awaited == target:
            peer.awaited = -1
            ready.append(peer)
        if self.blocking:
            return arrives
        self.channel[action.direction] = arrives
        return now

    def _schedule_tail(self, done: float) -> None:
        """Schedule the overlapped reductions and what follows the last step."""
        env = self.env
        for at, group in self.completing.items():
            seconds = self.actions[self.codes[at]].duration + self.additional(at)
            begin = partial(self.start_reduction, group, seconds)
            env.call_at(self.start[at], begin)
        env.call_at(done, lambda: env.process(self.run_tail()))

    def stage_transfers(self) -> list[TransferSeries]:
        """Return the stage transfers of this rank, by code."""
        transfers: list[TransferSeries] = []
        codes, end = self.state.program.order.of[self.actor.position.stage], np.array(self.end)
        for code, action in enumerate(self.actions):
            if action.traffic is None:
                continue
            recorded = self.departures[code]
            departures = np.array(recorded) if recorded else end[codes == code]
            # Where sends do not block, both directions are in use at once.
            sender = 2 * self.number + (0 if self.blocking else action.direction)
            begin = departures + action.traffic.latency
            done = departures + action.transfer_seconds
            transfers.append(TransferSeries(sender, action.traffic, action.rate, begin, done))
        return transfers
