r"""The fit: coefficients that bring predictions to measurements, as far as the data determine them.

Let x be the logarithms of the coefficients over their values before, r(x) those of predicted over
measured time, sigma the scatter of r and s the spread of the prior of x.  The fit is

.. math:: \min_x \sum_i \rho\left((r_i(x) / \sigma)^2\right) + \sum_j (x_j / s_j)^2

between bounds, with the loss rho(z) = 2 (sqrt(1 + z) - 1), by which the pull of an outlier is that
of a row at sigma; that of a run slower than predicted falls further out (`linear`).  It is found by
the Gauss-Newton method: r is linearised around the last x, scipy solves the least squares, and r is
evaluated again; its slopes only where it is not linear.

A coefficient with an error of more than half of its prior spread is not determined by the data: it
keeps its value before, the worst one first, and the others are fitted again without it.  One that
the data moved by more than its prior spread is determined, whatever its error: an effect that is
absent leaves its coefficient far below the prior, where no slope is left.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from clustersim.calibration.linear import (
    Array,
    Flags,
    Line,
    Numbers,
    Prior,
    robust_loss,
    slow_rows,
    solve_linear,
    weights,
)
from clustersim.records import dataclass
from clustersim.validation.robust import scatter

Task = tuple[Array, Numbers]
"""Coefficients x, and the numbers of the rows to predict."""

Predict = Callable[[Sequence[Task]], list[Array]]
"""r of each task: logarithms of predicted over measured time of its rows."""

STEP: Final = 0.03
"""Change of a coefficient for its slopes; kinks of a roofline within it are rounded."""

FURTHEST: Final = 0.5
"""Largest change of a coefficient in one round, of its logarithm."""

CLOSE: Final = 0.004
"""Change of a coefficient, of its logarithm, that ends the rounds."""

BENT: Final = 0.1
"""Distance of r from the straight line, in scatters, from which slopes are computed again."""

DETERMINED: Final = 0.5
"""Error over the prior spread, above which the data do not determine a coefficient."""


@dataclass(frozen=True)
class Fit:
    """The result of a fit.

    Attributes
    ----------
    x : logarithms of coefficients over their values before
    errors : standard error of each; that of the prior where it is not fitted
    free : whether the data determine it
    likeness : cosine between the effects of each two coefficients on the data
    alone : the error of each if all others were known
    before, after : r of each row
    scatter : sigma, of the remaining r
    line : r around the last point that was evaluated
    """

    x: Array
    errors: Array
    free: Flags
    likeness: Array
    alone: Array
    before: Array
    after: Array
    scatter: float
    line: Line


def fit(
    predict: Predict,
    prior: Prior,
    runs: Flags,
    rounds: int = 12,
    known: float = DETERMINED,
    start: Array | None = None,
) -> Fit:
    """Fit coefficients to rows.

    Parameters
    ----------
    runs : for each row, whether it is a run, which can be slow for reasons of its own
    rounds : most evaluations of r around a point
    known : error over the prior spread, above which a coefficient keeps its value before
    start : first x; 0 without it
    """
    free = np.ones(len(prior.spread), dtype=bool)
    line = _line(predict, np.zeros(len(free)), runs, free)
    before = line.ratios
    free = np.abs(line.slopes).max(axis=0, initial=0.0) > 0
    if start is not None:
        line = _line(predict, np.where(free, start, 0.0), runs, free)
    line, spent = _descend(predict, line, prior, free, rounds)
    determined = _determined(line, prior, free, known)
    if (determined != free).any():
        x = np.where(determined, line.x, 0.0)
        line = _line(predict, x, runs, determined, slopes=line.slopes)
        line, _ = _descend(predict, line, prior, determined, max(2, rounds - spent))
        determined = _determined(line, prior, determined, known)
    x = solve_linear(line, prior, determined)
    after = predict([(x, np.arange(len(runs), dtype=np.intp))])[0]
    line = replace(line, x=x, ratios=after)
    errors = np.where(determined, _errors_of(line, prior, determined), prior.spread)
    return Fit(
        x=x,
        errors=errors,
        free=determined,
        likeness=_likeness(line),
        alone=_alone(line, prior),
        before=before,
        after=after,
        scatter=scatter(after, int(determined.sum())),
        line=line,
    )


def _descend(
    predict: Predict, line: Line, prior: Prior, free: Flags, rounds: int
) -> tuple[Line, int]:
    """Return r around the best point that some rounds reach, and the number of rounds."""
    rows, reach = len(line.ratios), FURTHEST
    for spent in range(rounds):
        x = solve_linear(line, prior, free, reach)
        moved = np.abs(x - line.x).max(initial=0.0)
        if moved < CLOSE:
            return line, spent
        ratios = predict([(x, np.arange(rows, dtype=np.intp))])[0]
        sigma = min(scatter(line.at(x)), prior.widest)
        if _cost(replace(line, x=x, ratios=ratios), prior, sigma) < _cost(line, prior, sigma):
            bent = float(np.median(np.abs(ratios - line.at(x)))) > BENT * sigma
            renewed = free if bent else np.zeros_like(free)
            line = _line(predict, x, line.runs, renewed, ratios, line.slopes)
        else:
            reach = moved / 3
            if reach < CLOSE:
                return line, spent
    return line, rounds


def _line(
    predict: Predict,
    x: Array,
    runs: Flags,
    free: Flags,
    ratios: Array | None = None,
    slopes: Array | None = None,
) -> Line:
    """Evaluate r around a point; coefficients that are not free keep their `slopes`."""
    every = np.arange(len(runs), dtype=np.intp)
    where = np.flatnonzero(free)
    points: list[Task] = []
    for index in where:
        ahead = x.copy()
        ahead[index] += STEP
        points.append((ahead, every))
    here = [] if ratios is not None else [(x, every)]
    predicted = predict([*here, *points])
    at = ratios if ratios is not None else predicted.pop(0)
    new = np.zeros((len(runs), len(x))) if slopes is None else slopes.copy()
    for index, ahead in zip(where, predicted, strict=True):
        new[:, index] = (ahead - at) / STEP
    return Line(x, at, new, runs)


def _cost(line: Line, prior: Prior, sigma: float) -> float:
    """Return the objective of the fit."""
    rho = robust_loss((line.ratios / sigma) ** 2, slow_rows(line.ratios, line.runs))[0]
    return float(rho.sum() + ((line.x / prior.spread) ** 2).sum())


# --- errors of the coefficients -------------------------------------------------------------------


def _information(line: Line, prior: Prior, free: Flags) -> Array:
    """Return the inverse of the covariance of the free coefficients."""
    sigma = scatter(line.ratios, int(free.sum()))
    slopes = line.slopes[:, free] / sigma
    pulls = weights(line.ratios, sigma, line.runs)[:, None]
    inverse: Array = slopes.T @ (slopes * pulls) + np.diag(prior.spread[free] ** -2.0)
    return inverse


def _errors_of(line: Line, prior: Prior, free: Flags) -> Array:
    """Return the standard error of each coefficient; 0 of those that are not free."""
    errors = np.zeros(len(free))
    if free.any():
        errors[free] = np.sqrt(np.diag(np.linalg.inv(_information(line, prior, free))))
    return errors


def _alone(line: Line, prior: Prior) -> Array:
    """Return the standard error of each coefficient if all others were known."""
    every = np.ones(len(prior.spread), dtype=bool)
    return np.asarray(1 / np.sqrt(np.diag(_information(line, prior, every))), dtype=float)


def _determined(line: Line, prior: Prior, free: Flags, known: float) -> Flags:
    """Return the coefficients that the data determine, removing the worst one after another."""
    determined = free.copy()
    while determined.any():
        share = _errors_of(line, prior, determined) / prior.spread
        share[np.abs(line.x) > prior.spread] = 0.0
        worst = int(np.argmax(share))
        if share[worst] <= known:
            break
        determined[worst] = False
    return determined


def _likeness(line: Line) -> Array:
    """Return the cosine between the effects of each two coefficients."""
    lengths = np.linalg.norm(line.slopes, axis=0)
    units = line.slopes / np.where(lengths > 0, lengths, 1.0)
    cosines: Array = np.abs(units.T @ units)
    return cosines


# --- rows held out --------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeldOut:
    """The results of fits without one fold each.

    Attributes
    ----------
    ratios : r of each row with the coefficients fitted without it; None with one fold
    low, high : least and largest x of each coefficient, over the folds
    """

    ratios: Array | None
    low: Array
    high: Array


def hold_out(predict: Predict, prior: Prior, whole: Fit, folds: Sequence[str]) -> HeldOut:
    """Fit without each fold and grade it.

    The fits use the straight line of the whole fit, so that only the rows of each fold are
    simulated, with its own coefficients.
    """
    names = sorted(set(folds))
    if len(names) < 2:
        return HeldOut(None, whole.x, whole.x)
    inside = [np.array([fold == name for fold in folds]) for name in names]
    fits = [solve_linear(whole.line, prior, whole.free, rows=~held) for held in inside]
    tasks = [(x, np.flatnonzero(held)) for x, held in zip(fits, inside, strict=True)]
    ratios = np.empty(len(folds))
    for (_, rows), graded in zip(tasks, predict(tasks), strict=True):
        ratios[rows] = graded
    return HeldOut(ratios, np.min(fits, axis=0), np.max(fits, axis=0))
