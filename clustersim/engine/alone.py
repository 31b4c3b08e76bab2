"""The quick road: all transfers meet nobody, so ranks wait for inputs and for nothing else.

The end of a transfer is known when it starts, and no clock is needed to order what ranks do.
Whether the assumption held is asked afterwards, of all transfers together.
"""

from collections import deque
from functools import cached_property

import numpy as np

from clustersim.engine.passages import Passage, check_delivered, crowded
from clustersim.engine.rank import NOTHING, Crew, Rank
from clustersim.program.ops import Actor, Program


class AloneCrew(Crew):
    """Ranks whose transfers are taken to be alone."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.all = [AloneRank(self, actor) for actor in program.actors]

    def run(self) -> None:
        """Let all ranks run through their steps, then let the clock run through the rest."""
        ready = deque(self.all)
        while ready:
            ready.popleft().flow(ready)
        self.env.run_out()

    @cached_property
    def passages(self) -> list[Passage]:
        """The stage transfers of all ranks."""
        return [passage for rank in self.all for passage in rank.passages()]

    def met(self) -> bool:
        """Whether transfers that were taken to be alone would have slowed each other down."""
        return crowded([*self.passages, *self.shared], self.program.capacities)

    def check(self) -> None:
        """Refuse transfers that did not deliver their bytes; see `Network.check` for the rest."""
        self.network.check()
        check_delivered(self.passages)

    @property
    def activities(self) -> int:
        """Transfers and collectives that ran."""
        return self.network.started + sum(len(passage.begin) for passage in self.passages)


class AloneRank(Rank):
    """A rank that knows when its transfers end.

    Attributes
    ----------
    clock : up to when it has got [s]
    arrivals : for the key of a step, when its input set out and when it arrived [s]
    channel : when each direction is free for the next transfer [s]
    behind : when the transfers of each kind of step set out, where sends do not block [s]
    """

    crew: AloneCrew

    def __init__(self, crew: AloneCrew, actor: Actor) -> None:
        super().__init__(crew, actor)
        self.clock = 0.0
        self.arrivals: dict[int, tuple[float, float]] = {}
        self.channel = [0.0, 0.0]
        self.behind: list[list[float]] = [[] for _ in range(crew.codes)]

    def flow(self, ready: "deque[AloneRank]") -> None:
        """Run on until an input is missing; whoever waited for a result of this rank is ready.

        Results do not depend on whose turn it is: a rank reads only what was sent to it.
        """
        keys, rows, codes, inbox = self.keys, self.rows, self.codes, self.arrivals
        free, sent, start, end = self.free, self.sent, self.start, self.end
        others, first_peer = self.crew.all, self.number - self.actor.position.stage
        at, now = self.at, self.clock
        while at < len(keys):
            key = keys[at]
            source, seconds, _, _, traffic, _, alone, stage, shift = rows[key % codes]
            left = NOTHING
            begin = now
            if not source:
                arrival = inbox.pop(key, None)
                if arrival is None:
                    self.at, self.clock, self.wanted = at, now, key
                    return
                left, arrived = arrival
                if arrived > now:
                    begin = arrived
            free.append(now)
            sent.append(left)
            start.append(begin)
            now = computed = begin + seconds
            end.append(computed)
            at += 1
            if traffic is not None:
                leaves = computed if self.blocking else max(computed, self.channel[key % 2])
                through = leaves + alone
                if self.blocking:
                    now = through
                else:
                    self.channel[key % 2] = through
                    self.behind[key % codes].append(leaves)
                peer = others[first_peer + stage]
                peer.arrivals[key + shift] = leaves, through
                if peer.wanted == key + shift:
                    peer.wanted = -1
                    ready.append(peer)
        self.at = at
        free.append(now)
        self._go_on_at(start[-1], now)

    def _go_on_at(self, last: float, done: float) -> None:
        """Leave what follows the last step, and runs beside it, to the clock."""
        env = self.env
        if self.actor.tail.overlapped:
            length = self.rows[self.keys[-1] % self.codes].length
            env.call_at(last, lambda: env.process(self.reduce_beside(length)))
        env.call_at(done, lambda: env.process(self.after()))

    def passages(self) -> list[Passage]:
        """Return the stage transfers of this rank, by kind and chunk."""
        found: list[Passage] = []
        codes = np.array(self.keys) % self.codes
        end, through = np.array(self.end), np.array(self.free[1:])
        for code, row in enumerate(self.rows):
            if row.traffic is not None:
                rows = codes == code
                sender = 2 * self.number
                sender += 0 if self.blocking else code % 2  # then both directions go at once
                leaves = end[rows] if self.blocking else np.array(self.behind[code])
                done = through[rows] if self.blocking else leaves + row.alone
                begin = leaves + row.traffic.latency
                found.append(Passage(sender, row.traffic, row.rate, begin, done))
        return found
