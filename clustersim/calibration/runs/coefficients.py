"""The coefficients of an accelerator and of a framework that can be fitted, with their priors.

A coefficient is a fact of a catalogue file, named by its path: ``gemm.best``.  A fit starts at its
value in the file, and the file's `confidence` determines the width of the prior.
"""

import math
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from clustersim.catalog.facts import SourcedValue, facts
from clustersim.catalog.records.accelerators import AcceleratorRecord
from clustersim.catalog.records.frameworks import FrameworkRecord
from clustersim.cost.kernels.products import training_terms
from clustersim.records import dataclass
from clustersim.topology.accelerator import build_accelerator

assumed_spreads: Final[Mapping[str | None, float]] = {
    "high": 0.05, "medium": 0.2, "low": 0.7, None: 0.2,
}  # fmt: skip
"""Standard deviation of the logarithm of a value, by its confidence: a twentieth, a fifth, and a
factor of two.  Assumed: it decides only how much data it takes to change a value."""

FIT: Final = "calibration"
"""The key of a fit among the sources of a file."""

assumed_tile_spread: Final = 0.1
"""The same of a tile's efficiency over the best one's, whatever its confidence: a tile half as
large loads its operands up to twice as often, which the cache hides but for a tenth or two."""

SHARE: Final = (0.01, 1.0)
"""Bounds of a share of a peak rate."""

SPREAD: Final = (1e-3, 0.1)
"""Bounds of the spread of clocks over devices."""

SECONDS: Final = (1e-8, 1e-2)
"""Bounds of a time for each kernel [s]."""

LENGTH: Final = (1.0, 1e4)
"""Bounds of a length at which half of a rate is reached."""

FLASH: Final = ("flash_attention", "flash_attention.cudnn")
"""Paths of the facts of fused attention, by library."""


def flash_facts(owner: str, direction: str) -> tuple[str, str, str]:
    """Return the facts of fused attention in one direction: its share of peak, and both lengths."""
    return f"{owner}.{direction}", f"{owner}.{direction}_sequence", f"{owner}.{direction}_head"


_ACCELERATOR: Final[Mapping[str, tuple[float, float]]] = {
    "gemm.best": SHARE,
    "gemm.inner_half": LENGTH,
    "gemm.sustained": SHARE,
    "gemm.ragged": (1e9, 1e16),
    "gemm.narrow_best": SHARE,
    "gemm.narrow_inner_half": LENGTH,
    "gemm.narrow_sustained": SHARE,
    "memory.achieved": SHARE,
    "launch_overhead": SECONDS,
    "clock_spread": SPREAD,
    **{
        path: bounds
        for owner in FLASH
        for direction in ("forward", "backward")
        for path, bounds in zip(flash_facts(owner, direction), (SHARE, LENGTH, LENGTH), strict=True)
    },
}
"""Coefficients of an accelerator, and their bounds."""

_OF_TRAINING: Final = ("gemm.sustained", "gemm.narrow_sustained", "clock_spread")

_FRAMEWORK: Final[Mapping[str, tuple[float, float]]] = {"dispatch": SECONDS}
"""Those of a framework."""

R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True)
class Coefficient:
    """A number to be fitted.

    Attributes
    ----------
    owner : name of its record
    path : its path there, ``gemm.best`` or ``gemm.tiles[3].efficiency``
    prior : its value before
    spread : standard deviation of the logarithm of `prior` [unitless]
    low, high : its bounds
    """

    owner: str
    path: str
    prior: float
    spread: float
    low: float
    high: float

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of the logarithm of its value over `prior`."""
        low, high = min(self.low, self.prior), max(self.high, self.prior)
        return math.log(low / self.prior), math.log(high / self.prior)


def with_products(record: AcceleratorRecord) -> AcceleratorRecord:
    """Return a record that states its products, with the fits of measured kernels as facts."""
    if record.gemm.tiles is not None:
        return record
    terms = training_terms(build_accelerator(record).fits)
    stated: dict[str, SourcedValue[float]] = {
        name: SourcedValue(
            value=terms[name], assumed="fit of measured kernels", confidence="medium"
        )
        for name in ("best", "inner_half")
        if getattr(record.gemm, name) is None
    }
    return record.model_copy(update={"gemm": record.gemm.model_copy(update=stated)})


def accelerator_coefficients(record: AcceleratorRecord, *, alone: bool) -> list[Coefficient]:
    """Return the coefficients of an accelerator.

    Parameters
    ----------
    alone : whether single products are among the rows: they determine the efficiencies of tiles,
        but for that of the best ones, of which `gemm.best` is the rate, and not what a device
        sustains in training
    """
    coefficients = _coefficients(record, _ACCELERATOR)
    if not alone:
        return coefficients
    fact = fact_at(record, "gemm.tiles")
    if fact is None:
        return [each for each in coefficients if each.path not in _OF_TRAINING]
    best = max(tile.efficiency for tile in fact.value)
    return coefficients + [
        Coefficient(
            record.name,
            f"gemm.tiles[{index}].efficiency",
            tile.efficiency,
            min(assumed_tile_spread, _spread(fact)),
            0.01,
            best,
        )
        for index, tile in enumerate(fact.value)
        if tile.efficiency < best
    ]


def framework_coefficients(record: FrameworkRecord) -> list[Coefficient]:
    """Return the coefficients of a framework."""
    return _coefficients(record, _FRAMEWORK)


def _coefficients(
    record: AcceleratorRecord | FrameworkRecord, bounds: Mapping[str, tuple[float, float]]
) -> list[Coefficient]:
    """Return the facts of a record that have a value other than 0: their logarithms are fitted."""
    coefficients = []
    for path, (low, high) in bounds.items():
        fact = fact_at(record, path)
        if fact is not None and fact.value:
            coefficients.append(
                Coefficient(record.name, path, fact.value, _spread(fact), low, high)
            )
    return coefficients


def _spread(fact: SourcedValue[Any]) -> float:
    """Return the width of the prior of a fact.

    A fitted value may come from the same rows, which must not count twice: whatever its confidence,
    its prior is wide.
    """
    return assumed_spreads["low" if fact.source == FIT else fact.confidence]


def fact_at(record: BaseModel, path: str) -> SourcedValue[Any] | None:
    """Return the fact at a path of a record."""
    return dict(facts(record)).get(path)


def with_values(record: R, values: Mapping[str, float]) -> R:
    """Return a record with other values in some of its facts, by their paths."""
    for path, value in values.items():
        record = _changed(record, path.split("."), value)
    return record


def _changed(record: Any, path: list[str], value: float) -> Any:
    """Return a record with one value inside it, or inside a list of it, changed."""
    if not path:
        return value
    name, _, index = path[0].partition("[")
    inside = getattr(record, name)
    if not index:
        return record.model_copy(update={name: _changed(inside, path[1:], value)})
    items, at = list(inside), int(index.removesuffix("]"))
    items[at] = _changed(items[at], path[1:], value)
    return record.model_copy(update={name: items})
