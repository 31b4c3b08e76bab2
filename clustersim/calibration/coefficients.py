"""What can be fitted of an accelerator and of a framework, and what is known of it before.

A coefficient is a fact of a catalogue file, named by its place in it: ``gemm.best``.  Its value in
the file is where a fit begins, and the file's `confidence` says how far from there it may lie.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from clustersim.catalog.facts import Fact
from clustersim.catalog.frameworks import FrameworkRecord
from clustersim.catalog.records import AcceleratorRecord

assumed_spreads: Final[Mapping[str | None, float]] = {
    "high": 0.05, "medium": 0.2, "low": 0.7, None: 0.2,
}  # fmt: skip
"""Standard deviation of the logarithm of a value of some confidence: a twentieth, a fifth, and a
factor of two.  Assumed: it decides only how much the data must say to move a value."""

FIT: Final = "calibration"
"""The key of a fit among the sources of a file."""

assumed_tile_spread: Final = 0.1
"""The same of a tile's efficiency beside the best one's, whatever its file says: a tile half as
large loads its operands up to twice as often, which the cache hides but for a tenth or two."""

SHARE: Final = (0.01, 1.0)
"""Bounds of a share of a peak rate."""

SECONDS: Final = (1e-8, 1e-2)
"""Bounds of a time for each kernel [s]."""

LENGTH: Final = (1.0, 1e4)
"""Bounds of a length at which half of a rate is reached."""

FLASH: Final = ("flash_attention", "flash_attention.cudnn")
"""Where the facts of fused attention stand, by library."""


def of_flash(owner: str, way: str) -> tuple[str, str, str]:
    """Return the facts of fused attention one way: its share of peak, and what halves it."""
    return f"{owner}.{way}", f"{owner}.{way}_sequence", f"{owner}.{way}_head"


_ACCELERATOR: Final[Mapping[str, tuple[float, float]]] = {
    "gemm.best": SHARE,
    "gemm.inner_half": LENGTH,
    "gemm.ragged": (1e9, 1e16),
    "gemm.narrow_best": SHARE,
    "gemm.narrow_inner_half": LENGTH,
    "memory.achieved": SHARE,
    "launch_overhead": SECONDS,
    **{
        path: bounds
        for owner in FLASH
        for way in ("forward", "backward")
        for path, bounds in zip(of_flash(owner, way), (SHARE, LENGTH, LENGTH), strict=True)
    },
}
"""Facts of an accelerator that are fitted, and their bounds."""

_FRAMEWORK: Final[Mapping[str, tuple[float, float]]] = {"dispatch": SECONDS}
"""Those of a framework."""

R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True)
class Coefficient:
    """A number to be fitted.

    Attributes
    ----------
    owner : name of the record that it is a fact of
    path : its place there, ``gemm.best`` or ``gemm.tiles[3].efficiency``
    prior : its value before
    spread : standard deviation of the logarithm of `prior` [unitless]
    low, high : between which it must lie
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


def of_accelerator(record: AcceleratorRecord, *, tiles: bool) -> list[Coefficient]:
    """Return what can be fitted of an accelerator.

    Parameters
    ----------
    tiles : whether efficiencies of its tiles are among them; that of the best ones stays, because
        `gemm.best` is its rate
    """
    found = _coefficients(record, _ACCELERATOR)
    fact = record.gemm.tiles
    best = max(tile.efficiency for tile in fact.value)
    return found + [
        Coefficient(
            record.name,
            f"gemm.tiles[{place}].efficiency",
            tile.efficiency,
            min(assumed_tile_spread, _spread(fact)),
            0.01,
            best,
        )
        for place, tile in enumerate(fact.value)
        if tiles and tile.efficiency < best
    ]


def of_framework(record: FrameworkRecord) -> list[Coefficient]:
    """Return what can be fitted of a framework."""
    return _coefficients(record, _FRAMEWORK)


def _coefficients(
    record: AcceleratorRecord | FrameworkRecord, bounds: Mapping[str, tuple[float, float]]
) -> list[Coefficient]:
    """Return the facts of a record that are there and are not 0, whose logarithm is fitted."""
    found = []
    for path, (low, high) in bounds.items():
        fact = fact_at(record, path)
        if fact is not None and fact.value:
            found.append(Coefficient(record.name, path, fact.value, _spread(fact), low, high))
    return found


def _spread(fact: Fact[Any]) -> float:
    """Return how far a value may lie from where it is.

    One that was fitted may rest on the very rows at hand, which must not count twice: whatever its
    confidence, it is no more than a place to begin.
    """
    return assumed_spreads["low" if fact.source == FIT else fact.confidence]


def fact_at(record: BaseModel, path: str) -> Fact[Any] | None:
    """Return the fact at a place of a record."""
    found: Any = record
    for part in path.split("."):
        found = None if found is None else getattr(found, part)
    assert found is None or isinstance(found, Fact), path
    return found


def with_values(record: R, values: Mapping[str, float]) -> R:
    """Return a record with other values in some of its facts, by their paths."""
    for path, value in values.items():
        record = _changed(record, path.split("."), value)
    return record


def _changed(record: Any, path: list[str], value: float) -> Any:
    """Return a record, a fact or a list with one value inside it changed."""
    if not path:
        return record.model_copy(update={"value": value}) if isinstance(record, Fact) else value
    name, _, place = path[0].partition("[")
    inside = getattr(record, name)
    if not place:
        return record.model_copy(update={name: _changed(inside, path[1:], value)})
    items, at = list(inside.value), int(place.removesuffix("]"))
    items[at] = _changed(items[at], path[1:], value)
    return record.model_copy(update={name: inside.model_copy(update={"value": items})})
