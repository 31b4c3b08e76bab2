"""Robust statistics: slow runs are contamination, not evidence."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.validation.robust import half_sample_mode, scatter
from clustersim.validation.summary import summarise
from measured_runs import graded_run

values = st.lists(st.floats(-1, 1), min_size=1, max_size=40)


@given(values)
def test_a_mode_is_within_its_values(errors):
    """The mode lies between the least and the largest value."""
    assert min(errors) <= half_sample_mode(errors) <= max(errors)


@given(values, st.integers(0, 1000))
def test_a_mode_has_no_order(errors, seed):
    """The order of the values does not change their mode."""
    mixed = np.random.default_rng(seed).permutation(errors)

    assert half_sample_mode(mixed.tolist()) == half_sample_mode(errors)


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=40), st.integers(-100, 100))
def test_a_shift_of_all_values_shifts_their_mode(errors, shift):
    """The mode of shifted values is the shifted mode."""
    shifted = [error + shift for error in errors]

    assert half_sample_mode(shifted) == half_sample_mode(errors) + shift


def test_slow_runs_hardly_move_a_mode():
    """Of runs predicted exactly to 2 %, a third that were slow move the mean, not the mode."""
    random = np.random.default_rng(0)
    errors = random.normal(0, 0.02, 60)
    errors[::3] -= random.exponential(0.3, 20)

    assert errors.mean() < -0.05
    assert abs(half_sample_mode(errors.tolist())) < 0.02


def test_a_scatter_ignores_outliers():
    """Every fifth of many values far off changes the scatter by less than a half."""
    values = np.random.default_rng(0).normal(0, 0.05, 500)
    mixed = values.copy()
    mixed[::5] = 3.0

    assert scatter(values) == pytest.approx(0.05, rel=0.1)
    assert scatter(mixed) < 1.5 * scatter(values)


def test_a_mode_needs_five_runs():
    """Four runs have a bias and no mode."""
    errors = [-0.3, 0.01, 0.02, -0.1, 0.0]
    runs = [graded_run(str(place), "group", error) for place, error in enumerate(errors)]

    assert summarise(runs[:4]).mode is None
    assert summarise(runs).mode == pytest.approx(0.01, abs=0.011)
