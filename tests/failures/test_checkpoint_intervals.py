"""Closed forms of checkpoint intervals and efficiency against their published values."""

from math import inf, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.failures.causes import (
    FLAT,
    FailureCause,
    best_interval,
    first_order_goodput,
    flat_range,
    goodput_of_causes,
    interval_goodput,
    mean_time_between,
    spares_needed,
)

DAY = 86_400.0

TABLE = [
    (60, 8_424, 1_005.4, 965.8, 965.8, 0.8853),
    (20, 11_134, 667.4, 654.1, 654.1, 0.9413),
    (300, 11_134, 2_584.6, 2_388.5, 2_388.6, 0.7855),
    (40, 604_800, 6_955.9, 6_929.2, 6_929.2, 0.9885),
    (600, 3_600, 2_078.5, 1_697.7, 1_699.2, 0.5280),
]
"""Block and mean time between failures [s]; intervals of Young, Daly and the exact one; E there."""

FORMULA_ROWS = [
    (2_000, 0.0065, 3_600, 300, 0.684),
    (2_000, 0.0065, 300, 300, 0.932),
    (1_000, 0.0065, 1_800, 300, 0.910),
    (12_500, 0.0065, 420, 300, 0.520),
    (12_500, 0.00234, 120, 120, 0.939),
    (12_500, 0.00234, 1_260, 300, 0.685),
]
"""Nodes, failures of a node and day, interval and restart [s]; the effective training time."""

times = st.floats(1.0, 1e5)


def young_interval(block, mean):
    """Return the interval of first order [s], for C << M: Young 1974, doi:10.1145/361147.361115."""
    return sqrt(2 * block * mean)


def daly_interval(block, mean):
    """Return the interval of higher order [s]: Daly 2006, doi:10.1016/j.future.2004.11.016."""
    half = block / (2 * mean)
    if half >= 1:
        return mean
    return young_interval(block, mean) * (1 + sqrt(half) / 3 + half / 9) - block


@pytest.mark.parametrize(("block", "mean", "young", "daly", "exact", "best"), TABLE)
def test_intervals_and_efficiency_have_four_digits(block, mean, young, daly, exact, best):
    """Young's, Daly's and the exact interval, and the efficiency at it, as tabulated."""
    assert young_interval(block, mean) == pytest.approx(young, abs=0.06)
    assert daly_interval(block, mean) == pytest.approx(daly, abs=0.06)
    assert best_interval(block, mean) == pytest.approx(exact, abs=0.06)
    assert interval_goodput(best_interval(block, mean), block, mean) == pytest.approx(
        best, abs=6e-5
    )


@pytest.mark.parametrize(("nodes", "rate", "interval", "restart", "expected"), FORMULA_ROWS)
def test_effective_training_time_follows_its_formula(nodes, rate, interval, restart, expected):
    """The formula of Meta reproduces its rows within one percent."""
    found = first_order_goodput(interval, 0.0, DAY / (nodes * rate), restart)

    assert found == pytest.approx(expected, rel=0.01)


@given(times, st.floats(10.0, 1e7))
def test_no_interval_is_better_than_the_best(block, mean):
    """The derivative vanishes at the best interval: neighbours are not better."""
    best = best_interval(block, mean)

    highest = interval_goodput(best, block, mean)
    for factor in (0.9, 1.1):
        assert highest >= interval_goodput(factor * best, block, mean) * (1 - 1e-9)


def test_young_and_daly_are_limits_of_the_best_interval():
    """For rare failures the two intervals and the best agree, to first and to higher order."""
    assert best_interval(1.0, 1e8) == pytest.approx(young_interval(1.0, 1e8), rel=1e-3)
    assert best_interval(1.0, 1e4) == pytest.approx(daly_interval(1.0, 1e4), rel=1e-5)
    assert daly_interval(1e4, 1e3) == 1e3


def test_young_loses_little_where_saves_are_short():
    """For C / M below 0.03 the first-order interval loses under 0.1 point."""
    for block, mean in [(60, 8_424), (300, 11_134), (1, 1e5)]:
        best = interval_goodput(best_interval(block, mean), block, mean)
        assert best - interval_goodput(young_interval(block, mean), block, mean) < 1e-3


