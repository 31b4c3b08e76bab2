r"""A lower bound of the memory of the first stage of many layouts at once.

.. math:: M \ge S + \sum_c n_c A_c + L

when the stage begins its first backward: S are its training states, n_c the forwards of chunk c
before that backward, A_c what a microbatch keeps in it, and L what the layer that runs holds in
addition.  Buffers, gathered layers and unused blocks are left out.
"""

from functools import lru_cache
from typing import Final

import numpy as np

from clustersim.arrays import Floats
from clustersim.program.job import Job
from clustersim.program.schedules import Schedule
from clustersim.studies.search.step.lower_bound.columns import Columns
from clustersim.studies.search.step.lower_bound.division import Division
from clustersim.studies.search.step.lower_bound.layout_values import Shape
from clustersim.studies.search.step.lower_bound.tails import TailTimes
from clustersim.timeline import FORWARD

PERIODS: Final = 4
"""Microbatches for each stage after which more of them do not change the begin of a schedule."""


def least_memory(
    shape: Shape, columns: Columns, division: Division, tails: TailTimes, job: Job
) -> Floats:
    """Return a lower bound of the memory of a device of the first stage in each column [B]."""
    states = tails.held[:, 0]
    if job.offload.activations:
        return states
    kept, running = _of_chunks(shape, columns, division)
    total, first = np.zeros(len(states)), division.number[0]
    for count in np.unique(columns.microbatches).tolist():
        own = columns.microbatches == count
        forwards, chunk = first_forwards(job.schedule, columns.stages, int(count), shape.chunks)
        cells = columns.cell[own]
        total[own] = kept[cells][:, first] @ np.array(forwards)
        if not division.last[first[chunk]]:
            total[own] += running[cells, first[chunk]]
    return states + total


def _of_chunks(shape: Shape, columns: Columns, division: Division) -> tuple[Floats, Floats]:
    """Return what chunks keep of a microbatch, and hold while they run, by cell and chunk [B]."""
    plain, running = columns.stacked("kept"), columns.stacked("running")
    remaining, during = plain, running
    if division.repeated.any():
        remaining = columns.recomputed(shape.recompute, "kept")
        during = columns.recomputed(shape.recompute, "running")
    ends = columns.stacked("kept_by_ends")
    kept = (
        plain @ (division.layers - division.repeated).T
        + remaining @ division.repeated.T
        + ends[:, :1] * division.first
        + ends[:, 1:2] * division.last
        + ends[:, 2:] * (1 - division.last)
    )
    whole = running[:, None] * (division.layers > division.repeated)
    recomputed = during[:, None] * (division.repeated > 0)
    return kept, np.maximum(whole.max(axis=2), recomputed.max(axis=2))


@lru_cache(maxsize=4096)
def first_forwards(
    schedule: Schedule, stages: int, microbatches: int, chunks: int
) -> tuple[tuple[int, ...], int]:
    """Return how many forwards of each chunk the first stage runs before its first backward.

    And the chunk of that backward.  A schedule begins alike for all long batches, unless all
    forwards come first.

    >>> from clustersim.program.schedules import SCHEDULES
    >>> first_forwards(SCHEDULES["1f1b"], stages=4, microbatches=64, chunks=1)
    ((4,), 0)
    >>> first_forwards(SCHEDULES["gpipe"], stages=4, microbatches=64, chunks=1)
    ((64,), 0)
    """
    short = PERIODS * stages
    if schedule.shape is None and microbatches > short and microbatches % stages == 0:
        forwards, chunk = first_forwards(schedule, stages, short, chunks)
        if sum(forwards) < short * chunks // schedule.wired(stages, chunks).copies:
            return forwards, chunk
    counts = [0] * chunks
    for step in schedule.steps(0, stages, microbatches, chunks):
        if step.kind != FORWARD:
            return tuple(counts), step.chunk
        counts[step.chunk] += 1
    return tuple(counts), 0
