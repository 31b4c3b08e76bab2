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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from clustersim.calibration.identifiability import alone, errors_of, likeness, told_by
from clustersim.calibration.linear import Array, Flags, Line, Numbers, Prior, scatter, settled

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

BENT: Final = 0.1
"""Distance of r from the straight line, in scatters, that makes the slopes worth another look."""


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
    told = told_by(line, prior, free)
    if (told != free).any():
        line = _line(predict, np.where(told, line.x, 0.0), rows, told, slopes=line.slopes)
        line, _ = _descend(predict, line, prior, told, max(2, rounds - spent))
        told = told_by(line, prior, told)
    x = settled(line, prior, told)
    after = predict([(x, np.arange(rows, dtype=np.intp))])[0]
    line = replace(line, x=x, ratios=after)
    errors = np.where(told, errors_of(line, prior, told), prior.spread)
    return Fit(
        x=x,
        errors=errors,
        free=told,
        likeness=likeness(line),
        alone=alone(line, prior),
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


def _cost(ratios: Array, x: Array, prior: Prior, sigma: float) -> float:
    """Return what the fit makes small."""
    z = (ratios / sigma) ** 2
    return float(2 * (np.sqrt(1 + z) - 1).sum() + ((x / prior.spread) ** 2).sum())
