r"""Closed forms of a replica's work: a static batch, and a fixed number of users.

    static batch    prompts, then a step for each further token
    fixed users     t = t_d(c) + (c - 1)/o (t_m - t_d)

with c users, o output tokens, t_d a step that decodes and t_m one that has a prompt in addition.
Requests in time, with queues and uneven lengths, belong to `engine.requests`.
"""

from typing import NamedTuple

from clustersim.serving.batch import Batch, Prompt
from clustersim.serving.service import Service


class StaticTimes(NamedTuple):
    """Times of a static batch: to the first token, between tokens, and in all [s]."""

    first: float
    token: float
    latency: float


class SteadyTimes(NamedTuple):
    """Mean times of requests of a fixed number of users [s].

    Attributes
    ----------
    first : to the first token
    token : between tokens: (latency - first) / (output - 1)
    latency : of a request
    output_rate : output tokens of all users in a second [1/s]
    running : requests that decode at the same time, which the KV cache limits
    """

    first: float
    token: float
    latency: float
    output_rate: float
    running: float


def prompt_seconds(service: Service, sequences: int, length: int) -> float:
    """Return the time to process equal prompts, in steps of as many tokens as the engine takes."""
    scheduler, left, seconds = service.engine.scheduler, sequences, 0.0
    most = scheduler.tokens.value
    at_once = max(1, most // length * service.layout.attention_data)
    if length > most and scheduler.chunked.value:
        done = 0
        while done < length:
            size = min(most, length - done)
            seconds += sequences * service.seconds(Batch(0, 0, (Prompt(size, done),)))
            done += size
        return seconds
    while left:
        some = min(left, at_once)
        seconds += service.seconds(Batch(0, 0, (Prompt(length),) * some))
        left -= some
    return seconds


def static_times(service: Service, sequences: int, prompt: int, output: int) -> StaticTimes:
    """Return the times of a batch whose requests begin and end at the same time.

    The sum over steps is Simpson's rule: steps are nearly linear in the context.
    """
    first = service.engine.first.value + prompt_seconds(service, sequences, prompt)
    if output == 1:
        return StaticTimes(first, 0.0, first)
    low, middle, high = (
        service.seconds(Batch(sequences, round(sequences * (prompt + share * output))))
        for share in (0.0, 0.5, 1.0)
    )
    token = (low + 4 * middle + high) / 6
    return StaticTimes(first, token, first + (output - 1) * token)


def steady_times(service: Service, users: int, prompt: int, output: int) -> SteadyTimes:
    """Return the mean times of requests of a fixed number of users, each waiting for its last."""
    scheduler = service.engine.scheduler
    held = output if scheduler.reserved.value else output / 2
    room = service.kv_tokens / (prompt + held)
    running = max(1.0, min(users, room, scheduler.sequences.value))
    count = round(running)
    context = round(running * (prompt + output / 2))
    decoding = service.seconds(Batch(count, context))
    alone = prompt_seconds(service, 1, prompt)
    if scheduler.mixed.value and prompt <= scheduler.tokens.value:
        mixed = service.seconds(Batch(count - 1, context, (Prompt(prompt),)))
        added = max(0.0, mixed - decoding)
    else:
        added = alone
    token = decoding + (running - 1) / output * added
    served = decoding / 2 + max(alone, added)
    latency = served + (output - 1) * token
    queued = latency * (users / running - 1) if users > running else 0.0
    first = service.engine.first.value + queued + served
    rate = running * output / latency
    return SteadyTimes(first, token, first + (output - 1) * token, rate, running)
