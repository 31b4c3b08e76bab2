"""A proven lower bound of the memory of many layouts at once, which needs none of their times.

cells --layers added--> bytes of chunks --first forwards--> activations of the first stage
degrees, sharding --parameters of the first stage--> its training states
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.memory.peak import kept_output, running_layer
from clustersim.memory.states import memory_recipe
from clustersim.program.job import Job
from clustersim.program.schedules import Schedule
from clustersim.program.weights import on_rank
from clustersim.studies.search.step.lower_bound.cell_times import stacked_layers
from clustersim.studies.search.step.lower_bound.columns import Column
from clustersim.studies.search.step.lower_bound.division import Division
from clustersim.studies.search.step.lower_bound.jobs import LayoutJobs
from clustersim.studies.search.step.lower_bound.layout_values import Cell, Layout, Shape
from clustersim.studies.search.step.lower_bound.stage_parameters import StageParameters
from clustersim.timeline import FORWARD
from clustersim.workload.ops import NONE, Recompute, kept
from clustersim.workload.parameters import Parameters


class CellBytes:
    """What a microbatch holds in one cell.

    Attributes
    ----------
    ends : kept by embedding and logits, and by a chunk without logits for its output [B]
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._layers: dict[Recompute, Floats] = {}
        layers = job.layers
        self.ends = kept(layers.embedding), kept(layers.head), kept_output(job)

    def layers(self, recompute: Recompute) -> Floats:
        """Return what is kept of layers, and held in their backward, by kind of layer [B]."""
        if recompute not in self._layers:
            layers, job = stacked_layers(self._job, recompute), self._job
            self._layers[recompute] = np.array(
                [
                    [job.layers.kept(layer) for layer in layers],
                    [running_layer(job, [layer]) for layer in layers],
                ]
            )
        return self._layers[recompute]


@dataclass(frozen=True, eq=False)
class HeldColumns:
    """Columns of layouts with the same number of stages, by what their devices hold.

    Attributes
    ----------
    of : cells with their sharding
    stages : of the pipeline
    cells : the bytes of the different cells
    cell : which of the different cells each column has
    microbatches : of a replica
    """

    of: tuple[Column, ...]
    stages: int
    cells: tuple[CellBytes, ...]
    cell: Integers
    microbatches: Integers

    def layers(self, recompute: Recompute) -> tuple[Floats, Floats]:
        """Return the bytes of layers of all different cells, as `CellBytes.layers` [B]."""
        once = Recompute(recompute.mode, recompute.ops)
        if once not in self._stacked:
            self._stacked[once] = np.stack([cell.layers(once) for cell in self.cells], axis=1)
        kept_of, running = self._stacked[once]
        return kept_of, running

    @cached_property
    def ends(self) -> Floats:
        """The bytes of the ends of the model, as `CellBytes.ends`, of all different cells [B]."""
        return np.array([cell.ends for cell in self.cells])

    @cached_property
    def microbatch_counts(self) -> list[tuple[int, Integers]]:
        """The different numbers of microbatches, with the columns that have each."""
        counts = np.unique(self.microbatches).tolist()
        return [(count, np.flatnonzero(self.microbatches == count)) for count in counts]

    @cached_property
    def states(self) -> dict[object, Floats]:
        """Training states of the first stage that are known, by its content [B]."""
        return {}

    @cached_property
    def _stacked(self) -> dict[Recompute, Any]:
        return {}


