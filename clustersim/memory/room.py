"""The rule that decides whether a job has room in a memory, by the errors of measured peaks.

    need <= capacity / a               fits
    capacity / a < need <= capacity    tight: fits with less room than the errors
    capacity < need <= capacity b      probably does not fit, with the chance that it does
    capacity b < need                  does not fit

The factors are those of measured runs (`clustersim.evidence`): a is the measured peak over the
predicted one at most, b the predicted one over the measured one.  What an allocator keeps unused is
no need: it frees it before an allocation fails.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from clustersim.evidence import (
    Errors,
    Evidence,
    MeasuredPeaks,
    Reach,
    errors_of,
    intraclass_correlation,
    number_of,
    reach_by,
    share_below,
    shipped_interval_data,
)

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


class PeakErrors(NamedTuple):
    """The error of predicted peaks of memory, and the errors that it is based on."""

    reach: Reach
    errors: Errors
    rho: float

    @property
    def above(self) -> float:
        """Measured over predicted peak at most; infinite without evidence."""
        return self.reach.above or math.inf

    @property
    def below(self) -> float:
        """Predicted over measured peak at most; infinite without evidence."""
        return self.reach.below or math.inf

    def chance(self, share: float) -> float:
        """Return the share of runs whose measured peak is at most `share` of the predicted one."""
        return share_below(self.errors, self.rho, math.log(share))


def peak_errors(peaks: Iterable[MeasuredPeaks], accelerator: str, framework: str) -> PeakErrors:
    """Return the error of predicted peaks on an accelerator with a profile of software.

    The peaks are the most similar ones that suffice for a bound: on the accelerator with the
    software, with the software, or all.
    """
    known = list(peaks)
    rho = intraclass_correlation(errors_of(known))
    return PeakErrors(
        *reach_by(_evidence(known, accelerator, framework), rho, "measured peak"), rho
    )


def _evidence(known: list[MeasuredPeaks], accelerator: str, framework: str) -> Iterator[Evidence]:
    """Yield the peaks of `peak_errors`, the most similar ones first."""
    same = [peak for peak in known if peak.framework == framework]
    own = [peak for peak in same if peak.accelerator == accelerator]
    yield Evidence(own, f"with {framework} on {accelerator}")
    yield Evidence(same, f"with {framework}")
    yield Evidence(known, f"with all software, {number_of(same)} of them with {framework}", same)


@lru_cache
def shipped_peak_errors(accelerator: str, framework: str) -> PeakErrors:
    """Return the error of predicted peaks by the shipped file, as `peak_errors`."""
    return peak_errors(shipped_interval_data().peaks, accelerator, framework)


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
