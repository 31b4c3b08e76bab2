r"""Measured runs as evidence of the error of predictions, of step times and of memory.

    runs, the most similar first --log(measured / predicted), weighted--> quantiles --> Reach

No distribution of the errors is assumed: the quantiles are those of conformal prediction
(Lei et al. 2018, section 2, arXiv:1604.04173), with a run at infinity for the one to come, and as
many runs are below the range as above.  Runs of one source share a machine, a model family and a
way of measuring, so n of them count less than n independent ones:

.. math:: \frac{n}{1 + (n - 1) \rho}

(the design effect of Kish 1965, Survey Sampling), with the intraclass correlation :math:`\rho` of
the errors themselves.  At 0 each run has the same weight; at 1 each source has, as where
distributions of sources are pooled (Dunn, Wasserman and Ramdas 2022, arXiv:1809.07441).

The measured runs are in ``validation/prediction_intervals.yaml``.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from statistics import fmean
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import Field

from clustersim.answers import record
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Positive, Strict
from clustersim.catalog.finding import find
from clustersim.catalog.reading import Document
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError
from clustersim.units import counted

LEVEL: Final = 0.9
"""Share of runs that a range of errors contains."""

Nodes = Literal["one", "several"]
"""Sizes of a job: traffic on the network adds errors of its own."""

Ratios = Annotated[tuple[Positive, ...], Field(min_length=1)]


class MeasuredRuns(Strict):
    """Measured runs of one source on one accelerator, on one node or on several.

    `source` is the group of the cases; `ratios` are measured over predicted step times.
    """

    source: str
    accelerator: str
    nodes: Nodes
    ratios: Ratios


class MeasuredPeaks(Strict):
    """Measured peaks of memory of one source, on one accelerator with one profile of software.

    `ratios` are measured over predicted peaks, as the source measures them.
    """

    source: str
    accelerator: str
    framework: str
    ratios: Ratios


class IntervalFile(Strict):
    """``validation/prediction_intervals.yaml``; `version` is that of the predicting clustersim."""

    kind: Literal["prediction_intervals"]
    version: str
    runs: list[MeasuredRuns]
    peaks: list[MeasuredPeaks]


Measured = MeasuredRuns | MeasuredPeaks

Errors = Mapping[str, Sequence[float]]
"""log(measured / predicted) of runs, by source."""


@record
class Reach:
    """The error of predictions by measured runs.

    Attributes
    ----------
    below : predicted over measured at most, at `LEVEL`; null without evidence
    above : measured over predicted at most; null without evidence
    rows : number of measured runs that it is based on
    why : which runs these are; without factors, why there are none
    """

    below: float | None
    above: float | None
    rows: int
    why: str


class Evidence(NamedTuple):
    """Runs that a range of errors can be made from.

    Attributes
    ----------
    runs : the runs
    where : where they were measured
    own : those of them on its machine, where others are among them; None where all are its own
    sources : number of sources from which on its own runs suffice
    """

    runs: Sequence[Measured]
    where: str
    own: Sequence[Measured] | None = None
    sources: int = 1


def reach_by(candidates: Iterable[Evidence], rho: float, noun: str) -> tuple[Reach, Errors]:
    """Return the error of predictions, and the errors that it is based on.

    The evidence is the first that suffices for a bound.  Runs of other machines or software are
    weak evidence, so the bound is then at least that of nine of ten of its own runs; without
    sufficient evidence there is none.

    Parameters
    ----------
    candidates : evidence, the most similar runs first
    rho : correlation of the errors of one source
    noun : what one run is called, ``"measured run"``
    """
    rows, text = 0, ""
    errors: Errors = {}
    for evidence in candidates:
        rows, errors = number_of(evidence.runs), errors_of(evidence.runs)
        text = _count_text(evidence, noun)
        bounds = _range(evidence, rho)
        if bounds is not None:
            return Reach(math.exp(-bounds.low), math.exp(bounds.high), rows, text), errors
    return Reach(None, None, rows, f"{text}, are too few"), errors


def _range(evidence: Evidence, rho: float) -> "Range | None":
    """Return the range of the errors of runs, None where they are too few.

    A few runs determine no twentieth: the slowest of them may be slow for any reason.
    """
    runs, _, own, sources = evidence
    if own is None and len({run.source for run in runs}) < sources:
        return None
    every = central(errors_of(runs), rho, LEVEL)
    few = central(errors_of(own), rho, 2 * LEVEL - 1, ahead=0.0) if own else Range(0.0, 0.0)
    if every is None or few is None:
        return None
    return Range(min(every.low, few.low), max(every.high, few.high))


class Range(NamedTuple):
    """A range of log(measured / predicted) with the prediction, 0, in it."""

    low: float
    high: float

    @property
    def length(self) -> float:
        """Its length."""
        return self.high - self.low


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


def quantile(errors: Errors, rho: float, level: float, ahead: float = 1.0) -> float:
    """Return the smallest error that bounds `level` of all weight; infinite if none does.

    >>> quantile({str(i): [i / 10] for i in range(1, 10)}, rho=0.0, level=0.9)
    0.9
    >>> quantile({str(i): [i / 10] for i in range(1, 9)}, rho=0.0, level=0.9)
    inf
    """
    weighted = sorted(
        (error, 1 / (1 + (len(of) - 1) * rho)) for of in errors.values() for error in of
    )
    sums = list(accumulate(weight for _, weight in weighted))
    needed = level * (sums[-1] + ahead) if sums else math.inf
    needed *= 1 - 1e-9  # sums of weights are rounded
    pairs = zip(weighted, sums, strict=True)
    return next((error for (error, _), reached in pairs if reached >= needed), math.inf)


def intraclass_correlation(errors: Errors) -> float:
    r"""Return the correlation of the sizes of errors of one source, from 0 to 1 [unitless].

    .. math:: \frac{B - W}{B + (n_0 - 1) W}

    with the mean squares B between and W within sources, and :math:`n_0` the usual number of runs
    of a source: the estimator of a one-way analysis of variance (Donner 1986,
    International Statistical Review 54).  It is 1, the conservative end, where it is undefined.

    >>> intraclass_correlation({"a": [0.1, 0.1], "b": [0.3, 0.3]})
    1.0
    >>> intraclass_correlation({"a": [0.1, 0.3], "b": [0.1, 0.3]})
    0.0
    """
    errors = {name: [abs(error) for error in of] for name, of in errors.items()}
    sizes = [len(of) for of in errors.values()]
    rows, sources = sum(sizes), len(sizes)
    if sources < 2 or rows == sources:
        return 1.0
    middle = fmean(error for of in errors.values() for error in of)
    means = {name: fmean(of) for name, of in errors.items()}
    between = sum(len(of) * (means[name] - middle) ** 2 for name, of in errors.items())
    within = sum((error - means[name]) ** 2 for name, of in errors.items() for error in of)
    between, within = between / (sources - 1), within / (rows - sources)
    usual = (rows - sum(size**2 for size in sizes) / rows) / (sources - 1)
    whole = between + (usual - 1) * within
    return min(1.0, max(0.0, (between - within) / whole)) if whole > 0 else 1.0


def share_below(errors: Errors, rho: float, error: float, ahead: float = 1.0) -> float:
    """Return the share of all weight with errors up to one, of runs to come none.

    >>> share_below({"a": [-0.2], "b": [0.0], "c": [0.2]}, rho=0.0, error=0.1)
    0.5
    """
    sums = {name: 1 / (1 + (len(of) - 1) * rho) for name, of in errors.items()}
    below = sum(sums[name] * sum(each <= error for each in of) for name, of in errors.items())
    return below / (sum(sums[name] * len(of) for name, of in errors.items()) + ahead)


def errors_of(runs: Iterable[Measured]) -> Errors:
    """Return log(measured / predicted) by source."""
    errors: defaultdict[str, list[float]] = defaultdict(list)
    for run in runs:
        errors[run.source] += [math.log(ratio) for ratio in run.ratios]
    return errors


def number_of(runs: Iterable[Measured]) -> int:
    """Return the number of measured runs."""
    return sum(len(run.ratios) for run in runs)


def _count_text(evidence: Evidence, noun: str) -> str:
    """Return the numbers of runs and sources: ``9 measured runs of 2 sources ...``."""
    rows, sources = number_of(evidence.runs), len({run.source for run in evidence.runs})
    return f"{counted(rows, noun)} of {counted(sources, 'source')} {evidence.where}"


# --- the file of measured runs --------------------------------------------------------------------


def parse_interval_data(document: Document) -> IntervalFile:
    """Return a document as the record that it holds.

    Raises
    ------
    CatalogError
        one line for each problem of the file.
    """
    return checked(IntervalFile, Tree.of(document), CatalogError)


@lru_cache
def shipped_interval_data() -> IntervalFile:
    """Return the contents of the shipped file."""
    return parse_interval_data(find("validation", "prediction_intervals"))
