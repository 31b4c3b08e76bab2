r"""A proven lower bound of the step time of many layouts at once, and of their memory.

    cells --layers added--> times of blocks --stages added--> bound of each column

A stage s cannot begin before the first microbatch has passed the stages before it, runs all its
blocks one after another, and a backward of it has to pass the same stages back:

.. math:: T \ge \max_s \Bigl(a_s + m w_s + r_s\Bigr) + \max_s u_s, \qquad
          T \ge \max_s \Bigl(a_s + m w'_s + b_s\Bigr) + r_0 + \max_s u_s, \qquad
          T \ge m \max_l \frac{n_l}{C_l} + \max_s u_s

with m microbatches, a and b the way of one microbatch forward to a stage and back from it, w the
blocks of one microbatch with the gathers before their first layers and the reductions after their
last ones, or the copies of its host or all its gathers and reductions where they take longer, and
w' the blocks alone without gradients of weights, r the exposed reduction of
gradients and u the update of the weights, and n the bytes that the transfers of a microbatch put on
a link l of capacity C.  Each term is the least that a replay takes: kernels are those of the cost
model, collectives and transfers have their links to themselves, transfers that block their stage
are part of w, and other waiting is left out.
"""

from collections.abc import Sequence
from itertools import groupby, product
from typing import Final, NamedTuple

import numpy as np

from clustersim.arrays import Floats
from clustersim.cost.power import STATES, MachinePower, State, machine_power
from clustersim.program.job import Job
from clustersim.program.movement.offload import host_seconds
from clustersim.program.movement.sharding import layer_fetch, layer_push
from clustersim.program.schedules.steps import WHOLE
from clustersim.scenario.load import Loaded
from clustersim.studies.search.step.lower_bound.cell_times import (
    AUTOGRAD,
    BUSY,
    EXPERT,
    IDLE,
    IN_ALL,
    IN_STATES,
    PLAIN,
    REPLAYS,
    stacked_layers,
)
from clustersim.studies.search.step.lower_bound.columns import Columns, ColumnTables
from clustersim.studies.search.step.lower_bound.division import Division, divide_layers
from clustersim.studies.search.step.lower_bound.jobs import LayoutJobs
from clustersim.studies.search.step.lower_bound.layout_values import Column, Layout, Shape
from clustersim.studies.search.step.lower_bound.memory_bound import Held, MemoryBounds
from clustersim.studies.search.step.lower_bound.quickest import Groups, QuickestCollectives
from clustersim.studies.search.step.lower_bound.tails import Tails, TailTimes, exposed_reduction
from clustersim.workload.kernels import Collective
from clustersim.workload.ops import NONE

ROUNDING = 1 - 1e-9
"""By how much a bound is reduced: a replay rounds its durations."""


