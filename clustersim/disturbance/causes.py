"""Causes of delay: each has a name, a seed, and the devices that it concerns.

SlowDevice         kernels of a device take longer, or its clock is lower than that of others
Jitter             the time of kernels varies at random, from device to device
Pauses             the process of a device pauses now and then, as for garbage collection
LateHost           the host of a device takes longer to dispatch each kernel
SequenceLengths    sequences are shorter than a microbatch, so that its attention differs

Causes that concern links are `topology.faults`.
"""

from dataclasses import dataclass, replace
from typing import Literal

Distribution = Literal["normal", "log-normal", "exponential", "histogram"]


@dataclass(frozen=True)
class Cause:
    """What all causes have.

    Attributes
    ----------
    name : of its own among the causes of a job
    seed : of its random numbers
    devices : the devices that it concerns; None for all of the job
    """

    name: str
    seed: int = 0
    devices: frozenset[int] | None = None

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
