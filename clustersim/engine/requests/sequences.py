"""KV blocks, and decoding sequences as sums: a step costs the same for 2 or for 2,000 of them.

Each sequence gains `gain` tokens a step.  When it joins, the step after which it finishes is known,
and so are the steps at which it needs a new KV block: every `period` steps from then on.

    step      0 1 2 3 4 5 6 7 ...
    blocks    . . + . . . + .       a sequence that joined at step 0, period 4
"""

from bisect import bisect_right
from heapq import heappop, heappush
from itertools import accumulate
from math import ceil

from clustersim.engine.requests.request import Request


class BlockPool:
    """Blocks of the KV cache of one replica, taken at admission and as sequences grow.

    Attributes
    ----------
    total : blocks of the pool
    free : blocks that no request holds
    peak : most blocks that were used
    tokens : tokens of a block
    state : blocks that a sequence has for its states, whatever its tokens

    >>> pool = BlockPool(total=4, tokens=16)
    >>> pool.blocks_of(17)
    2
    >>> pool.take(2)
    >>> pool.free
    2
    """

    __slots__ = ("free", "peak", "state", "tokens", "total")

    def __init__(self, total: int, tokens: int, state: int = 0) -> None:
        assert total > 0
        assert tokens > 0
        self.total, self.tokens, self.state = total, tokens, state
        self.free, self.peak = total, 0

    @property
    def used(self) -> int:
        """Blocks that requests hold."""
        return self.total - self.free

    def blocks_of(self, tokens: int) -> int:
        """Return the number of blocks of one sequence of some tokens."""
        return self.state - (-tokens // self.tokens)

    def held(self, tokens: float) -> float:
        """Return the tokens that take as much as some tokens of one sequence and its states."""
        return tokens + self.state * self.tokens

    def take(self, blocks: int) -> None:
        """Take blocks; there must be enough."""
        self.free -= blocks
        assert self.free >= 0, "a KV pool above its size"
        if self.total - self.free > self.peak:
            self.peak = self.total - self.free

    def release(self, blocks: int) -> None:
        """Return blocks to the pool."""
        self.free += blocks
        assert self.free <= self.total, "more KV blocks released than taken"


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
        self.context = self._begun = 0.0  # tokens that are cached, and were when they joined
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
        request.grows = self.step + self._wait(tokens)
        last = self.step + ceil(remaining / self.gain)
        if last in self._finishing:
            self._finishing[last].append(request)
        else:
            self._finishing[last] = [request]
            heappush(self._ends, last)
        self.count += 1
        self.context += tokens
        self._begun += tokens
        if self._grow:
            self._growing[request.grows % self._period] += 1

    @property
    def gained(self) -> float:
        """Tokens that they have generated since they joined."""
        return self.context - self._begun

    def new_blocks(self) -> int:
        """Return the KV blocks that the next step needs."""
        return self._growing[self.step % self._period]

    def first_block(self, tokens: int) -> int:
        """Return the KV blocks that a sequence with some cached tokens needs when it joins."""
        return int(self._grow and not self._wait(tokens))

    def following(self, free: int, most: int) -> list[int]:
        """Return the KV blocks that each of the steps after the next one needs.

        They end with the first in which a sequence ends.

        Parameters
        ----------
        free : KV blocks that they may take
        most : steps after the next one
        """
        most = min(self._ends[0] - self.step - 1, most)
        period, phase = self._period, (self.step + 1) % self._period
        blocks = (self._growing * ((phase + most) // period + 1))[phase : phase + most]
        if sum(blocks) > free:
            del blocks[bisect_right([*accumulate(blocks)], free) :]
        return blocks

    def advance(self, steps: int) -> list[Request]:
        """Make steps, of which no request ends before the last one; return those that then do."""
        self.step += steps
        self.context += steps * self.gain * self.count
        if self._ends[0] > self.step:
            return []
        return self._finishing.pop(heappop(self._ends))

    def leave(self, request: Request) -> int:
        """Remove a sequence; return the KV blocks that it has taken since it joined."""
        self.count -= 1
        self.context -= request.context + self.gain * (self.step - request.joined)
        self._begun -= request.context
        if not self._grow:
            return 0
        self._growing[request.grows % self._period] -= 1
        steps = self.step - request.grows
        return 1 + (steps - 1) // self._period if steps > 0 else 0

    def remove(self, request: Request, remaining: int) -> int:
        """Remove a sequence that was to generate `remaining` tokens when it joined, likewise."""
        last = request.joined + ceil(remaining / self.gain)
        self._finishing[last].remove(request)
        return self.leave(request)

    def gained_by(self, request: Request) -> float:
        """Return the tokens that a sequence has generated since it joined."""
        return self.gain * (self.step - request.joined)

    def _wait(self, tokens: int) -> int:
        """Return the steps of a sequence before the one that needs its first new block."""
        return int(-tokens % self._block_tokens / self.gain) % self._period
