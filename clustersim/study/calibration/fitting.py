r"""The fit: coefficients that bring predictions to what was measured, as far as the data say.

Let x be the logarithms of the coefficients over their values before, r(x) those of predicted over
measured time, sigma the scatter of r and s the spread of x that was known before.  The fit is

.. math:: \min_x \sum_i \rho\left((r_i(x) / \sigma)^2\right) + \sum_j (x_j / s_j)^2

between bounds, with the loss rho(z) = 2 (sqrt(1 + z) - 1), by which a row far off pulls no harder
than one at sigma.  It is found by Gauss and Newton's method: r is linear around the last x, scipy
finds the least squares of that, and r is looked at again; its slopes only where it bends.

What the data do not tell stays: a coefficient whose error is more than half of its spread before
goes back to its value before, the worst first, and the others are fitted again without it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

Numbers = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

Task = tuple[Array, Numbers]
"""Coefficients x, and the numbers of the rows that are asked for."""

Predict = Callable[[Sequence[Task]], list[Array]]
"""r of each task: logarithms of predicted over measured time of its rows."""

STEP: Final = 0.03
"""How far a coefficient is moved to see what changes; kinks of a roofline within it are rounded."""

FURTHEST: Final = 0.5
"""Most that a coefficient is moved in one round, of its logarithm."""

CLOSE: Final = 0.004
"""Change of a coefficient, of its logarithm, that ends the rounds."""

SHARPEST: Final = 0.003
"""Least scatter that is believed: no measurement repeats better."""

MOST_LOOKS: Final = 12
"""Times that the scatter of a fit is looked at again."""

ALIKE: Final = 0.02
"""Change of the scatter that ends that."""

BENT: Final = 0.1
"""Distance of r from the straight line, in scatters, that makes the slopes worth another look."""

TOLD: Final = 0.5
"""Error over the spread before, above which the data do not tell a coefficient."""


@dataclass(frozen=True)
class Prior:
    """What is known of x before: 0 give or take `spread`, between `low` and `high`."""

    spread: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class Line:
    """r around a point: `ratios` at `x`, and `slopes` of each row (down) by coefficient."""

    x: Array
    ratios: Array
    slopes: Array

    def at(self, x: Array) -> Array:
        """Return what r would be at x if it were linear."""
        found: Array = self.ratios + self.slopes @ (x - self.x)
        return found


@dataclass(frozen=True)
class Fit:
    """What came out.

    Attributes
    ----------
    x : logarithms of coefficients over their values before
    errors : standard error of each; that from before where it is left
    free : whether the data tell it
    likeness : cosine between what each two coefficients change in the data
    alone : what the error of each would be if all others were known
    before, after : r of each row
    scatter : sigma, of what is left
    line : r around the last point that was looked at
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


def fit(predict: Predict, prior: Prior, rows: int, rounds: int = 12) -> Fit:
    """Fit coefficients to rows.

    Parameters
    ----------
    rounds : most times that r is looked at around a point
    """
    free = np.ones(len(prior.spread), dtype=bool)
    line = _line(predict, np.zeros(len(free)), rows, free)
    before = line.ratios
    free = np.abs(line.slopes).max(axis=0, initial=0.0) > 0
    line, spent = _descend(predict, line, prior, free, rounds)
    told = _told(line, prior, free)
    if (told != free).any():
        line = _line(predict, np.where(told, line.x, 0.0), rows, told, slopes=line.slopes)
        line, _ = _descend(predict, line, prior, told, max(2, rounds - spent))
        told = _told(line, prior, told)
    x = settled(line, prior, told)
    after = predict([(x, np.arange(rows, dtype=np.intp))])[0]
    line = replace(line, x=x, ratios=after)
    errors = np.where(told, _errors(line, prior, told), prior.spread)
    return Fit(
        x=x,
        errors=errors,
        free=told,
        likeness=_likeness(line),
        alone=_alone(line, prior),
        before=before,
        after=after,
        scatter=scatter(after, int(told.sum())),
        line=line,
    )


def _descend(
    predict: Predict, line: Line, prior: Prior, free: Flags, rounds: int
) -> tuple[Line, int]:
    """Return r around the best point that some rounds reach, and how many there were."""
    rows, reach = len(line.ratios), FURTHEST
    for spent in range(rounds):
        x = settled(line, prior, free, reach)
        moved = np.abs(x - line.x).max(initial=0.0)
        if moved < CLOSE:
            return line, spent
        ratios = predict([(x, np.arange(rows, dtype=np.intp))])[0]
        sigma = scatter(line.at(x))
        if _cost(ratios, x, prior, sigma) < _cost(line.ratios, line.x, prior, sigma):
            bent = float(np.median(np.abs(ratios - line.at(x)))) > BENT * sigma
            again = free if bent else np.zeros_like(free)
            line = _line(predict, x, rows, again, ratios, line.slopes)
        else:
            reach = moved / 3
            if reach < CLOSE:
                return line, spent
    return line, rounds


