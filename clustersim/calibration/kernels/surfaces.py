"""The fit of a surface to the measured kernels of one kind on one accelerator, and its grades.

Rows with the same shape are in the same fold, so that a row is graded by a fit without its shape.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Final

import numpy as np

from clustersim.calibration.fitting import Fit, Task, fit
from clustersim.calibration.kernels.words import Measurement
from clustersim.calibration.linear import Array, Prior
from clustersim.cost.surfaces.kernel_kinds import CONDITIONS, SURFACES
from clustersim.cost.surfaces.surface import Surface, Term, predict
from clustersim.records import dataclass
from clustersim.topology.accelerator import Accelerator

FOLDS: Final = 5
"""Folds of shapes."""

LEAST_ROWS: Final = 6
"""Fewest rows of a fit."""

ROUNDS: Final = 20
"""Most rounds of a fit."""

WIDEST: Final = 0.1
"""Largest scatter by which the data lose weight against the priors; the same kernels measured
under other releases and frameworks differ by half of it."""

STRIDES: Final = (2.0, 1.0, 0.5, 1.0, 0.5, 0.25)
"""Changes of a term in the search before a fit, in prior spreads."""

KNOWN: Final = 0.9
"""Error over the prior spread, above which a term keeps its prior.  Priors are medians over
accelerators, so that a term of which little is known is better off near its prior than at it."""


@dataclass(frozen=True)
class FittedTerm:
    """One term of a surface after the fit.

    Attributes
    ----------
    name : the term
    unit : its unit; empty of a pure number
    prior : its value without data
    value : its value now; the prior if it is not fitted
    error : standard error of the value, a share of it; that of the prior if it is not fitted
    fitted : whether the data determine it
    """

    name: str
    unit: str
    prior: float
    value: float
    error: float
    fitted: bool


@dataclass(frozen=True)
class KernelErrors:
    """Errors of the predicted times of some kernels, predicted over measured less 1 [unitless].

    Attributes
    ----------
    median : median of the absolute errors
    p90 : 90th percentile of the absolute errors
    bias : mean error; above 0 where predictions are too slow
    """

    median: float
    p90: float
    bias: float


def kernel_errors(ratios: Array) -> KernelErrors:
    """Return the errors of some rows from the logarithms of predicted over measured time."""
    errors = np.expm1(ratios)
    return KernelErrors(
        median=float(np.median(np.abs(errors))),
        p90=float(np.quantile(np.abs(errors), 0.9)),
        bias=float(errors.mean()),
    )


@dataclass(frozen=True)
class SurfaceRows:
    """Rows of one kind and variant on a device."""

    device: Accelerator
    kind: str
    variant: str
    rows: Sequence[Measurement]

    @property
    def surface(self) -> Surface:
        """The surface of the kind."""
        return SURFACES[self.kind]

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms of the surface."""
        return self.surface.terms(self.variant)

    def ratios(self, values: Mapping[str, float]) -> Array:
        """Return the logarithms of predicted over measured time, with some terms found."""
        predicted = predict(self.surface, self.device, self._shapes, self.variant, values)
        ratios: Array = np.log(predicted / self._seconds)
        return ratios

    @cached_property
    def _shapes(self) -> dict[str, Array]:
        return {
            name: np.array([row.shape[name] for row in self.rows], dtype=float)
            for name in self.surface.columns
        }

    @cached_property
    def _seconds(self) -> Array:
        return np.array([row.seconds for row in self.rows], dtype=float)

    def without(self, fold: int) -> "SurfaceRows":
        """Return the rows outside a fold."""
        return replace(self, rows=[row for row in self.rows if fold_of(row) != fold])

    def inside(self, fold: int) -> "SurfaceRows":
        """Return the rows of a fold."""
        return replace(self, rows=[row for row in self.rows if fold_of(row) == fold])


def fold_of(row: Measurement) -> int:
    """Return the fold of a row, from its shape alone, not from how it was measured."""
    names = sorted(set(row.shape) - CONDITIONS)
    text = ",".join(f"{name}={row.shape[name]:g}" for name in names)
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % FOLDS


def fit_surface(rows: SurfaceRows) -> tuple[FittedTerm, ...]:
    """Return the terms of a surface, fitted to rows by the fit of `calibration.fitting`."""
    terms = rows.terms
    spread, low, high = np.array(
        [(t.spread, np.log(t.low / t.prior), np.log(t.high / t.prior)) for t in terms]
    ).T
    fitted = _fitted(rows, terms, Prior(spread, low, high, WIDEST))
    return tuple(
        FittedTerm(
            name=term.name,
            unit=term.unit,
            prior=term.prior,
            value=term.prior * float(np.exp(fitted.x[index])),
            error=float(fitted.errors[index]),
            fitted=bool(fitted.free[index]),
        )
        for index, term in enumerate(terms)
    )


def _fitted(rows: SurfaceRows, terms: Sequence[Term], prior: Prior) -> Fit:
    def evaluate(tasks: Sequence[Task]) -> list[Array]:
        results = []
        for x, numbers in tasks:
            values = {
                term.name: term.prior * float(np.exp(moved))
                for term, moved in zip(terms, x, strict=True)
            }
            results.append(rows.ratios(values)[numbers])
        return results

    every = np.arange(len(rows.rows), dtype=np.intp)

    def cost(x: Array) -> float:
        """Return the objective with absolute errors, which need no scatter."""
        (ratios,) = evaluate([(x, every)])
        return float(np.abs(ratios).sum() / WIDEST + ((x / prior.spread) ** 2).sum() / 2)

    runs = np.zeros(len(rows.rows), dtype=bool)
    return fit(evaluate, prior, runs, ROUNDS, KNOWN, _first_point(cost, prior))


def _first_point(cost: Callable[[Array], float], prior: Prior) -> Array:
    """Return a point near the best one, found by changes of one term after another.

    Terms that hide behind others, as that of the shorter side of a roofline, have no slope at the
    priors.
    """
    best = np.zeros(len(prior.spread))
    least = cost(best)
    for stride, index, sign in product(STRIDES, range(len(best)), (-1, 1)):
        moved = best.copy()
        moved[index] += sign * stride * prior.spread[index]
        moved = np.clip(moved, prior.low, prior.high)
        value = cost(moved)
        if value < least:
            best, least = moved, value
    return best


def found_terms(terms: Sequence[FittedTerm]) -> dict[str, float]:
    """Return the values of the terms that the data determined."""
    return {term.name: term.value for term in terms if term.fitted}


def held_out_ratios(rows: SurfaceRows) -> Array:
    """Return the ratios of all rows, each by a fit without the fold of its shape."""
    folds = np.array([fold_of(row) for row in rows.rows])
    ratios = np.empty(len(folds))
    for fold in sorted(set(folds.tolist())):
        values = found_terms(fit_surface(rows.without(fold)))
        ratios[folds == fold] = rows.inside(fold).ratios(values)
    return ratios
