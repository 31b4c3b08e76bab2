"""The order of a long batch, made from those of two short ones.

A longer batch adds whole periods to the parts of a schedule that repeat, and changes nothing else:

    8 microbatches    F0 F1  F2 B0 F3 B1 ... F7 B5           B6 B7
    9 microbatches    F0 F1  F2 B0 F3 B1 ... F7 B5 F8 B6     B7 B8

So the orders of two short batches, one period apart, show what each further period adds: how many
steps to each part, and how many microbatches to each step after it.  Steps of a schedule are made
one by one in Python; for 5 million of them that would take longer than their replay.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from clustersim.bounded_cache import BoundedCache
from clustersim.program.schedules.steps import Numbers, Order, Repetition, Schedule, order_of

LEAST_PERIODS = 4
"""Periods of a short batch, in addition to two microbatches for each stage: enough for each part
that repeats in a long batch to repeat in it."""


MOST_STEPS: Final = 2**19
"""Steps of all orders that are kept for the next layouts of a sweep; a step takes some 32 B."""

_ORDERS: Final = BoundedCache(MOST_STEPS, MOST_STEPS)


def batch_order(schedule: Schedule, stages: int, microbatches: int, chunks: int) -> Order:
    """Return the order of a schedule, from those of two short batches where the batch is long."""
    shape = schedule, stages, microbatches, chunks
    return _ORDERS.get(shape, 2 * stages * microbatches * chunks, partial(new_batch_order, *shape))


def new_batch_order(schedule: Schedule, stages: int, microbatches: int, chunks: int) -> Order:
    """Return the order of a schedule, without looking up whether it is kept."""
    period = schedule.period(stages)
    least = 2 * stages + LEAST_PERIODS * period
    short = least + (microbatches - least) % period
    if schedule.shape is None and microbatches > 2 * (short + period):
        first = batch_order(schedule, stages, short, chunks)
        second = batch_order(schedule, stages, short + period, chunks)
        stretched = _stretched(first, second, (microbatches - short) // period)
        if stretched is not None:
            return stretched
    return _written_out(schedule, stages, microbatches, chunks)


def _written_out(schedule: Schedule, stages: int, microbatches: int, chunks: int) -> Order:
    shift = schedule.period(stages) // schedule.wired(stages, chunks).copies
    return order_of(schedule.rows(stages, microbatches, chunks), chunks, shift)


def _stretched(first: Order, second: Order, periods: int) -> Order | None:
    """Return the order of a batch that is some periods longer than the first of two.

    None where the second, one period longer, differs in more than the lengths of repetitions.
    """
    columns = list[tuple[Numbers, Numbers, tuple[Repetition, ...]]]()
    pairs = zip(first.repetitions, second.repetitions, strict=True)
    for stage, (parts, others) in enumerate(pairs):
        if first.codes != second.codes or len(parts) != len(others):
            return None
        outer = _outer_steps(parts, len(first.of[stage]))
        of_other = _outer_steps(others, len(second.of[stage]))
        codes, inputs = first.of[stage][outer], first.inputs[stage][outer]
        if not np.array_equal(codes, second.of[stage][of_other]):
            return None
        inputs = inputs + periods * (second.inputs[stage][of_other] - inputs)
        columns.append(_extended(codes, inputs, parts, others, periods))
    of, all_inputs, repetitions = zip(*columns, strict=True)
    return Order(first.codes, of, all_inputs, repetitions, first.chunks)


def _outer_steps(parts: Sequence[Repetition], steps: int) -> Numbers:
    """Return the indices of a stage's steps without the inner periods of its repetitions."""
    outer = np.ones(steps, bool)
    for part in parts:
        outer[part.start + part.steps : part.stop - part.steps] = False
    return np.flatnonzero(outer)


def _extended(
    codes: Numbers, inputs: Numbers, parts: Sequence[Repetition], others: Sequence[Repetition],
    periods: int,
) -> tuple[Numbers, Numbers, tuple[Repetition, ...]]:  # fmt: skip
    """Return the kept steps with the inner periods of a longer batch, and the repetitions."""
    pieces, repetitions = list[tuple[Numbers, Numbers]](), list[Repetition]()
    done = length = removed = 0
    for part, other in zip(parts, others, strict=True):
        n = part.steps
        inner = part.stop - part.start - 2 * n
        at = part.start + n - removed  # in the kept steps, after the first period
        removed += inner
        inner += periods * ((other.stop - other.start) - (part.stop - part.start))
        index = np.arange(n, n + inner)
        first = slice(at - n, at)
        pieces.append((codes[done:at], inputs[done:at]))
        pieces.append((codes[first][index % n], inputs[first][index % n] + index // n * part.shift))
        length += at - done + inner
        done = at
        start = length - inner - n
        repetitions.append(part._replace(start=start, stop=start + inner + 2 * n))
    pieces.append((codes[done:], inputs[done:]))
    made = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    return made[0], made[1], tuple(repetitions)