def _line(
    predict: Predict,
    x: Array,
    rows: int,
    free: Flags,
    ratios: Array | None = None,
    slopes: Array | None = None,
) -> Line:
    """Look at r around a point; what is not free keeps its `slopes`."""
    every = np.arange(rows, dtype=np.intp)
    where = np.flatnonzero(free)
    points: list[Task] = []
    for place in where:
        ahead = x.copy()
        ahead[place] += STEP
        points.append((ahead, every))
    here = [] if ratios is not None else [(x, every)]
    found = predict([*here, *points])
    at = ratios if ratios is not None else found.pop(0)
    new = np.zeros((rows, len(x))) if slopes is None else slopes.copy()
    for place, ahead in zip(where, found, strict=True):
        new[:, place] = (ahead - at) / STEP
    return Line(x, at, new)


def scatter(ratios: Array, spent: int = 0) -> float:
    """Return the scale of some ratios: 1.48 of their median size, as of a normal distribution.

    Parameters
    ----------
    spent : coefficients that were fitted to them, which makes them smaller than they would be
    """
    if not len(ratios):
        return SHARPEST
    share = len(ratios) / max(len(ratios) - spent, 0.5)
    return max(SHARPEST, 1.4826 * float(np.median(np.abs(ratios))) * math.sqrt(share))


def _cost(ratios: Array, x: Array, prior: Prior, sigma: float) -> float:
    """Return what the fit makes small."""
    z = (ratios / sigma) ** 2
    return float(2 * (np.sqrt(1 + z) - 1).sum() + ((x / prior.spread) ** 2).sum())


def settled(
    line: Line, prior: Prior, free: Flags, reach: float | None = None, rows: Flags | None = None
) -> Array:
    """Return the best x if r were linear; what is not free is 0.

    The scatter that a fit leaves is not known before it is made: at first next to none is taken, by
    which data win over what was known, and it is looked at again until it stays.

    Parameters
    ----------
    reach : how far from the line's own point it may go
    rows : which rows count; all without it
    """
    kept = np.ones(len(line.ratios), dtype=bool) if rows is None else rows
    x = np.where(free, line.x, 0.0)
    if not free.any() or not kept.any():
        return x * 0.0
    low, high = prior.low, prior.high
    if reach is not None:
        low, high = np.maximum(low, line.x - reach), np.minimum(high, line.x + reach)
    mine = Line(line.x, line.ratios[kept], line.slopes[kept])
    inside = Prior(prior.spread, low, high)
    spent, sigma = int(free.sum()), SHARPEST
    for _ in range(MOST_LOOKS):
        x = _least(mine, inside, free, x, sigma)
        left = scatter(mine.at(x), spent)
        if abs(left / sigma - 1) < ALIKE:
            break
        sigma = left
    return x


def _least(line: Line, prior: Prior, free: Flags, x: Array, sigma: float) -> Array:
    """Return the x between bounds that is best for one scatter, by scipy."""
    from scipy.optimize import least_squares

    where = np.flatnonzero(free)
    spread, low = prior.spread[where], prior.low[where]
    high = np.maximum(prior.high[where], low + 1e-6)
    slopes = line.slopes[:, where] / sigma
    base = line.at(np.where(free, 0.0, x)) / sigma
    jacobian = np.vstack([slopes, np.diag(1 / spread)])

    def misfit(y: Array) -> Array:
        return np.concatenate([base + slopes @ y, y / spread])

    def loss(z: Array) -> Array:
        """Return rho and its derivatives: bounded pull for data, squares for what was known."""
        rho: Array = np.vstack([z, np.ones_like(z), np.zeros_like(z)])
        root = np.sqrt(1 + z[: len(base)])
        rho[:, : len(base)] = 2 * (root - 1), 1 / root, -0.5 / root**3
        return rho

    start = np.clip(x[where], low + 1e-7, high - 1e-7)
    found: Any = least_squares(misfit, start, jac=lambda _: jacobian, bounds=(low, high), loss=loss)
    best = np.where(free, x, 0.0)
    best[where] = found.x
    return best


def _information(line: Line, prior: Prior, free: Flags) -> Array:
    """Return the inverse of the covariance of the coefficients that are free."""
    sigma = scatter(line.ratios, int(free.sum()))
    slopes = line.slopes[:, free] / sigma
    weights = 1 / np.sqrt(1 + (line.ratios / sigma) ** 2)
    found: Array = slopes.T @ (slopes * weights[:, None]) + np.diag(prior.spread[free] ** -2.0)
    return found


def _errors(line: Line, prior: Prior, free: Flags) -> Array:
    """Return the standard error of each coefficient; 0 of those that are not free."""
    errors = np.zeros(len(free))
    if free.any():
        errors[free] = np.sqrt(np.diag(np.linalg.inv(_information(line, prior, free))))
    return errors


def _alone(line: Line, prior: Prior) -> Array:
    """Return the standard error of each coefficient if all others were known."""
    every = np.ones(len(prior.spread), dtype=bool)
    return np.asarray(1 / np.sqrt(np.diag(_information(line, prior, every))), dtype=float)


def _told(line: Line, prior: Prior, free: Flags) -> Flags:
    """Return which coefficients the data tell, leaving out the worst one after another."""
    told = free.copy()
    while told.any():
        share = _errors(line, prior, told) / prior.spread
        worst = int(np.argmax(share))
        if share[worst] <= TOLD:
            break
        told[worst] = False
    return told


def _likeness(line: Line) -> Array:
    """Return the cosine between what each two coefficients change."""
    lengths = np.linalg.norm(line.slopes, axis=0)
    units = line.slopes / np.where(lengths > 0, lengths, 1.0)
    found: Array = np.abs(units.T @ units)
    return found
