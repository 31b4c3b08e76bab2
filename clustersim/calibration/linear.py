"""Ratios that are linear in the coefficients: around a point, and the best point if they are."""

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

Numbers = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

SHARPEST: Final = 0.003
"""Least scatter that is believed: no measurement repeats better."""

MOST_LOOKS: Final = 12
"""Times that the scatter of a fit is looked at again."""

ALIKE: Final = 0.02
"""Change of the scatter that ends that."""


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
