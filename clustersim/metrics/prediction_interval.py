r"""The interval that a measured step time is expected in, from runs that were measured before.

    runs --similar ones--> log(measured / predicted), weighted --quantiles--> factors a, b
    predicted step time t --> [t / a, t b]

No distribution of the errors is assumed: the quantiles are those of conformal prediction
(Lei et al. 2018, section 2, arXiv:1604.04173), with a run at infinity for the one to come, and as
many runs are below the interval as above.  A run can be slower than its machine for many reasons
and faster for none, so the interval is longer above the prediction.  Runs of one source share a
machine, a model family and a way of measuring, so n of them count less than n independent ones:

.. math:: \frac{n}{1 + (n - 1) \rho}

(the design effect of Kish 1965, Survey Sampling), with the intraclass correlation :math:`\rho` of
the errors themselves.  At 0 each run has the same weight; at 1 each source has, as where
distributions of sources are pooled (Dunn, Wasserman and Ramdas 2022, arXiv:1809.07441).

The measured runs are in ``validation/prediction_intervals.yaml``.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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

Nodes = Literal["one", "several"]
"""Sizes of a job: traffic on the network adds errors of its own."""


class MeasuredRuns(Strict):
    """Measured runs of one source on one accelerator, on one node or on several.

    `source` is the group of the cases; `ratios` are measured over predicted step times.
    """

    source: str
    accelerator: str
    nodes: Nodes
    ratios: Annotated[tuple[Positive, ...], Field(min_length=1)]


class IntervalFile(Strict):
    """``validation/prediction_intervals.yaml``; `version` is that of the predicting clustersim."""

    kind: Literal["prediction_intervals"]
    version: str
    runs: list[MeasuredRuns]


LEVEL: Final = 0.9
"""Share of runs that an interval contains."""

SIZES: Final[Mapping[Nodes, str]] = {"one": "one node", "several": "several nodes"}
"""Sizes of a job in words."""

SOURCES: Final = 9
"""Sources from which on jobs of one size, or on one accelerator, have an interval of their own;
assumed."""

Errors = Mapping[str, Sequence[float]]
"""log(measured / predicted) of runs, by source."""


@dataclass(frozen=True)
class Reach:
    """The error of predicted step times on a machine.

    Attributes
    ----------
    below : predicted over measured at most, at `LEVEL`; None without evidence
    above : measured over predicted at most; None without evidence
    rows : measured runs that it is based on
    why : which runs these are; without factors, why there are none
    """

    below: float | None
    above: float | None
    rows: int
    why: str


@record
class Interval:
    """The step times between which `level` of the measured runs are expected.

    Attributes
    ----------
    low_s : shortest step time of the interval; null without evidence [s]
    high_s : longest step time of the interval; null without evidence [s]
    level : share of measured runs that are expected in it
    rows : number of measured runs that it is based on
    why : which runs these are, or why there is no interval
    """

    low_s: float | None
    high_s: float | None
    level: float
    rows: int
    why: str


def interval(step_time: float, reach: Reach) -> Interval:
    """Return the interval around a predicted step time [s].

    >>> interval(10.0, Reach(1.25, 1.5, 12, "12 measured runs"))
    Interval(low_s=8.0, high_s=15.0, level=0.9, rows=12, why='12 measured runs')
    """
    if reach.below is None or reach.above is None:
        return Interval(None, None, LEVEL, reach.rows, reach.why)
    low, high = step_time / reach.below, step_time * reach.above
    return Interval(low, high, LEVEL, reach.rows, reach.why)


def reach_of(runs: Iterable[MeasuredRuns], accelerator: str, nodes: Nodes) -> Reach:
    """Return the error of predictions on an accelerator, on ``one`` node or ``several``.

    The runs are the most similar ones that suffice for a bound: on the accelerator and as many
    nodes; on the accelerator, for a job on several nodes, or on one node of all accelerators, for
    one that has no errors of a network; on all accelerators.  Other accelerators are weak evidence
    about this one, so the bound is then at least that of nine of ten of its own runs; without any
    there is none.
    """
    known = list(runs)
    if all(run.accelerator != accelerator for run in known):
        return Reach(None, None, 0, f"no measured runs on {accelerator}")
    rho = intraclass_correlation(_errors(known))
    for evidence in _evidence(known, accelerator, nodes):
        errors = _range(evidence, rho)
        text = _count_text(evidence.runs, evidence.where)
        if errors is not None:
            return Reach(math.exp(-errors.low), math.exp(errors.high), _count(evidence.runs), text)
    return Reach(None, None, _count(evidence.runs), f"{text}, are too few")


class _Evidence(NamedTuple):
    """Runs that an interval can be made from.

    Attributes
    ----------
    where : where they were measured
    own : those of them on its accelerator, where others are among them; None where all are its own
    """

    runs: list[MeasuredRuns]
    where: str
    own: list[MeasuredRuns] | None = None


def _evidence(known: list[MeasuredRuns], accelerator: str, nodes: Nodes) -> Iterator[_Evidence]:
    """Yield the runs of `reach_of`, the most similar ones first."""
    own = [run for run in known if run.accelerator == accelerator]
    sized = [run for run in own if run.nodes == nodes]
    size = SIZES[nodes]
    yield _Evidence(sized, f"on {accelerator}, {size}")
    if nodes == "one":
        single = [run for run in known if run.nodes == nodes]
        where = f"on all accelerators, {size}, {_count(sized)} of them on {accelerator}"
        yield _Evidence(single, where, sized)
    else:
        yield _Evidence(own, f"on {accelerator}")
    where = f"on all accelerators, {_count(own)} of them on {accelerator}"
    yield _Evidence(known, where, own)


def _range(evidence: _Evidence, rho: float) -> "Range | None":
    """Return the range of the errors of runs, None where they are too few.

    Those of other accelerators have at least nine of ten of its own runs on either side.  A few
    runs determine no twentieth: the slowest of them may be slow for any reason.
    """
    runs, _, own = evidence
    if own is None and len({run.source for run in runs}) < SOURCES:
        return None
    every = central(_errors(runs), rho, LEVEL)
    few = central(_errors(own), rho, 2 * LEVEL - 1, ahead=0.0) if own else Range(0.0, 0.0)
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


def _errors(runs: Iterable[MeasuredRuns]) -> Errors:
    errors: defaultdict[str, list[float]] = defaultdict(list)
    for run in runs:
        errors[run.source] += [math.log(ratio) for ratio in run.ratios]
    return errors


def _count(runs: Iterable[MeasuredRuns]) -> int:
    return sum(len(run.ratios) for run in runs)


def _count_text(runs: Sequence[MeasuredRuns], where: str) -> str:
    """Return the numbers of runs and sources: ``9 measured runs of 2 sources ...``."""
    rows, sources = _count(runs), len({run.source for run in runs})
    plural = "" if rows == 1 else "s"
    return f"{rows} measured run{plural} of {sources} source{'' if sources == 1 else 's'} {where}"


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
def shipped_interval_data() -> tuple[MeasuredRuns, ...]:
    """Return the measured runs of the shipped file."""
    return tuple(parse_interval_data(find("validation", "prediction_intervals")).runs)


@lru_cache
def shipped_reach(accelerator: str, nodes: Nodes) -> Reach:
    """Return the error of predictions by the measured runs of the shipped file, as `reach_of`."""
    return reach_of(shipped_interval_data(), accelerator, nodes)


def size_of(nodes: int) -> Nodes:
    """Return the size class of a job by its number of nodes."""
    return "one" if nodes == 1 else "several"
