"""The error of predicted peaks of memory, by measured ones.

peaks, the most similar first --log(measured / predicted), weighted--> quantiles --> PeakErrors
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from clustersim.evidence import (
    LEVEL,
    Errors,
    MeasuredPeaks,
    Reach,
    intraclass_correlation,
    quantile,
    share_below,
    shipped_interval_data,
)
from clustersim.units import counted


class Evidence(NamedTuple):
    """Peaks that a range of errors can be made from.

    Attributes
    ----------
    peaks : the peaks
    where : where they were measured
    own : those of them on its machine, where others are among them; None where all are its own
    """

    peaks: Sequence[MeasuredPeaks]
    where: str
    own: Sequence[MeasuredPeaks] | None = None


def reach_by(candidates: Iterable[Evidence], rho: float) -> tuple[Reach, Errors]:
    """Return the error of predictions, and the errors that it is based on.

    The evidence is the first that suffices for a bound.  Peaks of other machines or software are
    weak evidence, so the bound is then at least that of nine of ten of its own peaks; without
    sufficient evidence there is none.

    Parameters
    ----------
    candidates : evidence, the most similar peaks first
    rho : correlation of the errors of one source
    """
    rows, text = 0, ""
    errors: Errors = {}
    for evidence in candidates:
        rows, errors = number_of(evidence.peaks), errors_of(evidence.peaks)
        text = _count_text(evidence)
        bounds = _range(evidence, rho)
        if bounds is not None:
            return Reach(math.exp(-bounds.low), math.exp(bounds.high), rows, text), errors
    return Reach(None, None, rows, f"{text}, are too few"), errors


def _range(evidence: Evidence, rho: float) -> "Range | None":
    """Return the range of the errors of peaks, None where they are too few.

    A few peaks determine no twentieth: the highest of them may be high for any reason.
    """
    peaks, _, own = evidence
    every = central(errors_of(peaks), rho, LEVEL)
    few = central(errors_of(own), rho, 2 * LEVEL - 1, ahead=0.0) if own else Range(0.0, 0.0)
    if every is None or few is None:
        return None
    return Range(min(every.low, few.low), max(every.high, few.high))


class Range(NamedTuple):
    """A range of log(measured / predicted) with the prediction, 0, in it."""

    low: float
    high: float


def central(errors: Errors, rho: float, level: float, ahead: float = 1.0) -> Range | None:
    """Return the range with as much weight below as above it; None if it has no end.

    `ahead` is the weight of runs to come, whose errors are unbounded.

    >>> central({str(i): [i / 10] for i in range(1, 20)}, rho=0.0, level=0.9)
    Range(low=0.0, high=1.9)
    >>> central({str(i): [i / 10] for i in range(1, 19)}, rho=0.0, level=0.9)
    """
    tail = (1 + level) / 2
    above = quantile(errors, rho, tail, ahead)
    below = quantile({name: [-e for e in of] for name, of in errors.items()}, rho, tail, ahead)
    if math.isinf(above) or math.isinf(below):
        return None
    return Range(min(0.0, -below), max(0.0, above))


def errors_of(peaks: Iterable[MeasuredPeaks]) -> Errors:
    """Return log(measured / predicted) by source."""
    errors: defaultdict[str, list[float]] = defaultdict(list)
    for peak in peaks:
        errors[peak.source] += [math.log(ratio) for ratio in peak.ratios]
    return errors


def number_of(peaks: Iterable[MeasuredPeaks]) -> int:
    """Return the number of measured peaks."""
    return sum(len(peak.ratios) for peak in peaks)


def _count_text(evidence: Evidence) -> str:
    """Return the numbers of peaks and sources: ``9 measured peaks of 2 sources ...``."""
    rows, sources = number_of(evidence.peaks), len({peak.source for peak in evidence.peaks})
    return f"{counted(rows, 'measured peak')} of {counted(sources, 'source')} {evidence.where}"


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
    return PeakErrors(*reach_by(_evidence(known, accelerator, framework), rho), rho)


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
