"""Delays of the blocks of ranks that differ from the others.

    effects on devices --by cell and segment--> seconds of a block
                       --drawn--> more seconds, step by step

The ranks of a cell wait for each other at every collective between them, so that the slowest one of
each segment counts.  What a cause always adds is part of a block (`Block.late`); what it adds at
random differs from step to step (`Actor.extra`).  Replicas that wait for each other inside blocks
(`segments`) all have the delays of the slowest.  Where a block moves weights or expert
tokens while it computes, the additional time is not hidden behind these.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from clustersim.arrays import Integers
from clustersim.cost.compute import Seconds
from clustersim.disturbance import Jitter, jitter_factors
from clustersim.program.blocks.blocks import Blocks
from clustersim.program.blocks.units import stretched_segments, stretched_units
from clustersim.program.collectives.axes import Pattern
from clustersim.program.delays.effects import RankEffects
from clustersim.program.delays.segments import KernelSegments, SyncPoints
from clustersim.program.program import Block, Tail
from clustersim.program.schedules.steps import Code
from clustersim.records import dataclass
from clustersim.timeline import FORWARD

Floats = NDArray[np.float64]

Draws = dict[int, list[tuple[Jitter, "np.random.Generator"]]]
"""For each device of a cell, its jitters with their generators."""


@dataclass(frozen=True)
class StageDelays:
    """Delays of the ranks of a stage of one replica class.

    Attributes
    ----------
    late : by code, what each block takes longer [s]
    extra : what each step takes longer at random, in order [s]; None for nothing
    optimiser : time of the optimiser, relative to that of other ranks
    """

    late: dict[Code, float]
    extra: Floats | None = None
    optimiser: float = 1.0

    def block(self, code: Code, block: Block) -> Block:
        """Return a block with its delay."""
        late = self.late.get(code, 0.0)
        if not late:
            return block
        return replace(
            block,
            segments=stretched_segments(block.segments, late),
            units=block.units and stretched_units(block.units, late),
            late=late,
        )

    def tail(self, tail: Tail) -> Tail:
        """Return the operations after the last step with the delay of the optimiser."""
        if self.optimiser == 1.0:
            return tail
        return replace(tail, optimiser=tail.optimiser * self.optimiser)


NO_DELAYS = StageDelays({})


class Delays:
    """The delays of all ranks of a job."""

    def __init__(self, blocks: Blocks) -> None:
        self._job, self._blocks = blocks.job, blocks
        self._points = SyncPoints(blocks)
        self._segments = KernelSegments(blocks, self._points)
        self._effects = RankEffects(blocks.job)
        self._known: dict[Hashable, StageDelays] = {}

    @property
    def colours(self) -> Integers:
        """For each replica, a number for what makes its times differ from those of others."""
        numbers: dict[Hashable, int] = {}
        colours = map(self._colour, range(self._job.plan.data))
        return np.array([numbers.setdefault(colour, len(numbers)) for colour in colours])

    def _colour(self, replica: int) -> Hashable:
        """Return the same of one replica; None for one without delays."""
        if not self._job.causes:
            return None
        own = self._effects.colour(replica)
        met = tuple(map(self._effects.colour, self._points.with_replica(replica)))
        if len(met) == 1 or not any(colour is not None for colour in met):
            return own
        return met if self._points.everywhere else (own, met)

    def of(self, stage: int, replica: int, pattern: Pattern) -> StageDelays:
        """Return the delays of a stage of a replica.

        Parameters
        ----------
        pattern : of the collectives in its blocks
        """
        if not self._job.causes:
            return NO_DELAYS
        met = self._points.with_replica(replica)
        replicas = met if self._points.in_stage(stage) else (replica,)
        if all(self._effects.colour(each) is None for each in replicas):
            return NO_DELAYS
        key = stage, replicas, pattern
        if key not in self._known:
            self._known[key] = self._of_replicas(stage, replicas, pattern)
        return self._known[key]

    def _of_replicas(self, stage: int, replicas: tuple[int, ...], pattern: Pattern) -> StageDelays:
        """Return the delays of a stage of a replica, or of replicas that wait for each other."""
        effects, host = self._effects, self._job.offload.host_optimiser
        replicas = tuple({effects.colour(each): each for each in reversed(replicas)}.values())
        cells = {replica: effects.devices[stage, replica] for replica in replicas}
        devices = np.concatenate([*cells.values()])
        late = self._always(stage, [*cells.values()], pattern)
        factor = float(effects.factors[devices].max())
        extra = np.zeros(len(self._job.order.of[stage]))
        extra[0] = float(effects.planned[devices].max())
        if effects.random[stage, [*replicas]].any():
            draws: dict[int, Draws] = {
                replica: {device: effects.generators(device) for device in cell.tolist()}
                for replica, cell in cells.items()
            }
            extra += self._at_random(stage, draws, pattern, late)
            self._add_pauses(extra, stage, devices)
            factor = max(
                float(effects.factors[device]) * _one_factor(jitters)
                for of_cell in draws.values()
                for device, jitters in of_cell.items()
            )
        factor = 1.0 if host else max(factor, self._job.cluster.accelerator.memory_achieved)
        return StageDelays(late, extra if extra.any() else None, factor)

    # --- always ----------------------------------------------------------------------------------

    def _always(
        self, stage: int, cells: Sequence[NDArray[np.int64]], pattern: Pattern
    ) -> dict[Code, float]:
        """Return what the blocks of such replicas always take longer, by code [s]."""
        effects = self._effects
        rates = ((effects.factors[cell].tolist(), effects.clocks[cell].tolist()) for cell in cells)
        different = {frozenset(zip(*each, strict=True)) for each in rates}
        delay = max(float(effects.dispatch[cell].max()) for cell in cells)
        if different == {frozenset({(1.0, 1.0)})} and not delay:
            return {}
        late = {}
        for code in self._codes(stage):
            base, seconds = self._base(stage, code, pattern)
            met = np.zeros(1)
            for devices in sorted(map(sorted, different)):
                slowest = np.zeros(1)
                for factor, clock in devices:
                    segments = self._segments.of(stage, code.chunk, code.kind, clock)
                    factors = np.maximum(factor, segments.fastest)
                    slowest = np.maximum(slowest, factors * segments.seconds)
                met = np.maximum(met, np.add.reduceat(slowest, segments.waits))
            more = float(met.sum()) - base
            whole = self._blocks.disturbed(stage, code, pattern, more, delay)
            late[code] = float(whole) - seconds.total
        return late

    def _codes(self, stage: int) -> list[Code]:
        return [*self._job.order.times(stage)]

    def _base(self, stage: int, code: Code, pattern: Pattern) -> tuple[float, Seconds]:
        """Return the time of the kernels of an undisturbed block, and all its components [s]."""
        own = self._segments.of(stage, code.chunk, code.kind)
        seconds, _ = self._blocks.step(stage, code, pattern)
        return float(own.seconds.sum()), seconds

    # --- at random -------------------------------------------------------------------------------

    def _at_random(
        self, stage: int, draws: Mapping[int, Draws], pattern: Pattern, late: dict[Code, float]
    ) -> Floats:
        """Return what the steps of such replicas take longer than their blocks [s].

        Parameters
        ----------
        draws : of each cell, by its replica
        """
        order, effects = self._job.order, self._effects
        delay = float(effects.dispatch[effects.devices[stage, [*draws]]].max())
        loads = {replica: self._loads_of(stage, replica) for replica in draws}
        extra = np.zeros(len(order.of[stage]))
        for code in self._codes(stage):
            rows = order.steps_of[stage][code]
            base, seconds = self._base(stage, code, pattern)
            met = np.zeros((len(rows), 1))
            for replica, of_cell in draws.items():
                met = np.maximum(met, self._drawn((stage, code), of_cell, loads[replica][rows]))
            more = met.sum(axis=1) - base
            whole = self._blocks.disturbed(stage, code, pattern, more, delay)
            extra[rows] = whole - seconds.total - late.get(code, 0.0)
        return extra

    def _drawn(self, block: tuple[int, Code], draws: Draws, loads: Floats) -> Floats:
        """Return the time of the kernels of steps of a cell between waits of replicas [s].

        Segment by segment that of the slowest rank: an array by step and wait.

        Parameters
        ----------
        loads : attention of each step, relative to sequences of full length
        """
        (stage, code), effects = block, self._effects
        slowest, plain = np.zeros((len(loads), 1)), set[tuple[float, float]]()
        for device, jitters in draws.items():
            factor, clock = float(effects.factors[device]), float(effects.clocks[device])
            if not jitters and (factor, clock) in plain:
                continue
            segments = self._segments.of(stage, code.chunk, code.kind, clock)
            own = segments.seconds + np.outer(loads - 1.0, segments.attention)
            factors = np.full(own.shape, factor)
            for jitter, rng in jitters:
                factors = factors * jitter_factors(jitter, rng, own.shape)
            own = own * np.maximum(factors, segments.fastest)
            if not jitters:
                plain.add((factor, clock))
            slowest = np.maximum(slowest, own)
        return np.asarray(np.add.reduceat(slowest, segments.waits, axis=1))

    def _loads_of(self, stage: int, replica: int) -> Floats:
        """Return the attention of each step of a stage, relative to sequences of full length."""
        order, chunks = self._job.order, self._job.plan.chunks
        return np.asarray(self._effects.loads[replica][order.inputs[stage] // (2 * chunks)])

    def _add_pauses(self, extra: Floats, stage: int, devices: NDArray[np.int64]) -> None:
        """Add the pauses of devices to the forwards: the process that pauses launches these."""
        order = self._job.order
        forwards = [number for number, code in enumerate(order.codes) if code.kind == FORWARD]
        steps = np.flatnonzero(np.isin(order.of[stage], forwards))
        for pause in self._effects.pauses_in(devices):
            extra[steps[int(pause.after * len(steps))]] += pause.seconds


def _one_factor(jitters: list[tuple[Jitter, "np.random.Generator"]]) -> float:
    """Return a random factor of the optimiser step of a device."""
    return float(np.prod([float(jitter_factors(jitter, rng, (1,))[0]) for jitter, rng in jitters]))