class StepBounds:
    """Lower bounds of the layouts of one scenario."""

    def __init__(self, loaded: Loaded) -> None:
        self.jobs = LayoutJobs(loaded)
        self._collectives = QuickestCollectives(self.jobs)
        self.tables = ColumnTables(self.jobs, self._collectives)
        self._memories = MemoryBounds(self.jobs)
        cluster = loaded.scenario.cluster
        self._machine = machine_power(cluster, cluster.nodes)
        self._divisions: dict[object, Division] = {}
        self._tails: dict[object, Tails] = {}
        self._tail_times: dict[object, TailTimes] = {}
        self._copies: dict[object, Floats] = {}
        self._moves: dict[object, _Moves] = {}

    def of(self, layouts: Sequence[Layout]) -> list[float]:
        """Return a lower bound of the step time of each layout [s]."""
        bounds = [0.0] * len(layouts)

        def stages_and_shape(at: int) -> tuple[int, str]:
            return layouts[at].cell.mesh.pipeline, repr(layouts[at].shape)

        ordered = sorted(range(len(layouts)), key=stages_and_shape)
        for (stages, _), group in groupby(ordered, stages_and_shape):
            places = [*group]
            requested = [Column(layouts[at].cell, layouts[at].sharding) for at in places]
            columns = self.tables.columns(requested, stages)
            found = self.seconds(layouts[places[0]].shape, columns)
            for at, seconds in zip(places, found.tolist(), strict=True):
                bounds[at] = seconds
        return bounds

    # --- memory ----------------------------------------------------------------------------------

    def memory(self, shapes: Sequence[Shape], requested: Sequence[Column], stages: int) -> Held:
        """Return lower bounds of the memory of a device and of a host, by shape and column [B]."""
        columns = self._memories.columns(requested, stages)
        found = []
        for shape in shapes:
            job = self.jobs.job(Layout(requested[0].cell, shape, requested[0].sharding))
            found.append(self._memories.least(shape, columns, self.division(shape, job), job))
        device, host = (np.array(each) * ROUNDING for each in zip(*found, strict=True))
        return Held(device, host * self.jobs.cluster.node.devices)

    # --- step time -------------------------------------------------------------------------------

    def seconds(self, shape: Shape, columns: Columns) -> Floats:
        """Return a lower bound of the step time of a shape in each column [s]."""
        job = self.jobs.job(Layout(columns.of[0].cell, shape, columns.of[0].sharding))
        division = self.division(shape, job)
        times = self._times_of_blocks(shape, columns, division, IN_ALL)
        hidden = job.schedule.paired or job.experts.overlapped
        blocks = _dispatched(times, job, hidden=hidden)
        moved = exposed = np.zeros((1, division.stages))
        if not hidden:
            copied = self._copied(shape, columns, division, job)
            moves = self._moves_of(shape, columns, division)
            moved = np.maximum(copied, moves.whole @ division.on_stage)
            idle = blocks - times[..., BUSY] - times[..., IDLE]
            hiding = columns.stacked("gather")[:, None, :, BUSY]
            hiding = hiding if job.dispatch.launches_wait else hiding + idle
            exposed = moves.exposed(hiding[columns.cell]) @ division.on_stage
        stages = _Stages(columns, division, blocks, moved, exposed, job)
        tails = self._times_of_tails(shape, columns, division)
        return self._joined(stages, tails, division, job) * ROUNDING

    def joules(self, shape: Shape, columns: Columns, seconds: Floats) -> Floats:
        """Return a lower bound of the energy of a step of a shape in each column [J].

        Parameters
        ----------
        seconds : what `seconds` returns for this shape and these columns
        """
        assert self._machine is not None, "a machine whose power is known"
        job = self.jobs.job(Layout(columns.of[0].cell, shape, columns.of[0].sharding))
        division = self.division(shape, job)
        times = self._times_of_blocks(shape, columns, division, IN_STATES)[:, :, :2].sum(axis=2)
        ran = np.einsum("cux,us->cx", times, division.on_stage)
        mean = ran[columns.cell] * (columns.microbatches / division.stages)[:, None]
        return least_energy(seconds, mean, self._machine) * ROUNDING

    def division(self, shape: Shape, job: Job) -> Division:
        """Return how the shape of a job divides the layers over its stages."""
        recompute = shape.recompute
        key = job.plan.pipeline, job.plan.wiring, job.plan.layers, recompute
        if key not in self._divisions:
            self._divisions[key] = divide_layers(job.plan, job.model.stack, recompute)
        return self._divisions[key]

    def _copied(self, shape: Shape, columns: Columns, division: Division, job: Job) -> Floats:
        """Return how long the hosts copy for a microbatch, by column and stage [s]."""
        if not job.offload.any:
            return np.zeros((1, division.stages))
        rows = []
        for cell, sharding in columns.of:
            key = cell, sharding, shape.recompute
            if key not in self._copies:
                own = self.jobs.job(Layout(cell, shape, sharding))
                layers = stacked_layers(own, shape.recompute)
                self._copies[key] = np.array([host_seconds(own, layer) for layer in layers])
            rows.append(self._copies[key])
        return np.asarray(np.array(rows) @ (division.layers.T @ division.on_stage))

    def _moves_of(self, shape: Shape, columns: Columns, division: Division) -> "_Moves":
        """Return the moves of weights and gradients of the different chunks, by column.

        Gathers and reductions of a rank follow each other, also where blocks hide them.
        """
        of_tails, place = columns.of_tails
        rows = []
        for tail, (cell, sharding) in of_tails.items():
            key = tail, shape.recompute, *division.content
            if sharding.zero < 2:
                rows.append(_Moves.none(len(division.layers)))
                continue
            if key not in self._moves:
                own = self.jobs.job(Layout(cell, shape, sharding))
                self._moves[key] = self._moves_of_chunks(own, tail[-1], shape, division)
            rows.append(self._moves[key])
        return _Moves(*(np.array(each)[place] for each in zip(*rows, strict=True)))

    def _moves_of_chunks(
        self, job: Job, groups: Groups, shape: Shape, division: Division
    ) -> "_Moves":
        """Return the moves of a job's different chunks, each a row [s]."""
        known = dict(groups)

        def seconds(moves: Sequence[Collective]) -> float:
            return sum(
                self._collectives.seconds(known[move.axis], move.operation, move.nbytes)
                for move in moves
            )

        plain, whole = (
            np.array(
                [
                    [seconds(move(job, layer, kind)) for move, kind in product(MOVES, WHOLE)]
                    for layer in stacked_layers(job, recompute)
                ]
            )
            for recompute in (NONE, shape.recompute)
        )
        repeated = division.repeated @ (whole - plain).sum(axis=1)
        least = np.where(division.layers[..., None] > 0, plain, np.inf).min(axis=1)
        least[np.isinf(least)] = 0.0
        inner = np.stack([1 - division.first, 1 - division.last], axis=1)  # ends hide moves
        fetched, pushed = least[:, :2] * inner, least[:, 2:] * inner[:, ::-1]
        return _Moves(division.layers @ plain.sum(axis=1) + repeated, fetched, pushed)

    def _times_of_blocks(
        self, shape: Shape, columns: Columns, division: Division, selected: slice
    ) -> Floats:
        """Return the times of the different chunks by cell, chunk, kind of step and column.

        Parameters
        ----------
        selected : some of the columns of `cell_times`
        """

        def stacked(name: str) -> Floats:
            return columns.stacked(name)[..., selected]

        layers = np.einsum("uk,cktx->cutx", division.layers, stacked("layers"))
        first, last = division.first[:, None, None], division.last[:, None, None]
        gather = stacked("gather")[:, None]
        received = np.stack([1 - division.first, 1 - division.last, 1 - division.last], axis=1)
        times = (
            layers
            + first * stacked("embedding")[:, None]
            + last * stacked("logits")[:, None]
            + received[..., None] * gather
        )
        if division.repeated.any():
            repeated = columns.recomputed(shape.recompute)[..., selected]
            times[:, :, 1:] += np.einsum("uk,ckx->cux", division.repeated, repeated)[:, :, None]
        return np.asarray(times)

    def _times_of_tails(self, shape: Shape, columns: Columns, division: Division) -> TailTimes:
        """Return the least times after the last steps, by column and different stage [s]."""
        wiring = self.jobs.schedule(shape.schedule).wiring
        kinds = division.stage_kinds
        content = kinds.layers.tobytes(), kinds.first.tobytes(), kinds.last.tobytes()
        known = wiring, shape.chunks, *content
        if known not in columns.tail_times:
            of_tails, place = columns.of_tails
            rows = []
            for one, (cell, sharding) in of_tails.items():
                key = *one, wiring
                if key not in self._tails:
                    job = self.jobs.job(Layout(cell, shape, sharding))
                    self._tails[key] = Tails(job, one[-1], self._collectives)
                of_key = *key, *known
                if of_key not in self._tail_times:
                    self._tail_times[of_key] = self._tails[key].of(kinds, shape.chunks)
                rows.append(self._tail_times[of_key])
            columns.tail_times[known] = TailTimes.stacked(rows).rows(place)
        return columns.tail_times[known]

    def _joined(self, stages: "_Stages", tails: TailTimes, division: Division, job: Job) -> Floats:
        """Return the bound from the times of the stages and of what follows them [s]."""
        tails = tails.of(division.stage_kinds.number)
        exposed = tails.reduced
        if job.overlapped_reduction:
            layers = job.model.layers
            exposed = exposed_reduction(tails, stages.last_backward, job.plan.chunks, layers)
            exposed = np.where(tails.reduced > 0, exposed, 0.0)
        if job.plan.cell * job.plan.pipeline == 1:
            return np.asarray((stages.ended + exposed + tails.updated).max(axis=1))
        ended = np.maximum((stages.ended + exposed).max(axis=1), stages.returned + exposed[:, 0])
        ended = np.maximum(ended, stages.carried)
        return np.asarray(ended + tails.updated.max(axis=1))


