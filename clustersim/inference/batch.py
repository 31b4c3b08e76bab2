"""What a step of an inference engine processes, and the time that it takes."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from clustersim.answers import in_brief
from clustersim.arrays import Floats, ranges


class Prompt(NamedTuple):
    """Prompt tokens that a step processes for a request.

    Attributes
    ----------
    tokens : new tokens: a chunk, or the whole prompt
    before : tokens of the request that are already in the KV cache
    """

    tokens: int
    before: int = 0

    def later(self, steps: int) -> "Prompt":
        """Return the chunk of the same tokens that a prompt has some steps later."""
        return Prompt(self.tokens, self.before + steps * self.tokens)


Shape = tuple[int, tuple[int, ...]]
"""Decoding sequences, and the new tokens of each prompt."""


class Batch(NamedTuple):
    """What a step of one replica processes.

    Attributes
    ----------
    sequences : decoding sequences, one token each, or one and the drafted ones
    context : sum of the cached tokens of these sequences
    prompts : of requests that have no output yet
    """

    sequences: int
    context: int
    prompts: tuple[Prompt, ...] = ()

    def __repr__(self) -> str:
        """Return the values in one short line."""
        return in_brief(self)

    @property
    def shape(self) -> Shape:
        """What does not depend on cached tokens."""
        sequences, _, prompts = self
        return sequences, tuple([prompt.tokens for prompt in prompts]) if prompts else ()


batch_of: Final = partial(tuple.__new__, Batch)
prompt_of: Final = partial(tuple.__new__, Prompt)
"""Make one from a tuple of its values: a third of the time of its constructor."""


class StepTime(NamedTuple):
    """Time of a step.

    Attributes
    ----------
    seconds : from the start of the step to its tokens, through all stages [s]
    parts : the same by cause, which add up to it [s]
    slowest : time of the slowest stage, after which the next microbatch can follow [s]
    """

    seconds: float
    parts: Mapping[str, float]
    slowest: float


# --- steps one after another ----------------------------------------------------------------------

Stretch = tuple[float, float, float, int]
"""Steps one after another whose times grow evenly: when the first begins, its time, half of the
growth from each to the next [s], and their number.

.. math:: e_k = t + k (s + g (k - 1))

is the end of the k-th, since 1 + 2 + ... + (k - 1) = k (k - 1) / 2.
"""


def end_of(stretch: Stretch) -> float:
    """Return the end of the last step [s].

    >>> end_of((10.0, 1.0, 0.5, 3))
    16.0
    """
    start, seconds, growth, steps = stretch
    return start + steps * (seconds + growth * (steps - 1))


def ends_of(stretches: Sequence[Stretch]) -> Floats:
    """Return the ends of all steps [s].

    >>> ends_of([(10.0, 1.0, 0.5, 3), (16.0, 2.0, 0.0, 1)]).tolist()
    [11.0, 13.0, 16.0, 18.0]
    """
    columns = [np.fromiter(each, float, len(each)) for each in zip(*stretches, strict=True)]
    steps = columns.pop().astype(np.int64)
    start, seconds, growth = (each.repeat(steps) for each in columns)
    number = ranges(np.ones(len(steps), np.int64), steps)
    ends: Floats = start + number * (seconds + growth * (number - 1))
    return ends


def step_until(end: float) -> list[Stretch]:
    """Return a step of which only the end is known [s]."""
    return [(end, 0.0, 0.0, 1)]


def stretches_of(ends: Sequence[float]) -> list[Stretch]:
    """Return steps of which only the ends are known [s].

    >>> ends_of(stretches_of([1.5, 2.5])).tolist()
    [1.5, 2.5]
    """
    return [(end, 0.0, 0.0, 1) for end in ends]
