"""KV blocks, and decoding sequences as sums: a step costs the same for 2 or for 2,000 of them.

Each sequence gains `gain` tokens a step.  When it joins, the step after which it finishes is known,
and so are the steps at which it needs a new KV block: every `period` steps from then on.

    step      0 1 2 3 4 5 6 7 ...
    blocks    . . + . . . + .       a sequence that joined at step 0, period 4
"""

from bisect import bisect_right
from heapq import heappop, heappush
from itertools import accumulate, cycle, islice
from math import ceil
from typing import NamedTuple

from clustersim.engine.requests.request import Request


class BlockPool:
    """Blocks of the KV cache of one replica, taken at admission and as sequences grow.

    Attributes
    ----------
    total : blocks of the pool
    used : blocks that requests hold
    peak : most blocks that were used
    tokens : tokens of a block

    >>> pool = BlockPool(total=4, tokens=16)
    >>> pool.blocks_of(17)
    2
    >>> pool.take(2)
    >>> pool.free
    2
    """

    __slots__ = ("peak", "tokens", "total", "used")

    def __init__(self, total: int, tokens: int) -> None:
        assert total > 0
        assert tokens > 0
        self.total, self.tokens = total, tokens
        self.used = self.peak = 0

    @property
    def free(self) -> int:
        """Blocks that no request holds."""
        return self.total - self.used

    def blocks_of(self, tokens: int) -> int:
        """Return the number of blocks of some tokens of one sequence."""
        return -(-tokens // self.tokens)

    def take(self, blocks: int) -> None:
        """Take blocks; there must be enough."""
        self.used += blocks
        assert self.used <= self.total, "a KV pool above its size"
        if self.used > self.peak:
            self.peak = self.used

    def release(self, blocks: int) -> None:
        """Return blocks to the pool."""
        self.used -= blocks
        assert self.used >= 0, "more KV blocks released than taken"


class Left(NamedTuple):
    """What a sequence leaves behind: its cached tokens, generated tokens and KV blocks."""

    context: float
    gained: float
    blocks: int


class Sequences:
    """Sequences that decode together.

    Attributes
    ----------
    count : number of sequences
    context : sum of their cached tokens
    step : steps that they have made
    gain : tokens that a sequence gains in a step; more than 1 with speculative decoding
    """

    def __init__(self, block_tokens: int, gain: float, *, grow: bool) -> None:
        assert gain >= 1
        self.count = self.step = 0
        self.context = 0.0
        self.gain = gain
        self._block_tokens = block_tokens
        self._period = max(1, round(block_tokens / gain))
        self._grow = grow
        self._growing = [0] * self._period
        self._finishing: dict[int, list[Request]] = {}
        self._ends: list[int] = []  # steps of these, the least first

    def join(self, request: Request, tokens: int, remaining: int) -> None:
        """Add a sequence with some cached tokens that has `remaining` tokens to generate."""
        request.joined, request.context = self.step, tokens
        last = self.step + ceil(remaining / self.gain)
        if last in self._finishing:
            self._finishing[last].append(request)
        else:
            self._finishing[last] = [request]
            heappush(self._ends, last)
        self.count += 1
        self.context += tokens
        if self._grow:
            self._growing[self._phase(request)] += 1

    def new_blocks(self) -> int:
        """Return the KV blocks that the next step needs."""
        return self._growing[self.step % self._period]

    def first_block(self, tokens: int) -> int:
        """Return the KV blocks that a sequence with some cached tokens needs when it joins."""
        return int(self._grow and not self._wait(tokens))

    def following(self, free: int, most: int) -> list[int]:
        """Return the KV blocks that steps after the next one need in all, each with those before.

        They end with the first in which a sequence ends.

        Parameters
        ----------
        free : KV blocks that they may take
        most : steps after the next one
        """
        most = min(self._ends[0] - self.step - 1, most)
        phase = (self.step + 1) % self._period
        growing = cycle(self._growing[phase:] + self._growing[:phase])
        blocks = [*accumulate(islice(growing, most))]
        return blocks if not blocks or blocks[-1] <= free else blocks[: bisect_right(blocks, free)]

    def skip(self, steps: int) -> None:
        """Make steps in which no sequence ends."""
        self.step += steps
        self.context += steps * self.gain * self.count

    def advance(self) -> list[Request]:
        """Make a step; return the requests that have all their tokens."""
        self.step += 1
        self.context += self.gain * self.count
        if self._ends[0] > self.step:
            return []
        return self._finishing.pop(heappop(self._ends))

    def leave(self, request: Request) -> Left:
        """Remove a sequence that has finished."""
        left = self._left(request)
        self.count -= 1
        self.context -= left.context
        if self._grow:
            self._growing[self._phase(request)] -= 1
        return left

    def remove(self, request: Request, remaining: int) -> Left:
        """Remove a sequence that was to generate `remaining` tokens when it joined."""
        last = request.joined + ceil(remaining / self.gain)
        self._finishing[last].remove(request)
        return self.leave(request)

    def gained(self, request: Request) -> float:
        """Return the tokens that a sequence has generated since it joined."""
        return self.gain * (self.step - request.joined)

    def _left(self, request: Request) -> Left:
        gained = self.gained(request)
        return Left(request.context + gained, gained, self._grown(request))

    def _grown(self, request: Request) -> int:
        """Return the KV blocks that a sequence has taken since it joined."""
        steps, wait = self.step - request.joined, self._wait(request.context)
        return 1 + (steps - 1 - wait) // self._period if self._grow and steps > wait else 0

    def _wait(self, tokens: int) -> int:
        """Return the steps of a sequence before the one that needs its first new block."""
        return int(-tokens % self._block_tokens / self.gain) % self._period

    def _phase(self, request: Request) -> int:
        return (request.joined + self._wait(request.context)) % self._period
