"""The time of a static batch in closed form: prompts, then a step for each further token.

Requests in time, with queues and uneven lengths, belong to `engine.requests`.
"""

from typing import NamedTuple

from clustersim.inference.batch import Batch, Prompt
from clustersim.inference.step_costs import StepCosts


class StaticTimes(NamedTuple):
    """Times of a static batch: to the first token, between tokens, and in all [s]."""

    first: float
    token: float
    latency: float


def prompt_seconds(costs: StepCosts, sequences: int, length: int) -> float:
    """Return the time to process equal prompts, in steps of as many tokens as the engine takes."""
    scheduler, remaining, seconds = costs.replica.engine.scheduler, sequences, 0.0
    most = scheduler.tokens
    at_once = max(1, most // length * costs.replica.layout.attention_data)
    if length > most and scheduler.chunked:
        done = 0
        while done < length:
            size = min(most, length - done)
            seconds += sequences * costs.seconds(Batch(0, 0, (Prompt(size, done),)))
            done += size
        return seconds
    while remaining:
        count = min(remaining, at_once)
        seconds += costs.seconds(Batch(0, 0, (Prompt(length),) * count))
        remaining -= count
    return seconds


def static_times(costs: StepCosts, sequences: int, prompt: int, output: int) -> StaticTimes:
    """Return the times of a batch whose requests begin and end at the same time.

    The sum over steps is Simpson's rule: steps are nearly linear in the context.
    """
    first = costs.replica.engine.first + prompt_seconds(costs, sequences, prompt)
    if output == 1:
        return StaticTimes(first, 0.0, first)
    low, middle, high = (
        costs.seconds(Batch(sequences, round(sequences * (prompt + share * output))))
        for share in (0.0, 0.5, 1.0)
    )
    token = (low + 4 * middle + high) / 6
    return StaticTimes(first, token, first + (output - 1) * token)
