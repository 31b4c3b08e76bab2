r"""Measured runs as evidence of the error of predictions, of times and of memory.

    prediction_intervals.yaml --> MeasuredRun (with its Traits), MeasuredPeaks
    log(measured / predicted) of them, weighted --> quantiles --> Reach

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

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from itertools import accumulate
from statistics import fmean
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from clustersim.answers import record
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Positive, Strict
from clustersim.catalog.finding import find
from clustersim.catalog.reading import Document
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError

LEVEL: Final = 0.9
"""Share of runs that a range of errors contains."""

Metric = Literal["step_time", "ttft", "tpot", "latency", "throughput"]
"""Measured numbers of steps of training, then of services."""

Ratios = Annotated[tuple[Positive, ...], Field(min_length=1)]


@record
class Traits:
    """What makes two runs alike.

    Attributes
    ----------
    accelerator : name of the accelerator
    generation : its compute capability, or its name
    machine : name of the cluster
    software : profile of the framework or of the engine
    shape : layers and width of the model
    experts : whether it is a mixture of experts
    task : pretraining, fine-tuning or adapters; of a service, how requests arrive
    bits : of the inputs of matrix products, of weights of a service
    nodes : number of nodes
    devices : number of devices
    """

    accelerator: str
    generation: str
    machine: str
    software: str
    shape: str
    experts: bool
    task: str
    bits: int
    nodes: int
    devices: int


@record
class MeasuredRun(Traits):
    """A measured run next to its prediction.

    Attributes
    ----------
    run : its name
    model : name of the model
    source : the group of the case, with machine and engine where one group has many
    metric : the measured number
    ratio : measured over predicted time, or predicted over measured rate: above 1 where the run was
        slower
    layout : degrees of its layout
    """

    run: str
    model: str
    source: str
    metric: str
    ratio: float
    layout: str

    @property
    def error(self) -> float:
        """Predicted over measured number, less one [unitless]."""
        return (self.ratio if self.metric == "throughput" else 1 / self.ratio) - 1


def parse_runs(text: Any) -> Any:
    """Return the rows of a table of measured runs.

    >>> parse_runs(runs_text([])) == ()
    True
    """
    if not isinstance(text, str):
        return text
    head, *rows = csv.reader(io.StringIO(text))
    if head != _COLUMNS:
        raise ValueError(f"needs the columns {','.join(_COLUMNS)}")
    return tuple(MeasuredRun(**_row(number, row)) for number, row in enumerate(rows, 1))


def _row(number: int, row: Sequence[str]) -> dict[str, Any]:
    try:
        values = {name: _READ[name](text) for name, text in zip(_COLUMNS, row, strict=True)}
    except ValueError as error:
        raise ValueError(f"row {number}: {error}") from None
    if not (math.isfinite(values["ratio"]) and values["ratio"] > 0):
        raise ValueError(f"row {number}: ratio must be above 0")
    return values


def runs_text(runs: Iterable[MeasuredRun]) -> str:
    """Return measured runs as a table."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows([_written(getattr(run, name)) for name in _COLUMNS] for run in runs)
    return text.getvalue()


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


_CONVERTED: Final[Mapping[object, Callable[[str], Any]]] = {
    str: str, int: int, float: float, bool: lambda text: text == "yes",
}  # fmt: skip

_READ: Final = {each.name: _CONVERTED[each.type] for each in fields(MeasuredRun)}

_COLUMNS: Final = [
    "run", "source", "metric", "ratio", "model", "layout", *(each.name for each in fields(Traits)),
]  # fmt: skip


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
    runs: Annotated[tuple[MeasuredRun, ...], BeforeValidator(parse_runs)]
    peaks: list[MeasuredPeaks]


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
