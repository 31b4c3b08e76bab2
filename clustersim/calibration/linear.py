r"""The linearised fit: least squares with a loss in which a slow run is no evidence.

Ratios are linear functions of the coefficients.

A run can be slower than its machine for many reasons (a slow node, a shared fabric, a pause) and
faster for none.  With z = (r / sigma)^2 and r < 0 where the run was slower than predicted, the
slopes of the losses are

.. math:: \rho'(z) = \frac{1}{\sqrt{1 + z}}, \qquad
          \rho_{slow}'(z) = \frac{1}{\sqrt{1 + z} \, (1 + z / c^2)}

so that the pull of a slow run grows up to some sigma, and falls from there: at 10 sigma it is a
twelfth of that of a fast one.  Kernels, which are measured alone, have the first on both sides.
"""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clustersim.records import dataclass
from clustersim.validation.robust import SHARPEST, scatter

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

assumed_turn: Final = 3.0
"""c: scatters from which slow runs lose weight quickly.  Assumed: of normal errors 0.1 % are as
slow as that."""

_REST: Final = assumed_turn**2 - 1


def slow_rows(ratios: Array, runs: Flags) -> Flags:
    """Return the rows that are runs slower than predicted."""
    return runs & (ratios < 0)


def robust_loss(z: Array, slow: Flags) -> Array:
    """Return rho of each row, and its first two derivatives."""
    root = np.sqrt(1 + z)
    both: Array = np.stack([2 * (root - 1), 1 / root, -0.5 / root**3])
    falling = 1 / (1 + z / assumed_turn**2)
    scale = np.sqrt(_REST)
    angle = np.arctan(root / scale) - np.arctan(1 / scale)
    bounded = np.stack([
        2 * assumed_turn**2 / scale * angle,
        falling / root,
        -falling / root * (0.5 / root**2 + falling / assumed_turn**2),
    ])  # fmt: skip
    chosen: Array = np.where(slow, bounded, both)
    return chosen


def weights(ratios: Array, sigma: float, runs: Flags) -> Array:
    """Return the weight of each row in the least squares with the same pull."""
    slopes: Any = robust_loss((ratios / sigma) ** 2, slow_rows(ratios, runs))[1]
    return np.asarray(slopes, dtype=np.float64)


# --- least squares --------------------------------------------------------------------------------

Numbers = npt.NDArray[np.intp]

MOST_UPDATES: Final = 12
"""Most updates of the scatter of a fit."""

CONVERGED: Final = 0.02
"""Relative change of the scatter that ends the updates."""


@dataclass(frozen=True)
class Prior:
    """The prior of x: 0 with a standard deviation of `spread`, between `low` and `high`.

    The data lose weight against it with their scatter, up to `widest`: a poor start with few
    rows would otherwise end at the prior.
    """

    spread: Array
    low: Array
    high: Array
    widest: float = np.inf


@dataclass(frozen=True)
class Line:
    """r around a point: `ratios` at `x`, `slopes` of each row by coefficient, which are `runs`."""

    x: Array
    ratios: Array
    slopes: Array
    runs: Flags

    def at(self, x: Array) -> Array:
        """Return the linear approximation of r at x."""
        ratios: Array = self.ratios + self.slopes @ (x - self.x)
        return ratios


def solve_linear(
    line: Line, prior: Prior, free: Flags, reach: float | None = None, rows: Flags | None = None
) -> Array:
    """Return the best x for linear r; coefficients that are not free are 0.

    The scatter of a fit is unknown before it is made: it starts next to zero, so that the data
    outweigh the prior, and is updated until it converges.  Slow runs lose their weight only from
    there on, because before it no run is known to be slow.

    Parameters
    ----------
    reach : largest distance from the point of the line
    rows : rows of the fit; all without it
    """
    used = np.ones(len(line.ratios), dtype=bool) if rows is None else rows
    x = np.where(free, line.x, 0.0)
    if not free.any() or not used.any():
        return x * 0.0
    low, high = prior.low, prior.high
    if reach is not None:
        low, high = np.maximum(low, line.x - reach), np.minimum(high, line.x + reach)
    runs = line.runs[used]
    subset = Line(line.x, line.ratios[used], line.slopes[used], np.zeros_like(runs))
    inside = replace(prior, low=low, high=high)
    x, sigma = _converged(subset, inside, free, x, SHARPEST)
    if runs.any():
        x, _ = _converged(replace(subset, runs=runs), inside, free, x, sigma)
    return x


def _converged(
    line: Line, prior: Prior, free: Flags, x: Array, sigma: float
) -> tuple[Array, float]:
    """Return the best x and its scatter, from a first scatter."""
    spent = int(free.sum())
    for _ in range(MOST_UPDATES):
        x = _least_squares(line, prior, free, x, sigma)
        updated = min(scatter(line.at(x), spent), prior.widest)
        if abs(updated / sigma - 1) < CONVERGED:
            break
        sigma = updated
    return x, sigma


def _least_squares(line: Line, prior: Prior, free: Flags, x: Array, sigma: float) -> Array:
    """Return the best x between bounds for a given scatter."""
    from scipy.optimize import least_squares

    where = np.flatnonzero(free)
    spread, low = prior.spread[where], prior.low[where]
    high = np.maximum(prior.high[where], low + 1e-6)
    slopes = line.slopes[:, where] / sigma
    base = line.at(np.where(free, 0.0, x)) / sigma
    slow = np.repeat([False, True], len(base)) & np.tile(line.runs, 2)

    def misfit(y: Array) -> Array:
        """Return each row twice, above 0 and below, because the loss has no sign; the prior."""
        ratios = base + slopes @ y
        return np.concatenate([np.maximum(ratios, 0), np.minimum(ratios, 0), y / spread])

    def jacobian(y: Array) -> Array:
        above = (base + slopes @ y > 0)[:, None]
        return np.vstack([slopes * above, slopes * ~above, np.diag(1 / spread)])

    def robust(z: Array) -> Array:
        """Return rho and its derivatives: robust for the data, squares for the prior."""
        rho: Array = np.vstack([z, np.ones_like(z), np.zeros_like(z)])
        rho[:, : len(slow)] = robust_loss(z[: len(slow)], slow)
        return rho

    start = np.clip(x[where], low + 1e-7, high - 1e-7)
    solution: Any = least_squares(misfit, start, jac=jacobian, bounds=(low, high), loss=robust)
    best = np.where(free, x, 0.0)
    best[where] = solution.x
    return best
