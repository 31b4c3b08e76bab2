r"""The robust regression of missing time on quantities, which selects at most three of them.

Let y_i be the missing time of run i (measured less predicted) over its measured time, and x_ij the
amount of quantity j over that time.  The fit is

.. math:: \min_{c \ge 0} \sum_i \rho\left(((y_i - \sum_j s_j c_j x_{ij}) / \sigma)^2\right)

with rho(z) = 2 (sqrt(1 + z) - 1), by non-negative least squares with updated weights, and sigma the
scatter of what remains.  The sign s_j is -1 for a quantity of which the model counts too much.
A set of quantities *explains* the share by which it lowers the mean absolute y.

Of many quantities one always explains some noise.  A quantity is selected only if it explains more
of what remains than the best one explains of the same amounts with random signs, in 95 of 100
draws, and if it adds to what is explained of runs that were held out of the fit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from clustersim.arrays import Floats, Integers
from clustersim.validation.robust import SHARPEST, medians, scatter

MOST_CHOSEN: Final = 3
"""Most quantities of a selection."""

LEAST_GAIN: Final = 0.03
"""Share of the missing time, in runs held out, that each further quantity of a selection adds."""

FOLDS: Final = 10
"""Folds of the runs, in turn: neighbours in a file of runs are in different ones."""

RESAMPLES: Final = 300
"""Bootstrap samples of the runs."""

DRAWS: Final = 200
"""Draws of random signs."""

SEED: Final = 0
"""Seed of the bootstrap samples and of the random signs."""

UPDATES: Final = 40
"""Most updates of the weights of a fit."""

CONVERGED: Final = 1e-4
"""Change of what remains, in scatters, that ends the updates."""


class Signed(NamedTuple):
    """A quantity by its column, with the sign of its missing time."""

    column: int
    sign: int


@dataclass(frozen=True)
class Selection:
    """Quantities that explain missing time together.

    Attributes
    ----------
    chosen : in the order of their selection
    seconds : coefficient of each in the last fit, at least 0 [s per unit]
    low, high : 5th and 95th percentile of each over bootstrap samples of the runs
    explained : share of the missing time that is explained with each and those before it
    held_out : the same in runs that were held out of the fit
    remaining : what remains of each run, over its measured time
    """

    chosen: tuple[Signed, ...]
    seconds: Floats
    low: Floats
    high: Floats
    explained: tuple[float, ...]
    held_out: tuple[float, ...]
    remaining: Floats


@dataclass(frozen=True)
class Regression:
    """Missing time and the quantities that it may follow.

    Attributes
    ----------
    missing : of each run, over its measured time
    columns : amount of each quantity in each run, over its measured time
    most_over : largest coefficient of each quantity with sign -1: what the model predicts [s]
    """

    missing: Floats
    columns: Floats
    most_over: Floats

    def signed(self, chosen: Sequence[Signed]) -> Floats:
        """Return the columns of some quantities with their signs."""
        return self.columns[:, [each.column for each in chosen]] * [each.sign for each in chosen]

    def share(self, remaining: Floats) -> float:
        """Return the share of the missing time that is explained."""
        whole = float(np.abs(self.missing).sum())
        return 1.0 - float(np.abs(remaining).sum()) / whole if whole else 0.0

    def alone(self) -> tuple[Floats, Floats]:
        """Return coefficient and explained share of each quantity alone."""
        seconds = slopes_alone(self.columns, self.missing)
        remaining = self.missing[:, None] - self.columns * seconds
        return seconds, np.array([self.share(column) for column in remaining.T])

    def strongest(self) -> Floats:
        """Return the share of bootstrap samples in which each quantity explains most, alone."""
        wins = np.zeros(self.columns.shape[1])
        for rows in resamples(len(self.missing)):
            sample = replace(self, missing=self.missing[rows], columns=self.columns[rows])
            _, shares = sample.alone()
            wins[int(np.argmax(shares))] += 1 / RESAMPLES
        return wins

    def select(self) -> Selection:
        """Select quantities one by one, as long as each adds to what is explained held out."""
        chosen: tuple[Signed, ...] = ()
        explained: list[float] = []
        shares = [0.0]
        while len(chosen) < MOST_CHOSEN:
            found = max(
                ((self.share(self.held_out([*chosen, each])), each) for each in self._next(chosen)),
                default=(0.0, None),
            )
            if found[1] is None or found[0] < shares[-1] + LEAST_GAIN:
                break
            if not self._more_than_chance(self._remaining(chosen), found[1].column):
                break
            chosen, shares = (*chosen, found[1]), [*shares, found[0]]
            explained.append(self.share(self._remaining(chosen)))
        samples = np.array([self._seconds(chosen, rows) for rows in resamples(len(self.missing))])
        low, high = np.percentile(samples, [5, 95], axis=0) if chosen else (np.zeros(0),) * 2
        return Selection(
            chosen=chosen,
            seconds=robust_fit(self.signed(chosen), self.missing),
            low=low,
            high=high,
            explained=tuple(explained),
            held_out=tuple(shares[1:]),
            remaining=self._remaining(chosen),
        )

    def held_out(self, chosen: Sequence[Signed]) -> Floats:
        """Return what remains of each run with a fit without the runs of its fold."""
        columns, remaining = self.signed(chosen), self.missing.copy()
        folds = np.arange(len(remaining)) % min(FOLDS, len(remaining))
        for fold in range(int(folds.max()) + 1):
            inside = folds == fold
            seconds = robust_fit(columns[~inside], self.missing[~inside])
            remaining[inside] -= columns[inside] @ seconds
        return remaining

    def _next(self, chosen: Sequence[Signed]) -> Iterator[Signed]:
        """Yield each further quantity with the signs that are possible with those chosen."""
        taken = {each.column for each in chosen}
        for column in range(self.columns.shape[1]):
            for sign in (1, -1):
                each = [*chosen, Signed(column, sign)]
                if column not in taken and self._possible(each):
                    yield each[-1]

    def _more_than_chance(self, remaining: Floats, column: int) -> bool:
        """Whether a quantity explains more of some times than others do with random signs."""
        _, shares = replace(self, missing=remaining).alone()
        random = np.random.default_rng(SEED)
        best = []
        for _ in range(DRAWS):
            signs = random.choice([-1.0, 1.0], size=len(remaining))
            best.append(replace(self, missing=remaining * signs).alone()[1].max())
        return bool(shares[column] > np.percentile(best, 95))

    def _possible(self, chosen: Sequence[Signed]) -> bool:
        """Whether no quantity is counted by more than there is of it, and each has an effect."""
        seconds = robust_fit(self.signed(chosen), self.missing)
        limits = [self.most_over[c] if sign < 0 else np.inf for c, sign in chosen]
        return bool((seconds > 0).all() and (seconds <= limits).all())

    def _remaining(self, chosen: Sequence[Signed]) -> Floats:
        columns = self.signed(chosen)
        remaining: Floats = self.missing - columns @ robust_fit(columns, self.missing)
        return remaining

    def _seconds(self, chosen: Sequence[Signed], rows: Integers) -> Floats:
        return robust_fit(self.signed(chosen)[rows], self.missing[rows])


def resamples(runs: int) -> Iterator[Integers]:
    """Yield bootstrap samples of some runs, always the same."""
    random = np.random.default_rng(SEED)
    for _ in range(RESAMPLES):
        yield random.integers(runs, size=runs)


def robust_fit(columns: Floats, missing: Floats) -> Floats:
    """Return the non-negative coefficients of some columns."""
    from scipy.optimize import nnls

    if not columns.shape[1]:
        return np.zeros(0)
    scale = np.abs(columns).max(axis=0)
    scaled = columns / np.where(scale > 0, scale, 1.0)
    fitted, remaining, sigma = np.zeros(len(scale)), missing, scatter(missing)
    for _ in range(UPDATES):
        root = _roots_of_weights(remaining, sigma)
        fitted, _ = nnls(scaled * root[:, None], missing * root)
        before, remaining = remaining, missing - scaled @ fitted
        sigma = scatter(remaining, len(scale))
        if np.abs(remaining - before).max() < CONVERGED * sigma:
            break
    return np.asarray(np.where(scale > 0, fitted / np.where(scale > 0, scale, 1.0), 0.0))


def slopes_alone(columns: Floats, missing: Floats) -> Floats:
    """Return the coefficient of each column alone, below 0 where it has the other sign."""
    slopes = np.zeros(columns.shape[1])
    remaining = np.repeat(missing[:, None], len(slopes), axis=1)
    for _ in range(UPDATES):
        sigma = np.maximum(SHARPEST, 1.4826 * medians(np.abs(remaining)))
        weights = _roots_of_weights(remaining, sigma) ** 2
        squares = (weights * columns**2).sum(axis=0)
        products = (weights * columns * missing[:, None]).sum(axis=0)
        slopes = products / np.where(squares > 0, squares, 1.0)
        before, remaining = remaining, missing[:, None] - columns * slopes
        if (np.abs(remaining - before) < CONVERGED * sigma).all():
            break
    return slopes


def _roots_of_weights(remaining: Floats, sigma: Floats | float) -> Floats:
    """Return the square roots of the weights of rows, by which squares have the robust loss."""
    roots: Floats = (1 + (remaining / sigma) ** 2) ** -0.25
    return roots
