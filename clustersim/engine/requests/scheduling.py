"""How an engine forms batches: which requests share a step, and what happens when KV blocks end."""

from collections.abc import Callable
from itertools import accumulate
from math import inf
from typing import Literal

from clustersim.answers import record
from clustersim.inference.batch import Batch, Stretch, stretches_of

Seconds = Callable[[Batch], float]
"""Time of a step of one replica [s]."""

Alike = Callable[[float, Batch, float, int], list[Stretch]]
"""Times of steps that differ in their contexts alone, one after another: by the start of the first
one [s], what it processes, the sum of its cached tokens, and the number of steps."""


@record
class Scheduling:
    """The rules of an engine.

    Attributes
    ----------
    continuous : whether requests join and leave between steps; otherwise a batch is formed when
        the engine is empty, and ends with its last token
    mixed : whether prompts and decoding sequences share a step; otherwise prompts go first
    chunked : whether prompts are split at the token budget
    budget : most tokens of a step; a longer prompt that is not split has a step of its own
    sequences : most sequences of a replica
    reserve : whether a request is admitted with the KV blocks of its whole output, so that none is
        preempted
    preemption : what becomes of the KV cache of a preempted sequence
    swap : time to copy a token of the KV cache to the host, or back [s]
    ahead : whether a step is scheduled when the one before begins, so that requests which come
        later join the step after it
    wait_steps, wait_share : steps for which prompts wait while others decode, unless the tokens of
        the step are this share of the budget
    """

    continuous: bool = True
    mixed: bool = True
    chunked: bool = True
    budget: float = inf
    sequences: int = 1_000_000
    reserve: bool = False
    preemption: Literal["recompute", "swap"] = "recompute"
    swap: float = 0.0
    ahead: bool = False
    wait_steps: int = 0
    wait_share: float = 0.0


@record
class ReplicaModel:
    """A replica of an engine: its costs, its memory and its rules.

    Attributes
    ----------
    seconds : time of a step through all stages [s]
    slowest : time of a step on the slowest stage [s]
    stages : pipeline stages, and batches in flight
    blocks, block_tokens : blocks of the KV cache, and tokens of a block
    scheduling : rules for batches
    gain : tokens that a sequence gains in a step
    alike : times of steps that differ in their contexts alone, together; by `seconds` if None
    state_blocks : that a sequence has for its states, whatever its tokens
    """

    seconds: Seconds
    slowest: Seconds
    blocks: int
    block_tokens: int = 16
    stages: int = 1
    scheduling: Scheduling = Scheduling()
    gain: float = 1.0
    alike: Alike | None = None
    state_blocks: int = 0

    def room(self, tokens: float) -> int:
        """Return how many sequences of some tokens the KV cache has room for, with their states."""
        states = self.state_blocks * self.block_tokens
        return int(self.blocks * self.block_tokens / (tokens + states))

    def stretches(self, start: float, batch: Batch, context: float, steps: int) -> list[Stretch]:
        """Return the times of steps that differ in their contexts alone, one by one."""
        each = (later(batch, context, self.gain, step) for step in range(steps))
        return stretches_of([*accumulate(map(self.seconds, each), initial=start)][1:])


def later(batch: Batch, context: float, gain: float, steps: int) -> Batch:
    """Return what a step some steps later processes, where these differ in their contexts alone."""
    prompts = tuple([prompt.later(steps) for prompt in batch.prompts])
    return Batch(batch.sequences, round(context + steps * gain * batch.sequences), prompts)
