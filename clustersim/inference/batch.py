"""What a step of an inference engine processes, and the time that it takes."""

from collections.abc import Mapping
from typing import NamedTuple

from clustersim.answers import in_brief


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
