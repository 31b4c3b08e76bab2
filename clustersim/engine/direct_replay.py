"""Direct replay: ranks run as far as their inputs allow, without an event for each block.

The end of a transfer that has its links to itself follows from its departure, and a rank needs no
clock to continue.  Only transfers that cross `shared` links, of which some carry more than they
can at full rate, go through the network, which the clock drives:

    rank 0   F0 F1 F2 F3 ... runs until an input is missing
    rank 1   F0 F1 B0 ...    resumes rank 0 with its B0
    network  advances to its next event when no rank can run

Whether the other links really had time for all transfers is checked afterwards, for all transfers
at once (`overloaded_links`).
"""

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from math import inf

import numpy as np

from clustersim.engine.clock import time_grid
from clustersim.engine.codes import Codes
from clustersim.engine.network.checks import (
    TransferSeries,
    check_delivered,
    overloaded_links,
)
from clustersim.engine.network.transfer import Transfer
from clustersim.engine.rank import NO_TIME, Action, Rank, ReplayState
from clustersim.program.program import Actor, Program
from clustersim.program.schedules.steps import Numbers
from clustersim.timeline import Floats

WINDOW = 65536
"""Steps that a rank takes at once from the arrays of its order."""


class DirectReplay(ReplayState):
    """Rank classes whose transfers have their links to themselves, but for those on shared links.

    Addresses of inputs are those of the order, numbered through all rank classes.

    Parameters
    ----------
    shared : links whose transfers go through the network

    Attributes
    ----------
    ready : rank classes that can run
    begun : start of each step of all rank classes [s]
    departed, arrived : for each address, when its transfer departed and arrived [s]; NaN before
    horizon : no rank class that is stopped sends before this instant [s]
    """

    def __init__(self, program: Program, shared: frozenset[int] = frozenset()) -> None:
        super().__init__(program, time_grid(program))
        self.shared = shared
        order = program.order
        addresses = max(int(inputs.max(initial=0)) for inputs in order.inputs) + 1
        self.addresses = addresses + -addresses % (2 * order.chunks)
        steps = np.cumsum([0] + [len(order.of[actor.position.stage]) for actor in program.actors])
        self.begun = array("d", bytes(8 * int(steps[-1])))
        self.departed = array("d", [NO_TIME]) * (self.addresses * len(program.actors))
        self.arrived = array("d", self.departed)
        self.horizon = inf
        self.ready: deque[DirectRank] = deque()
        self.ranks = [
            DirectRank(self, actor, first)
            for actor, first in zip(program.actors, steps.tolist(), strict=False)
        ]

    def run(self) -> None:
        """Run the steps of all ranks that remain, and then their tails."""
        for rank in self.ranks:
            rank.stop = inf
        self.settle(self.ranks)

    def settle(self, ranks: "Sequence[DirectRank]", *, clock: bool = True) -> None:
        """Run some rank classes, and the clock, until all are stopped, finished, or wait."""
        ready, env = self.ready, self.env
        self.horizon = inf
        ready.extend(ranks)
        while True:
            while ready:
                next(ready.popleft().steps, None)
            if not clock or not env._queue or env._queue[0][0] >= self.horizon:
                return
            env.step()

    @cached_property
    def codes(self) -> Codes:
        """What all rank classes do in steps of each code."""
        direct = [rank.actions for rank in self.ranks]
        return Codes.of([rank.every for rank in self.ranks], direct)

    @cached_property
    def _steps(self) -> tuple[Numbers, Numbers, Numbers]:
        """Rank class, code and input address of all steps, those of each rank class in order."""
        codes = [rank.codes for rank in self.ranks]
        row = np.repeat(np.arange(len(codes)), [len(each) for each in codes])
        inputs = [rank.base + rank.inputs for rank in self.ranks]
        return row, np.concatenate(codes), np.concatenate(inputs)

    @cached_property
    def columns(self) -> dict[str, Floats]:
        """Columns of the records of all rank classes, from starts of steps and transfers [s].

        Each rank class has one row more in `free` than it has steps.
        """
        row, codes, inputs = self._steps
        table = self.codes.of_steps(row, codes)
        start, seconds = np.frombuffer(self.begun), table.seconds
        for rank in self.ranks:
            if rank.extra is not None:
                seconds[rank.rows] += rank.extra
        end = start + seconds
        sent = np.where(table.waits, np.frombuffer(self.departed)[inputs], NO_TIME)
        leading = np.flatnonzero(table.leads)
        sent[leading] = np.fmax(sent[leading], sent[leading + 1])
        sent[leading + 1] = NO_TIME
        free, after = np.zeros(len(end) + len(self.ranks)), np.arange(len(end)) + row + 1
        free[after] = end
        if self.program.blocking:
            for moved in (table.moves & table.leads, table.moves & ~table.leads):
                targets = inputs[moved] + table.shift[moved]
                free[after[moved] + table.leads[moved]] = np.frombuffer(self.arrived)[targets]
        return {"free": free, "sent": sent, "start": start, "end": end}

    @cached_property
    def _results(self) -> tuple[Floats, Floats]:
        """When the results of all steps depart and arrive, those of each rank class by code [s]."""
        row, codes, inputs = self._steps
        stages = [rank.actor.position.stage for rank in self.ranks]
        by_code = [self.program.order.by_code[stage][0] for stage in stages]
        steps = np.concatenate(
            [rank.first + steps for rank, steps in zip(self.ranks, by_code, strict=True)]
        )
        targets = (inputs + self.codes.shift[row, codes])[steps]
        return np.frombuffer(self.departed)[targets], np.frombuffer(self.arrived)[targets]

    @cached_property
    def stage_transfers(self) -> list[TransferSeries]:
        """The stage transfers of all ranks that did not go through the network."""
        return [*self._series(lambda rank: enumerate(rank.actions))]

    @cached_property
    def network_transfers(self) -> list[TransferSeries]:
        """The stage transfers of all ranks that went through the network."""
        return [*self._series(lambda rank: rank.through.items())]

    def _series(
        self, actions: "Callable[[DirectRank], Iterable[tuple[int, Action]]]"
    ) -> Iterator[TransferSeries]:
        departed, arrived = self._results
        for rank in self.ranks:
            _, bounds = self.program.order.by_code[rank.actor.position.stage]
            for code, action in actions(rank):
                if action.traffic is None:
                    continue
                # Where sends do not block, both directions are in use at once.
                sender = 2 * rank.number + (0 if rank.blocking else action.direction)
                own = slice(rank.first + bounds[code], rank.first + bounds[code + 1])
                begin = departed[own] + self.grid.round(action.traffic.latency)
                yield TransferSeries(sender, action.traffic, action.rate, begin, arrived[own])

    def overloaded_links(self) -> frozenset[int]:
        """Return the links of direct transfers whose capacity was ever exceeded."""
        direct = {link for series in self.stage_transfers for link in series.traffic.links}
        transfers = [*self.stage_transfers, *self.network_transfers, *self._collectives_on_links()]
        return overloaded_links(transfers, self.program.capacities) & direct

    def _collectives_on_links(self) -> Iterator[TransferSeries]:
        """Yield the collectives of several rank classes that crossed links, each a series."""
        for number, (traffic, begin, end) in enumerate(self.crossed, 1):
            rate = traffic.uncontended_rate(self.program.capacities)
            yield TransferSeries(-number, traffic, rate, np.array([begin]), np.array([end]))

    def check(self) -> None:
        """Check that every transfer delivered its bytes; see `Network.check` for the others."""
        self.network.check()
        check_delivered(self.stage_transfers, self.grid.step)

    @property
    def activities(self) -> int:
        """Transfers and collectives that ran [count]."""
        return self.network.started + sum(len(series.begin) for series in self.stage_transfers)


