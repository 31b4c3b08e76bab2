"""The rule that decides whether a job has room in a memory, by the errors of measured peaks.

    need <= capacity / a               fits
    capacity / a < need <= capacity    tight: fits with less room than the errors
    capacity < need <= capacity b      probably does not fit, with the chance that it does
    capacity b < need                  does not fit

The factors are those of measured peaks (`clustersim.memory.peak_errors`): a is the measured peak
over the predicted one at most, b the predicted one over the measured one.  What an allocator keeps
unused is no need: it frees it before an allocation fails.
"""

from typing import Final

from clustersim.memory.peak_errors import PeakErrors
from clustersim.records import dataclass

FITS: Final = "fits"
TIGHT: Final = "tight"
UNLIKELY: Final = "probably does not fit"
UNFIT: Final = "does not fit"

FITTING: Final = (FITS, TIGHT)
"""Verdicts of jobs whose need is within the capacity."""

EXCEEDING: Final = (UNLIKELY, UNFIT)
"""Verdicts of the others."""


def outcome_of(verdict: str) -> str:
    """Return the verdict of a sentence that begins with it, without its reason.

    >>> outcome_of("tight: 70.0 of 79.1 GiB on stage 0")
    'tight'
    """
    return verdict.partition(":")[0]


@dataclass(frozen=True)
class Room:
    """Need, reserve and capacity of a memory, and whether the need fits.

    Attributes
    ----------
    need : what is held at once and cannot be freed, at its peak [B]
    reserve : what an allocator keeps in addition, and frees before an allocation fails [B]
    capacity : size of the memory [B]
    errors : of predicted needs; None where they are known, as an engine takes what it may
    """

    need: float
    reserve: float
    capacity: float
    errors: PeakErrors | None = None

    @property
    def fits(self) -> bool:
        """Whether the need is within the capacity."""
        return self.need <= self.capacity

    @property
    def outcome(self) -> str:
        """``fits``, ``tight``, ``probably does not fit`` or ``does not fit``."""
        errors = self.errors
        if self.fits:
            exceeds = errors is not None and self.need * errors.above > self.capacity
            return TIGHT if exceeds else FITS
        surely = errors is None or self.need > self.capacity * errors.below
        return UNFIT if surely else UNLIKELY

    @property
    def tight(self) -> bool:
        """Whether it fits with less room than the errors of predictions."""
        return self.outcome == TIGHT

    @property
    def chance(self) -> float | None:
        """Share of measured runs with so much less than predicted; None where it fits."""
        if self.fits:
            return None
        return 0.0 if self.errors is None else self.errors.chance(self.capacity / self.need)

    @property
    def missing(self) -> float:
        """Reserve that does not fit next to the need [B]."""
        return max(0.0, min(self.reserve, self.need + self.reserve - self.capacity))