MOVES: Final = (layer_fetch, layer_push)
"""The moves of a layer: those that it waits for, and those that follow it."""


class _Moves(NamedTuple):
    """Least times of moves of weights and gradients, by column and different chunk [s].

    Attributes
    ----------
    whole : all of a microbatch
    fetched, pushed : those before the first layer, and after the last one, forward and backward
    """

    whole: Floats
    fetched: Floats
    pushed: Floats

    @classmethod
    def none(cls, chunks: int) -> "_Moves":
        """Return no moves of a number of different chunks."""
        return cls(np.zeros(chunks), np.zeros((chunks, 2)), np.zeros((chunks, 2)))

    def exposed(self, hiding: Floats) -> Floats:
        """Return what blocks take longer by them, but for what is idle or gathered meanwhile [s].

        Parameters
        ----------
        hiding : of each block, by column, different chunk and kind of step [s]
        """
        exposed = np.maximum(0.0, self.fetched + self.pushed - hiding[..., :2])
        return np.asarray(exposed.sum(axis=-1))


class _Stages:
    """Least times of the stages of each column.

    Attributes
    ----------
    ended : when a stage has run all its blocks [s]
    returned : when the last backward has passed all stages [s]
    last_backward : time of the last backward of a stage [s]
    carried : time of the busiest link for the transfers between stages, by column [s]
    """

    def __init__(
        self, columns: Columns, division: Division, times: Floats, moved: Floats, exposed: Floats,
        job: Job,
    ) -> None:  # fmt: skip
        ahead, back, inputs = np.moveaxis(times, 2, 0)
        inputs = inputs if job.schedule.parted else back
        cell, count = columns.cell, columns.microbatches[:, None]
        up, down = columns.hops.up, columns.hops.down
        none = np.zeros((len(cell), 1))
        sent = np.zeros((len(cell), division.stages))
        if job.framework.pipeline.blocking:
            sent = np.hstack([up, none]) + np.hstack([none, down])
        sent *= division.share * job.plan.chunks
        chain = 1.0 if division.chains else 0.0
        forward = chain * ((ahead @ division.leading)[cell][:, :-1] + up)
        backward = chain * ((inputs @ division.leading)[cell][:, :-1] + down)
        begun = np.hstack([none, np.cumsum(forward, axis=1)])
        way_back = np.hstack([none, np.cumsum(backward, axis=1)])
        blocks = ((ahead + back) @ division.on_stage)[cell] + sent
        awaited = ((ahead + inputs) @ division.on_stage)[cell] + sent
        counted_twice = np.hstack([none, down]) if job.framework.pipeline.blocking else 0.0
        self.ended = begun + count * np.maximum(blocks + exposed, moved)
        self.returned = (begun + count * awaited + way_back - counted_twice).max(axis=1)
        self.last_backward = (back @ division.leading)[cell]
        self.carried = columns.carried(job.plan.wired)


