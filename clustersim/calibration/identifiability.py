"""What rows tell of coefficients: how surely each is known, and which are not told at all."""

from typing import Final

import numpy as np

from clustersim.calibration.linear import Array, Flags, Line, Prior, scatter

TOLD: Final = 0.5
"""Error over the spread before, above which the data do not tell a coefficient."""


def _information(line: Line, prior: Prior, free: Flags) -> Array:
    """Return the inverse of the covariance of the coefficients that are free."""
    sigma = scatter(line.ratios, int(free.sum()))
    slopes = line.slopes[:, free] / sigma
    weights = 1 / np.sqrt(1 + (line.ratios / sigma) ** 2)
    found: Array = slopes.T @ (slopes * weights[:, None]) + np.diag(prior.spread[free] ** -2.0)
    return found


def errors_of(line: Line, prior: Prior, free: Flags) -> Array:
    """Return the standard error of each coefficient; 0 of those that are not free."""
    errors = np.zeros(len(free))
    if free.any():
        errors[free] = np.sqrt(np.diag(np.linalg.inv(_information(line, prior, free))))
    return errors


def alone(line: Line, prior: Prior) -> Array:
    """Return the standard error of each coefficient if all others were known."""
    every = np.ones(len(prior.spread), dtype=bool)
    return np.asarray(1 / np.sqrt(np.diag(_information(line, prior, every))), dtype=float)


def told_by(line: Line, prior: Prior, free: Flags) -> Flags:
    """Return which coefficients the data tell, leaving out the worst one after another."""
    told = free.copy()
    while told.any():
        share = errors_of(line, prior, told) / prior.spread
        worst = int(np.argmax(share))
        if share[worst] <= TOLD:
            break
        told[worst] = False
    return told


def likeness(line: Line) -> Array:
    """Return the cosine between what each two coefficients change."""
    lengths = np.linalg.norm(line.slopes, axis=0)
    units = line.slopes / np.where(lengths > 0, lengths, 1.0)
    found: Array = np.abs(units.T @ units)
    return found