class DirectRank(Rank):
    """A rank class that computes the ends of its direct transfers when they depart.

    Attributes
    ----------
    steps : the generator of its steps, replaced by another where periods are skipped
    first, base : of its steps and of its addresses in the arrays of all rank classes
    now : when it is free for its next step, while it pauses [s]
    stop : step before which it pauses
    sending : whether it waits for the delivery of a blocking send
    channel : when each direction is free for the next transfer [s]
    through : actions of the codes whose results go through the network
    outgoing : transfers through the network in each direction, where sends do not block
    unscheduled : steps that complete a chunk whose reduction is not scheduled yet
    """

    state: DirectReplay
    steps: Iterator[None]

    def __init__(self, state: DirectReplay, actor: Actor, first: int) -> None:
        super().__init__(state, actor)
        self.first, self.base = first, self.number * state.addresses
        self.codes = state.program.order.of[actor.position.stage]
        self.inputs = state.program.order.inputs[actor.position.stage]
        self.now, self.stop = 0.0, 0.0
        self.sending = False
        self.channel = [0.0, 0.0]
        self.outgoing: list[deque[Departure]] = [deque(), deque()]
        self.unscheduled = {*self.completing}
        self._first_peer = self.number - actor.position.stage
        actions = [self._with_addresses_of_all(action) for action in self.actions]
        through = {code for code, action in enumerate(actions) if self._is_shared(action)}
        if not self.blocking:
            directions = {actions[code].direction for code in through}
            sends = (code for code, action in enumerate(actions) if action.traffic is not None)
            through |= {code for code in sends if actions[code].direction in directions}
        self.through = {code: actions[code] for code in sorted(through)}
        self.actions = [
            action._replace(traffic=None, stage=-1) if code in through else action
            for code, action in enumerate(actions)
        ]
        self.steps = self.run_steps()

    def _with_addresses_of_all(self, action: Action) -> Action:
        """Return an action whose stage is the receiver's number among all rank classes."""
        if action.stage < 0:
            return action
        number = self._first_peer + action.stage
        shift = action.shift + (number - self.number) * self.state.addresses
        return action._replace(stage=number, shift=shift)

    def _is_shared(self, action: Action) -> bool:
        return action.traffic is not None and not self.state.shared.isdisjoint(action.traffic.links)

    # --- the steps -------------------------------------------------------------------------------

    def run_steps(self) -> Iterator[None]:
        """Run the steps; pause while an input is missing, and where the rank is stopped.

        The order in which ranks run does not change results: a rank reads only what was sent to
        it.  Long by intent: ranks pause at every other block, and a function call for each block,
        with its attribute look-ups, would take a quarter more time.
        """
        while self.sending:
            yield
        state, actions, blocking, base = self.state, self.actions, self.blocking, self.base
        departed, arrived, begun = state.departed, state.arrived, state.begun
        ranks, ready, channel, first = state.ranks, state.ready, self.channel, self.first
        at, now, extra = self.at, self.now, self.extra
        while at < len(self.codes):
            if at >= self.stop:
                self.at, self.now = at, now
                state.horizon = min(state.horizon, now)
                yield
                continue
            end = self._end_of_window(at)
            codes, inputs = self.codes[at:end].tolist(), (self.inputs[at:end] + base).tolist()
            for index, (code, address) in enumerate(zip(codes, inputs, strict=True), first + at):
                (source, seconds, _, _, stage, shift, traffic, _, transfer_seconds, direction,
                 leads, follows, _) = actions[code]  # fmt: skip
                begin = now
                if leads:
                    while (begin := self._begin_of_pair(index - first, now)) != begin:
                        self.at, self.now = index - first, now
                        yield
                elif not (source or follows):
                    while (arrival := arrived[address]) != arrival:
                        self.at, self.now, self.awaited = index - first, now, address
                        yield
                    begin = arrival if arrival > now else now
                begun[index] = begin
                if extra is not None:
                    seconds += extra[index - first]
                now = begin + seconds
                if leads:
                    continue
                if follows:
                    now = self._send_results_of_pair(index - first, now)
                elif traffic is not None:
                    departs = now if blocking else max(now, channel[direction])
                    arrives = departs + transfer_seconds
                    if blocking:
                        now = arrives
                    else:
                        channel[direction] = arrives
                    target = address + shift
                    departed[target], arrived[target] = departs, arrives
                    peer = ranks[stage]
                    if peer.awaited == target:
                        peer.awaited = -1
                        ready.append(peer)
                elif stage >= 0:
                    departed[address + shift] = arrived[address + shift] = now
                elif code in self.through:
                    yield from self._send_through_network(index - first, code, address, now)
                    now = self.now
            at = end
            self._schedule_reduction(end - 1)
        self.at, self.now = at, now
        self.env.call_at(now, lambda: self.env.process(self.run_tail()))

    def _end_of_window(self, at: int) -> int:
        """Return up to which step the rank may run without a look at anything but its steps."""
        end = min(self.stop, len(self.codes), at + WINDOW)
        return int(min([end, *(step + 1 for step in self.completing if step >= at)]))

    def _begin_of_pair(self, at: int, now: float) -> float:
        """Return when a pair of concurrent steps begins; NaN while an input is missing."""
        steps = [step for step in (at, at + 1) if not self.actions[self.codes[step]].source]
        addresses = [self.base + int(self.inputs[step]) for step in steps]
        arrivals = [self.state.arrived[address] for address in addresses]
        for address, arrival in zip(addresses, arrivals, strict=True):
            if arrival != arrival:
                self.awaited = address
                return NO_TIME
        return max([now, *arrivals])

    def _send_results_of_pair(self, at: int, now: float) -> float:
        """Send the results of both steps; return when the rank can continue.

        For a single step `run_steps` does the same in place.
        """
        for step in (at - 1, at):
            action = self.actions[self.codes[step]]
            if action.stage < 0:
                continue
            target = self.base + int(self.inputs[step]) + action.shift
            if action.traffic is None:
                self.state.departed[target] = self.state.arrived[target] = now
                continue
            departs = now if self.blocking else max(now, self.channel[action.direction])
            arrives = departs + action.transfer_seconds
            self.deliver(self.state.ranks[action.stage], target, departs, arrives)
            if self.blocking:
                now = arrives
            else:
                self.channel[action.direction] = arrives
        return now

    def deliver(self, peer: "DirectRank", target: int, departs: float, arrives: float) -> None:
        """Record a transfer to a rank, which resumes if it waits for it."""
        self.state.departed[target], self.state.arrived[target] = departs, arrives
        if peer.awaited == target:
            peer.awaited = -1
            self.state.ready.append(peer)

    def _send_through_network(
        self, step: int, code: int, address: int, now: float
    ) -> Iterator[None]:
        """Send the result of a step; where sends do not block, after the others before it."""
        self.at, self.now = step + 1, now
        self._schedule_reduction(step)  # it may share links with the send
        departure = Departure(self, code, address + self.through[code].shift, now)
        if self.blocking:
            self.sending = True
            self.env.depart_at(now, departure)
            while self.sending:
                yield
            return
        queue = self.outgoing[self.through[code].direction]
        queue.append(departure)
        if len(queue) == 1:
            self.env.depart_at(now, departure)

    def delivered(self, departure: "Departure", transfer: Transfer) -> None:
        """Record a transfer through the network, and continue or start the next one."""
        now = self.env._now
        action = self.through[departure.code]
        peer = self.state.ranks[action.stage]
        self.deliver(peer, departure.target, transfer.departure, now)
        if self.blocking:
            self.sending, self.now = False, now
            self.state.ready.append(self)
            return
        queue = self.outgoing[action.direction]
        queue.popleft()
        if queue:
            self.env.depart_at(max(now, queue[0].computed), queue[0])

    def _schedule_reduction(self, at: int) -> None:
        """Schedule the reduction that overlaps with a step, once, if it completes a chunk."""
        if at not in self.unscheduled:
            return
        self.unscheduled.remove(at)
        duration = self.actions[self.codes[at]].duration + self.additional(at)
        group = self.completing[at]
        begin = partial(self.start_reduction, group, duration)
        self.env.call_at(self.state.begun[self.first + at], begin)

    def skip(self, steps: int, seconds: float, busy: Sequence[float]) -> None:
        """Continue some steps later, after periods that were derived.

        Parameters
        ----------
        seconds : by which the rank is free later
        busy : by which each direction is free later [s]
        """
        self.at += steps
        self.now += seconds
        self.channel = [free + later for free, later in zip(self.channel, busy, strict=True)]
        self.awaited = -1
        self.steps = self.run_steps()

    # --- the record ------------------------------------------------------------------------------

    @property
    def every(self) -> list[Action]:
        """What it does in steps of each code, by the network as well."""
        return [self.through.get(code, action) for code, action in enumerate(self.actions)]

    @property
    def rows(self) -> slice:
        """Its steps among those of all rank classes."""
        return slice(self.first, self.first + len(self.codes))

    def columns(self) -> dict[str, Floats]:
        """Return the columns of the record, from the starts of steps and the transfers."""
        columns, begin, end = self.state.columns, self.rows.start, self.rows.stop
        own = {name: values[begin:end] for name, values in columns.items()}
        return own | {"free": columns["free"][begin + self.number : end + self.number + 1]}


class Departure:
    """A transfer that goes through the network: the event at which it starts.

    Attributes
    ----------
    rank : that sends it
    code : of the step whose result it is
    target : address that it is sent to
    computed : when the result was computed [s]
    """

    __slots__ = ("callbacks", "code", "computed", "rank", "target")

    _ok = True

    def __init__(self, rank: DirectRank, code: int, target: int, computed: float) -> None:
        self.rank, self.code, self.target, self.computed = rank, code, target, computed
        self.callbacks: list[Callable[[Departure], None]] | None = [Departure.start]

    def start(self) -> None:
        """Start the transfer now."""
        traffic = self.rank.through[self.code].traffic
        assert traffic is not None
        self.rank.network.start(traffic, self.delivered)

    def postpone(self, addresses: int, seconds: float) -> None:
        """Be the same transfer of a later period."""
        self.target += addresses
        self.computed += seconds

    def delivered(self, transfer: Transfer) -> None:
        """Pass the transfer to its rank, which delivers it."""
        self.rank.delivered(self, transfer)