class MemoryBounds:
    """Lower bounds of the memory of the layouts of one scenario."""

    def __init__(self, jobs: LayoutJobs) -> None:
        self._jobs = jobs
        self._cells: dict[Cell, CellBytes] = {}
        self._stages: dict[object, tuple[Job, StageParameters]] = {}
        self._states: dict[object, float] = {}

    def columns(self, requested: Sequence[Column], stages: int) -> HeldColumns:
        """Return columns of layouts with some number of stages."""
        numbers: dict[CellBytes, int] = {}
        cells, microbatches = [], []
        for cell, _ in requested:
            alike = self._jobs.alike(cell)
            if alike not in self._cells:
                self._cells[alike] = CellBytes(self._jobs.of_cell(alike))
            cells.append(numbers.setdefault(self._cells[alike], len(numbers)))
            microbatches.append(self._jobs.microbatches(cell))
        return HeldColumns(
            of=tuple(requested),
            stages=stages,
            cells=tuple(numbers),
            cell=np.array(cells, dtype=np.int64),
            microbatches=np.array(microbatches, dtype=np.int64),
        )

    def least(self, shape: Shape, columns: HeldColumns, division: Division, job: Job) -> Floats:
        """Return a lower bound of the memory of a device of the first stage in each column [B].

        Parameters
        ----------
        job : of this shape in some column
        """
        states = self._of_states(shape, columns, division)
        if job.offload.activations:
            return states
        kept_of, running = _of_chunks(shape, columns, division)
        total, first = np.zeros(len(states)), division.number[0]
        for count, own in columns.microbatch_counts:
            forwards, chunk = first_forwards(job.schedule, columns.stages, count, shape.chunks)
            cells = columns.cell[own]
            total[own] = kept_of[cells][:, first] @ np.array(forwards)
            if not division.last[first[chunk]]:
                total[own] += running[cells, first[chunk]]
        return states + total

    def _of_states(self, shape: Shape, columns: HeldColumns, division: Division) -> Floats:
        """Return the training states of the first stage of a shape in each column [B]."""
        wiring, kinds = self._jobs.schedule(shape.schedule).wiring, division.stage_kinds
        own = kinds.number[0]
        layers, first, last = kinds.layers[own].tolist(), kinds.first[own], kinds.last[own]
        content = wiring, *layers, first, last
        if content not in columns.states:
            found = []
            for cell, sharding in columns.of:
                layout = cell.mesh._replace(order=()), sharding, wiring
                key = *layout, content
                if key not in self._states:
                    if layout not in self._stages:
                        job = self._jobs.job(Layout(cell, shape, sharding))
                        self._stages[layout] = job, StageParameters(job)
                    job, parameters = self._stages[layout]
                    self._states[key] = held_states(job, parameters.of(layers, first, last))
                found.append(self._states[key])
            columns.states[content] = np.array(found)
        return columns.states[content]


def held_states(job: Job, trained: Parameters) -> float:
    """Return the least training states of a rank on its device, with its runtime [B]."""
    recipe, plan, offload = memory_recipe(job), job.plan, job.offload
    if offload.parameters:
        return recipe.runtime
    sharded = on_rank(plan, trained, sharded=True)
    whole = on_rank(plan, trained)
    held = recipe.weights * (sharded if plan.zero >= 3 else whole)
    held += recipe.gradients * (sharded if plan.zero >= 2 else whole)
    if not offload.optimiser:
        held += (recipe.master + recipe.optimiser) * (sharded if plan.zero >= 1 else whole)
    elif plan.zero >= 2:
        held -= recipe.gradients * sharded
    return recipe.runtime + held


def _of_chunks(shape: Shape, columns: HeldColumns, division: Division) -> tuple[Floats, Floats]:
    """Return what chunks keep of a microbatch, and hold while they run, by cell and chunk [B]."""
    plain, running = columns.layers(NONE)
    remaining, during = plain, running
    if division.repeated.any():
        remaining, during = columns.layers(shape.recompute)
    ends = columns.ends
    kept_of = (
        plain @ (division.layers - division.repeated).T
        + remaining @ division.repeated.T
        + ends[:, :1] * division.first
        + ends[:, 1:2] * division.last
        + ends[:, 2:] * (1 - division.last)
    )
    whole = running[:, None] * (division.layers > division.repeated)
    recomputed = during[:, None] * (division.repeated > 0)
    return kept_of, np.maximum(whole.max(axis=2), recomputed.max(axis=2))


PERIODS: Final = 4
"""Microbatches for each stage after which more of them do not change the begin of a schedule."""


@lru_cache(maxsize=4096)
def first_forwards(
    schedule: Schedule, stages: int, microbatches: int, chunks: int
) -> tuple[tuple[int, ...], int]:
    """Return how many forwards of each chunk the first stage runs before its first backward.

    And the chunk of that backward.  A schedule begins alike for all long batches of one remainder
    over its stages, unless all forwards come first.

    >>> from clustersim.program.schedules import SCHEDULES
    >>> first_forwards(SCHEDULES["1f1b"], stages=4, microbatches=64, chunks=1)
    ((4,), 0)
    >>> first_forwards(SCHEDULES["gpipe"], stages=4, microbatches=10**9, chunks=1)
    ((1000000000,), 0)
    """
    short = PERIODS * stages + microbatches % stages
    if schedule.shape is None and microbatches > short:
        copies = schedule.wired(stages, chunks).copies
        forwards, chunk = first_forwards(schedule, stages, short, chunks)
        if sum(forwards) < short * chunks // copies:
            return forwards, chunk
        return tuple(count + (microbatches - short) // copies for count in forwards), chunk
    counts = [0] * chunks
    for step in schedule.steps(0, stages, microbatches, chunks):
        if step.kind != FORWARD:
            return tuple(counts), step.chunk
        counts[step.chunk] += 1
    return tuple(counts), 0
