"""What the causes of delay add up to, device by device, and which replicas they concern.

    causes --> factor, clock, dispatch, pauses of each device --cell by cell--> colour of a replica

Devices are numbered as in the placement of a job: by stage, replica and place in the cell.
"""

from collections.abc import Hashable, Iterable
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from clustersim.disturbance import (
    Cause,
    Jitter,
    LateHost,
    Pauses,
    SequenceLengths,
    SlowDevice,
    attention_loads,
    generator,
    jitter_factors,
    pauses_of_step,
)
from clustersim.program.job import Job

Floats = NDArray[np.float64]

Kind = TypeVar("Kind", bound=Cause)


class Pause(NamedTuple):
    """A pause of a device: after which share of its forwards, and how long [s]."""

    after: float
    seconds: float


class RankEffects:
    """The effects of the causes of a job on its devices.

    Attributes
    ----------
    devices : of the ranks, by stage, replica and place in the cell
    jitters : causes with a random factor for each segment
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.devices = job.placement.own.cells
        self.jitters = [jitter for jitter in self._causes(Jitter) if not jitter.each_step]

    def colour(self, replica: int) -> int | None:
        """Return a number for what makes the times of a replica differ; None if nothing does."""
        return self._colours[replica]

    @cached_property
    def _colours(self) -> list[int | None]:
        """For each replica, a number that those with equal times share; None for usual times."""
        numbers: dict[Hashable, int] = {}
        return [
            None if effects is None else numbers.setdefault(effects, len(numbers))
            for effects in map(self._effects_on, range(self._job.plan.data))
        ]

    def _effects_on(self, replica: int) -> tuple[Hashable, ...] | None:
        """Return all that differs from usual in the times of a replica; None for nothing."""
        if self._drawn[:, replica].any():
            return (replica,)
        values = (self.factors, self.clocks, self.dispatch, self.planned)
        own = [value[self.devices[:, replica]] for value in values] + [self.loads[replica]]
        usual = (1.0, 1.0, 0.0, 0.0, 1.0)
        if all((value == plain).all() for value, plain in zip(own, usual, strict=True)):
            return None
        return tuple(value.tobytes() for value in own)

    @cached_property
    def random(self) -> NDArray[np.bool_]:
        """Whether the steps of a cell differ from each other, by stage and replica."""
        return np.asarray(self._drawn | (self.loads != 1.0).any(axis=1))

    @cached_property
    def _drawn(self) -> NDArray[np.bool_]:
        """Whether devices of a cell draw times of their own, by stage and replica."""
        pausing = sorted({device for hits in self.pauses for device in hits})
        chosen = np.isin(self.devices, pausing).any(axis=2)
        for jitter in self.jitters:
            chosen |= self._concerned(jitter)[self.devices].any(axis=2)
        return np.asarray(chosen)

    @cached_property
    def loads(self) -> Floats:
        """Attention of every microbatch, by replica, relative to sequences of full length."""
        plan, sequence = self._job.plan, self._job.model.sequence
        loads = np.ones((plan.data, plan.microbatches))
        for cause in self._causes(SequenceLengths):
            rngs = (generator(cause, self._job.replication, number) for number in range(plan.data))
            drawn = np.array([
                attention_loads(cause, rng, plan.microbatches, plan.micro, sequence)
                for rng in rngs
            ])  # fmt: skip
            loads = loads * (drawn.mean() if cause.balanced else drawn)
        return loads

    @cached_property
    def factors(self) -> Floats:
        """Time of the kernels of each device, relative to that of others."""
        factors = self._product((slow, slow.factor) for slow in self._causes(SlowDevice))
        for jitter in self._causes(Jitter):
            if jitter.each_step:
                rng = generator(jitter, self._job.replication)
                drawn = jitter_factors(jitter, rng, factors.shape)
                factors *= np.where(self._concerned(jitter), drawn, 1.0)
        return factors

    @cached_property
    def clocks(self) -> Floats:
        """Clock of each device, relative to that of others."""
        return self._product((slow, slow.clock) for slow in self._causes(SlowDevice))

    @cached_property
    def dispatch(self) -> Floats:
        """Additional time of the host of each device to dispatch a kernel [s]."""
        return self._sum((late, late.delay) for late in self._causes(LateHost))

    @cached_property
    def planned(self) -> Floats:
        """Time of the planned pauses of each device, as its share in one step [s]."""
        pauses = (pauses for pauses in self._causes(Pauses) if pauses.planned)
        return self._sum((each, each.length / each.every) for each in pauses)

    @cached_property
    def pauses(self) -> list[dict[int, Pause]]:
        """For each cause of pauses that are not planned, the devices that pause in the step."""
        return [
            {
                device: Pause(after, cause.length)
                for device, after in pauses_of_step(
                    cause, self._job.replication, self.devices.size
                ).items()
            }
            for cause in self._causes(Pauses)
            if not cause.planned
        ]

    def pauses_in(self, cell: NDArray[np.int64]) -> list[Pause]:
        """Return the pauses of some devices in the step."""
        return [hits[device] for hits in self.pauses for device in cell.tolist() if device in hits]

    def generators(self, device: int) -> list[tuple[Jitter, "np.random.Generator"]]:
        """Return the jitters of a device with random factors for each segment, ready to draw."""
        replication = self._job.replication
        return [
            (jitter, generator(jitter, replication, 1 + device))
            for jitter in self.jitters
            if jitter.concerns(device)
        ]

    def _concerned(self, cause: Cause) -> NDArray[np.bool_]:
        """Return which devices a cause concerns."""
        if cause.devices is None:
            return np.ones(self.devices.size, bool)
        return np.isin(np.arange(self.devices.size), sorted(cause.devices))

    def _causes(self, kind: type[Kind]) -> list[Kind]:
        """Return the causes of a kind."""
        return [cause for cause in self._job.causes if isinstance(cause, kind)]

    def _product(self, values: Iterable[tuple[Cause, float]]) -> Floats:
        """Return the product of the values of causes, for each device that they concern."""
        product = np.ones(self.devices.size)
        for cause, value in values:
            product[self._concerned(cause)] *= value
        return product

    def _sum(self, values: Iterable[tuple[Cause, float]]) -> Floats:
        """Return the sum of the values of causes, for each device that they concern."""
        total = np.zeros(self.devices.size)
        for cause, value in values:
            total[self._concerned(cause)] += value
        return total
