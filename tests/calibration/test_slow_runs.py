"""Slow runs are contamination of a fit to runs, and no evidence of a slow machine."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from clustersim.calibration.fitting import fit
from clustersim.calibration.linear import Prior, robust_loss, weights

PRIOR = Prior(np.array([0.7]), np.array([-3.0]), np.array([3.0]))
"""A coefficient that is known to a factor of two."""

SLOW = math.log(1.3)
"""By how much a run of 1.3 times its time lowers the logarithm of predicted over measured."""


def rows(seed, *, truth=0.1, noise=0.03, count=100, share=0.0):
    """Return how to predict rows whose coefficient is `truth`, some of them 30 % slower."""
    random = np.random.default_rng(seed)
    measured = truth + noise * random.normal(size=count)
    measured[: int(share * count)] += SLOW

    def predict(tasks):
        return [x[0] - measured[which] for x, which in tasks]

    return predict


def fitted(predict, count=100, *, runs=True):
    """Return the coefficient that is fitted to rows, which are runs or kernels."""
    return fit(predict, PRIOR, np.full(count, runs)).x[0]


@pytest.mark.large
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_slow_runs_hardly_move_a_coefficient(seed):
    """15 % of the runs at 1.3 times their time move a coefficient by less than 1 %."""
    clean, mixed = (fitted(rows(seed, share=share)) for share in (0.0, 0.15))

    assert abs(mixed - clean) < 0.01


@pytest.mark.large
def test_slow_runs_move_a_symmetric_fit_more():
    """Over many draws, the shift by slow rows is less than half of that of the symmetric loss."""
    shifts = {
        runs: np.mean([
            fitted(rows(seed, share=0.15), runs=runs) - fitted(rows(seed), runs=runs)
            for seed in range(20)
        ])
        for runs in (True, False)
    }  # fmt: skip

    assert shifts[False] > 0.005
    assert abs(shifts[True]) < 0.5 * shifts[False]


def test_fast_runs_are_evidence():
    """Runs that are all faster than predicted move a coefficient to them."""
    assert fitted(rows(0, truth=-0.5)) == pytest.approx(-0.5, abs=0.01)


def test_runs_that_are_all_slow_are_evidence():
    """Where all runs are slower than predicted, the prediction is wrong, and not the runs."""
    assert fitted(rows(0, truth=0.5)) == pytest.approx(0.5, abs=0.01)


def test_symmetric_scatter_hardly_moves_a_coefficient():
    """Without slow runs the bias of the asymmetric loss is less than a tenth of the scatter."""
    moved = [fitted(rows(seed)) - 0.1 for seed in range(30)]

    assert abs(np.mean(moved)) < 0.1 * 0.03


@given(z=st.floats(0.0, 400.0), slow=st.booleans())
def test_a_loss_is_the_integral_of_its_slope(z, slow):
    """Value, slope and curvature of a loss belong together."""
    flags = np.array([slow])

    def of(value, order):
        return float(robust_loss(np.array([value]), flags)[order, 0])

    assert of(z, 0) == pytest.approx(quad(of, 0, z, args=(1,))[0], abs=1e-6)
    step = 1e-4
    assert of(z + step, 1) - of(z, 1) == pytest.approx(of(z + step / 2, 2) * step, rel=1e-3)


def test_the_pull_of_a_slow_run_falls():
    """A run at -10 sigma pulls less than one at -1, and a twelfth of one at +10."""
    ratios = np.array([-10.0, -1.0, 10.0])
    pulls = weights(ratios, 1.0, np.ones(3, dtype=bool)) * np.abs(ratios)

    assert pulls[0] < pulls[1] < pulls[2]
    assert pulls[0] == pytest.approx(pulls[2] / (1 + 100 / 9))
    kernels = weights(ratios, 1.0, np.zeros(3, dtype=bool))
    assert kernels[0] == kernels[2]