def test_efficiency_has_its_limits():
    """Without failures t / (t + C); with a restart of M or more, below 1 / e."""
    assert interval_goodput(90.0, 10.0, inf) == 0.9
    assert interval_goodput(90.0, 10.0, 1e12) == pytest.approx(0.9)
    assert best_interval(10.0, inf) == inf
    assert interval_goodput(10.0, 0.1, 3_600, restart=3_600) < 0.3679
    assert interval_goodput(1e9, 1.0, 100.0) == 0.0


@given(times, times, st.floats(100.0, 1e7), times, st.floats(1.01, 3.0))
def test_efficiency_never_grows_with_failures_restart_or_block(interval, block, mean, back, more):
    """More nodes, longer restarts, longer saves and later durability never help."""
    plain = interval_goodput(interval, block, mean, back)

    for worse in (
        (block, mean / more, back), (block * more, mean, back), (block, mean, back * more),
        (block, mean, back, 1.0),
    ):  # fmt: skip
        assert interval_goodput(interval, *worse) <= plain * (1 + 1e-12)


def test_tunable_losses_are_equal_at_youngs_interval():
    """At the optimum C / t is t / 2M, and their sum is sqrt(2C / M)."""
    interval = young_interval(10.0, 1e5)

    assert 10.0 / interval == pytest.approx(interval / 2e5)
    assert 10.0 / interval + interval / 2e5 == pytest.approx((2 * 10.0 / 1e5) ** 0.5)


def test_saves_without_a_block_still_lose_until_they_are_durable():
    """With C near 0 and a drain of W the loss is W / M, not 0."""
    assert 1 - interval_goodput(60.0, 1e-6, 1e5, lag=600.0) == pytest.approx(
        600 / 1e5 + 30 / 1e5, rel=0.01
    )


def test_the_flat_range_contains_the_best_interval():
    """Intervals of the range lose at most `FLAT`, and drains bound it from below."""
    low, high = flat_range(20, 11_134)
    best = best_interval(20, 11_134)

    assert low < best < high
    for interval in (low * 1.02, high / 1.02):
        assert interval_goodput(interval, 20, 11_134) > interval_goodput(best, 20, 11_134) - FLAT
    assert flat_range(20, 11_134, least=5_000)[0] == 5_000


def test_llama_3_bounds_what_was_overlapped():
    """With 3.09 h between failures, 90 % needs restarts of 17 min at C = 1 s, 8.3 min at 20 s."""
    mean = 3.093 * 3_600

    def best(block, restart):
        return interval_goodput(best_interval(block, mean), block, mean, restart)

    assert best(1, 16.5 * 60) > 0.9 > best(1, 17.5 * 60)
    assert best(20, 8 * 60) > 0.9 > best(20, 8.6 * 60)
    assert best(60, 0) < 0.9


def test_rates_of_a_series_system_add_up():
    """Twice the nodes fail twice as often, and independent causes add their rates."""
    one, two = FailureCause("a", 1e-5), FailureCause("a", 2e-5)

    assert mean_time_between([two]) == mean_time_between([one]) / 2
    assert mean_time_between([one, one]) == mean_time_between([two])
    assert mean_time_between([]) == inf


def test_causes_alike_have_the_efficiency_of_one():
    """Splitting a cause changes nothing; planned time stretches the work."""
    halves = [FailureCause(name, 0.5e-4, restart=300, lag=20) for name in "ab"]
    stretched = goodput_of_causes(1_000, 30, halves, more=0.1)

    assert goodput_of_causes(1_000, 30, halves) == pytest.approx(
        interval_goodput(1_000, 30, 1e4, 300, 20)
    )
    assert stretched == pytest.approx(interval_goodput(1_100, 30, 1e4, 300, 20) / 1.1)


# --- spare nodes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("probability", [0.00117, 0.0012, 0.00125])
def test_one_probability_reproduces_the_published_spares(probability):
    """128, 256, 512 and 1,024 nodes have 2, 2, 3 and 4 spares, by one probability."""
    assert [spares_needed(n, probability) for n in (128, 256, 512, 1024)] == [2, 2, 3, 4]
    assert spares_needed(1000, 0.0) == 0