def _dispatched(times: Floats, job: Job, *, hidden: bool) -> Floats:
    """Return the time of blocks as the host issues them, as `cost.compute.Seconds.dispatched` [s].

    Parameters
    ----------
    hidden : whether exchanges of experts can be hidden, so that none is counted
    """
    dispatch = job.dispatch
    back = dispatch.dispatch if dispatch.dispatch_backward is None else dispatch.dispatch_backward
    issued = times[..., PLAIN] * dispatch.dispatch + times[..., AUTOGRAD] * back
    issued = issued + times[..., REPLAYS] * dispatch.replay
    busy = times[..., BUSY] - (times[..., EXPERT] if hidden else 0.0)
    if dispatch.launches_wait:
        return np.asarray(busy + issued)
    return np.asarray(busy + np.maximum(times[..., IDLE] * (not hidden), issued - busy))


BOUNDED: tuple[State, ...] = ("compute", "memory", "communication")
"""States whose times are bounded, in the order of the columns."""


def least_energy(seconds: Floats, states: Floats, machine: MachinePower) -> Floats:
    """Return a lower bound of the energy of a step in each column [J].

    Parameters
    ----------
    seconds : lower bound of the step time [s]
    states : lower bound of the time of a mean device in each state of `BOUNDED`, by column [s]
    """
    least = machine.of(min(map(machine.in_state, STATES))).total
    more = [machine.of(machine.in_state(state)).total - least for state in BOUNDED]
    return np.asarray(least * seconds + states @ np.array(more))
