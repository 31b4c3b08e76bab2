"""A proven lower bound of the memory of many layouts at once, which needs none of their times.

cells --layers added--> bytes of chunks --first forwards--> activations of the first stage
degrees, sharding --parameters of the first stage--> its training states
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.memory.peak import kept_logits, kept_output, running_layer
from clustersim.memory.states import memory_recipe, on_host, staged_weights
from clustersim.program.job import Job
from clustersim.program.schedules import Schedule
from clustersim.program.weights import on_rank
from clustersim.records import dataclass
from clustersim.studies.search.step.lower_bound.cell_times import stacked_layers
from clustersim.studies.search.step.lower_bound.division import Division
from clustersim.studies.search.step.lower_bound.jobs import LayoutJobs
from clustersim.studies.search.step.lower_bound.layout_values import Cell, Column, Layout, Shape
from clustersim.studies.search.step.lower_bound.stage_parameters import StageParameters
from clustersim.timeline import FORWARD
from clustersim.workload.ops import NONE, Recompute, kept
from clustersim.workload.parameters import Parameters


class CellBytes:
    """What a microbatch holds in one cell.

    Attributes
    ----------
    ends : kept by embedding and head, by a chunk without head for its output, and by the head for
        its logits alone [B]
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._layers: dict[Recompute, Floats] = {}
        layers = job.layers
        of_ends = kept(layers.embedding), kept(layers.head)
        self.ends = *of_ends, kept_output(job), kept_logits(layers.head)

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


class Held(NamedTuple):
    """Bytes on a device of the first stage, and on the host for it, by column [B]."""

    device: Floats
    host: Floats


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
    def states(self) -> dict[object, Held]:
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
        self._states: dict[object, tuple[float, float]] = {}

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

    def least(self, shape: Shape, columns: HeldColumns, division: Division, job: Job) -> Held:
        """Return a lower bound of the memory of a device, and of what the host has for it [B].

        Parameters
        ----------
        job : of this shape in some column
        """
        states = self._of_states(shape, columns, division)
        chunks = _of_chunks(shape, columns, division)
        activations = chunks.kept - chunks.logits
        kept_of = activations if job.offload.activations else chunks.kept
        moving, first = np.zeros(len(columns.of)), division.number[0]
        for count, own in columns.microbatch_counts:
            forwards, chunk = first_forwards(job.schedule, columns.stages, count, shape.chunks)
            cells = columns.cell[own]
            moving[own] = kept_of[cells][:, first] @ np.array(forwards)
            if not (job.offload.activations or division.last[first[chunk]]):
                moving[own] += chunks.running[cells, first[chunk]]
        if not job.offload.activations:
            return states._replace(device=states.device + moving)
        staged = np.minimum(chunks.copied, activations) + chunks.logits
        of_first = states.device + staged[:, first].max(axis=1)[columns.cell]
        of_any = memory_recipe(job).runtime + staged.max(axis=1)[columns.cell]
        return Held(np.maximum(of_first, of_any), states.host + moving)

    def _of_states(self, shape: Shape, columns: HeldColumns, division: Division) -> Held:
        """Return the training states of the first stage of a shape in each column [B]."""
        wiring, kinds = self._jobs.schedule(shape.schedule).wiring, division.stage_kinds
        own = kinds.number[0]
        layers, first, last = kinds.layers[own].tolist(), kinds.first[own], kinds.last[own]
        content = wiring, *layers, first, last
        if content not in columns.states:
            found = []
            for (cell, sharding), count in zip(columns.of, columns.microbatches, strict=True):
                layout = cell.mesh._replace(order=()), sharding, wiring, bool(count == 1)
                key = *layout, content
                if key not in self._states:
                    if layout not in self._stages:
                        job = self._jobs.job(Layout(cell, shape, sharding))
                        self._stages[layout] = job, StageParameters(job)
                    job, parameters = self._stages[layout]
                    device, host = held_states(job, parameters.of(layers, first, last)), 0.0
                    if job.offload.any:
                        of_shape = self._jobs.job(Layout(cell, shape, sharding))
                        device += staged_weights(of_shape, 0)
                        host = sum(on_host(of_shape, 0).values())
                    self._states[key] = device, host
                found.append(self._states[key])
            columns.states[content] = Held(*np.array(found).T)
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


class _Chunks(NamedTuple):
    """Bytes of a microbatch by cell and different chunk [B].

    Attributes
    ----------
    kept : from the forward to the backward
    logits : of it, those of the head
    running : held by the backward of a layer
    copied : of two layers, one of which is copied to the host or from it while the other runs
    """

    kept: Floats
    logits: Floats
    running: Floats
    copied: Floats


def _of_chunks(shape: Shape, columns: HeldColumns, division: Division) -> _Chunks:
    """Return what a microbatch holds in chunks of a shape."""
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
        + ends[:, 2:3] * (1 - division.last)
    )
    logits = ends[:, 3:] * division.last

    def largest(of_whole: Floats, of_recomputed: Floats) -> Floats:
        whole = of_whole[:, None] * (division.layers > division.repeated)
        recomputed = of_recomputed[:, None] * (division.repeated > 0)
        return np.asarray(np.maximum(whole.max(axis=2), recomputed.max(axis=2)))

    return _Chunks(kept_of, logits, largest(running, during), 2 * largest(plain, remaining))


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
