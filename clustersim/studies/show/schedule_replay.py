"""Replay a schedule without a machine: equal stages, free links, times in whole slots."""

from collections.abc import Mapping
from typing import Final

from clustersim.engine.replay import replay
from clustersim.metrics.unrolled import Unrolled
from clustersim.program.schedules import Schedule
from clustersim.program.steps import BACKWARD, FORWARD, INPUT, WEIGHT
from clustersim.program.uniform import uniform_program

UNITS: Final = {FORWARD: 1.0, BACKWARD: 2.0, INPUT: 1.0, WEIGHT: 1.0}
"""Times of a chunk's steps: a backward is twice a forward, and half of it is for the weights."""


def unroll(
    schedule: Schedule, stages: int, microbatches: int, chunks: int,
    seconds: Mapping[str, float] = UNITS,
) -> Unrolled:  # fmt: skip
    """Replay a schedule on equal stages and free links.

    Parameters
    ----------
    seconds : of a chunk's step, by kind
    """
    rows = schedule.rows(stages, microbatches, chunks)
    program = uniform_program(rows, schedule.wired(stages, chunks), microbatches, seconds)
    timeline = replay(program).timeline
    return Unrolled(schedule, stages, microbatches, chunks, rows, seconds, timeline)
