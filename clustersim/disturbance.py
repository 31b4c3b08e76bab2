"""Causes of delay: each has a name, a seed, and the devices that it concerns.

SlowDevice         kernels of a device take longer, or its clock is lower than that of others
Jitter             the time of kernels varies at random, from device to device
Pauses             the process of a device pauses now and then, as for garbage collection
LateHost           the host of a device takes longer to dispatch each kernel
SequenceLengths    sequences are shorter than a microbatch, so that its attention differs

Causes that concern links are `topology.faults`.

Random numbers of causes: each from a generator of its own, so that one cause moves no other.

generator(name, seed, replication, number)     the same numbers whatever else the job has
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from clustersim.records import dataclass

if TYPE_CHECKING:
    from numpy.random import Generator


Distribution = Literal["normal", "log-normal", "exponential", "histogram"]


@dataclass(frozen=True)
class Cause:
    """What all causes have.

    Attributes
    ----------
    name : of its own among the causes of a job
    seed : of its random numbers
    devices : the devices that it concerns, by their numbers in the job; None for all of it
    """

    name: str
    seed: int = 0
    devices: frozenset[int] | None = None

    def on(self, numbers: Mapping[int, int]) -> Self:
        """Return the same cause on devices of other numbers."""
        if self.devices is None:
            return self
        return replace(self, devices=frozenset(numbers[device] for device in self.devices))

    def concerns(self, device: int) -> bool:
        """Return whether a device is concerned."""
        return self.devices is None or device in self.devices

    @property
    def random(self) -> bool:
        """Whether its effect differs from step to step."""
        return False

    def removed(self) -> "Cause | None":
        """Return what remains without the cause; None for nothing."""
        return None


@dataclass(frozen=True)
class SlowDevice(Cause):
    """Kernels take `factor` times as long; those limited by compute run at `clock` of the rate."""

    factor: float = 1.0
    clock: float = 1.0


@dataclass(frozen=True)
class Jitter(Cause):
    """The time of kernels is multiplied by a random factor with a mean of 1.

    Attributes
    ----------
    deviation : standard deviation of the factor [unitless]
    each_step : one factor for a whole step instead of one for all kernels between two collectives
    values, weights : factors of a histogram, and how often each occurs; its mean need not be 1
    """

    distribution: Distribution = "normal"
    deviation: float = 0.0
    each_step: bool = False
    values: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()

    @property
    def random(self) -> bool:
        """Whether its effect differs from step to step."""
        return True


@dataclass(frozen=True)
class Pauses(Cause):
    """A pause of `length` in one of `every` steps [s], of all at once where `planned`."""

    length: float = 0.0
    every: int = 1
    planned: bool = False

    @property
    def random(self) -> bool:
        """Whether its effect differs from step to step."""
        return not self.planned


@dataclass(frozen=True)
class LateHost(Cause):
    """The host needs `delay` more for each kernel that it dispatches [s]."""

    delay: float = 0.0


@dataclass(frozen=True)
class SequenceLengths(Cause):
    """Lengths of the sequences that fill a microbatch [tokens], and how often each occurs.

    `balanced` is whether all microbatches of a step have the same work in attention.
    """

    lengths: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    balanced: bool = False

    @property
    def random(self) -> bool:
        """Whether its effect differs from step to step."""
        return True

    def removed(self) -> "SequenceLengths":
        """Return the same sequences, balanced: their work in attention remains."""
        return replace(self, balanced=True)


@dataclass(frozen=True)
class Draw:
    """Which steps are drawn, and which causes are removed.

    Attributes
    ----------
    replication : number of the step; each has random numbers of its own
    without : names of the removed causes
    """

    replication: int = 0
    without: frozenset[str] = frozenset()


Floats = NDArray[np.float64]

MOST_DRAWN = 4_096
"""Sequences that are drawn at once to fill microbatches."""


def generator(cause: Cause, replication: int, number: int = 0) -> "Generator":
    """Return the generator of a cause, for a replication and a device or a replica."""
    return np.random.default_rng([crc32(cause.name.encode()), cause.seed, replication, number])


def jitter_factors(jitter: Jitter, rng: "Generator", shape: tuple[int, ...]) -> Floats:
    r"""Return random factors of the time of kernels [unitless].

    .. math:: 1 + \sigma Z, \qquad e^{s Z - s^2 / 2}, \qquad 1 + \sigma E

    with \sigma = `deviation`, s^2 = \ln(1 + \sigma^2), Z normal and E exponential, both of
    deviation 1; no factor is below 0. Exponential delays are added to the time, whose mean they
    raise by \sigma. A histogram gives its own values.
    """
    if jitter.distribution == "histogram":
        return np.asarray(jitter.values, float)[_chosen(jitter.weights, rng, shape)]
    if jitter.distribution == "exponential":
        return np.asarray(1.0 + jitter.deviation * rng.standard_exponential(shape))
    drawn = rng.standard_normal(shape)
    if jitter.distribution == "log-normal":
        spread = np.log1p(jitter.deviation**2)
        return np.asarray(np.exp(np.sqrt(spread) * drawn - spread / 2))
    return np.maximum(0.0, 1.0 + jitter.deviation * drawn)


def pauses_of_step(pauses: Pauses, replication: int, devices: int) -> dict[int, float]:
    """Return the devices that pause in a step, and when: share of their forwards before it."""
    rng = generator(pauses, replication)
    pausing, when = rng.random(devices) < 1.0 / pauses.every, rng.random(devices)
    return {
        device: float(when[device])
        for device in np.flatnonzero(pausing).tolist()
        if pauses.concerns(device)
    }


def attention_loads(
    cause: SequenceLengths, rng: "Generator", microbatches: int, micro: int, sequence: int
) -> Floats:
    r"""Return the attention of microbatches, relative to sequences of full length [unitless].

    .. math:: \sum_i l_i^2 / (b s^2)

    with l the sequences of a microbatch, b = `micro` and s = `sequence`. Drawn sequences fill the
    b rows of s tokens one after another; the last one of a row is cut.
    """
    lengths = np.minimum(np.asarray(cause.lengths), sequence)
    rows = np.array([_row(cause, lengths, rng, sequence) for _ in range(microbatches * micro)])
    return np.asarray(rows.reshape(microbatches, micro).mean(axis=1))


def _row(
    cause: SequenceLengths, lengths: NDArray[np.int64], rng: "Generator", sequence: int
) -> float:
    """Return the sum of squares of the sequences of a row, share of one of full length."""
    filled, squares = 0, 0.0
    count = min(MOST_DRAWN, 1 + sequence // int(lengths.min()))
    while filled < sequence:
        drawn = lengths[_chosen(cause.weights, rng, (count,))]
        ends = np.minimum(sequence - filled, np.cumsum(drawn))
        parts = np.diff(ends, prepend=0).astype(float)
        squares += float((parts**2).sum())
        filled += int(ends[-1])
    return squares / sequence**2


def _chosen(
    weights: Sequence[float], rng: "Generator", shape: tuple[int, ...]
) -> NDArray[np.int64]:
    """Return the numbers of drawn classes, each as often as its weight."""
    bounds = np.cumsum(weights)
    chosen = np.searchsorted(bounds, rng.random(shape) * bounds[-1], side="right")
    return np.asarray(np.minimum(chosen, len(weights) - 1))
