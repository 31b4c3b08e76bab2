"""Replications of long runs: their accounts, and their means against closed forms."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.failures.causes import FailureCause, goodput_of_causes, interval_goodput
from clustersim.failures.renewal import (
    ACCOUNTS,
    LongRun,
    NodeReplacement,
    PlannedStop,
    replicate_run,
)

DAY = 86_400.0

seconds = st.floats(1.0, 5_000.0)


@st.composite
def runs(draw):
    """Runs with every feature: lags, replicas, spares, stops, evaluations."""
    causes = tuple(
        FailureCause(
            name,
            rate=1 / draw(st.floats(2_000.0, 1e5)),
            restart=draw(st.floats(0.0, 1_000.0)),
            shape=draw(st.sampled_from([0.7, 1.0, 1.5])),
            replaces=draw(st.booleans()),
            lag=draw(st.floats(0.0, 100.0)),
            by_step=draw(st.booleans()),
        )
        for name in "abc"[: draw(st.integers(0, 3))]
    )
    return LongRun(
        work=draw(st.floats(1e3, 1e5)),
        interval=draw(st.floats(100.0, 5_000.0)),
        block=draw(st.floats(0.0, 100.0)),
        causes=causes,
        more=draw(st.floats(0.0, 0.2)),
        start=draw(st.floats(0.0, 1_000.0)),
        step=draw(st.floats(1.0, 50.0)),
        lag=draw(st.floats(0.0, 100.0)),
        stop=draw(st.none() | st.builds(PlannedStop, st.floats(1e4, 1e5), seconds)),
        replacement=NodeReplacement(
            draw(st.integers(0, 2)), draw(st.floats(0.0, 1e4)), draw(st.floats(1.0, 1e4)), 0.5
        ),
    )


@settings(max_examples=30, deadline=None)
@given(runs(), st.integers(0, 5))
def test_every_second_is_accounted_for(run, seed):
    """Useful, lost, saving, restarting, waiting and planned time are the elapsed time."""
    found = replicate_run(run, 20, seed)
    total = sum(found.accounts[name] for name in ACCOUNTS)

    assert total == pytest.approx(found.elapsed, rel=1e-9)
    assert found.accounts["useful"] == pytest.approx(run.work, rel=1e-9)
    assert min(seconds.min() for seconds in found.accounts.values()) >= -1e-6
    assert found.history.sum() == pytest.approx(found.elapsed[0] - run.start, rel=1e-9)


@pytest.mark.parametrize(("interval", "lag"), [(500.0, 200.0), (2_000.0, 0.0), (8_000.0, 200.0)])
def test_replications_agree_with_the_exact_efficiency(interval, lag):
    """The mean over replications is the closed form, within its own error."""
    causes = (
        FailureCause("a", 0.7 / 10_000, restart=600, lag=lag),
        FailureCause("b", 0.3 / 10_000, restart=100),
    )
    found = replicate_run(LongRun(200 * DAY, interval, 60.0, causes, more=0.02), 100, seed=1)
    error = found.goodput.std() / sqrt(len(found.elapsed))
    exact = goodput_of_causes(interval, 60.0, causes, more=0.02)

    assert abs(found.goodput.mean() - exact) < 3 * error + 1e-4


def test_a_weibull_of_shape_one_is_exponential():
    """Shape 1 gives the exponential law, digit by digit; other shapes keep the mean."""
    plain, one, early = (
        LongRun(50 * DAY, 2_000.0, 60.0, (FailureCause("a", 1e-4, 300, shape=shape),))
        for shape in (1, 1.0, 0.7)
    )
    failures = [replicate_run(run, 400).failures.mean() for run in (plain, early)]

    assert (replicate_run(plain, 9).elapsed == replicate_run(one, 9).elapsed).all()
    assert failures[1] == pytest.approx(failures[0], rel=0.05)


def test_the_spread_of_failures_is_that_of_poisson():
    """At 7.76 failures a day over 54 days the standard deviation is 4.9 % of the mean."""
    run = LongRun(54 * DAY, 1e9, 0.0, (FailureCause("a", 7.76 / DAY, by_step=True),))
    counts = replicate_run(run, 2_000).failures.sum(axis=1)

    assert counts.std() / counts.mean() == pytest.approx(0.049, rel=0.06)


def test_a_run_without_failures_saves_and_nothing_else():
    """One save for each interval, the last at the end."""
    found = replicate_run(LongRun(1_000.0, 300.0, 10.0), 3)

    assert found.elapsed.tolist() == [1_040.0] * 3


def test_the_same_seed_gives_the_same_run():
    """Replications depend on the seed and on nothing else."""
    run = LongRun(10 * DAY, 2_000.0, 60.0, (FailureCause("a", 1e-4, 300),))

    assert (replicate_run(run, 5, 3).elapsed == replicate_run(run, 5, 3).elapsed).all()
    assert (replicate_run(run, 5, 3).elapsed != replicate_run(run, 5, 4).elapsed).any()


@pytest.mark.large
def test_more_spares_wait_less():
    """Waiting falls with the number of spares, to none with many."""
    causes = (FailureCause("a", 1e-4, 300, replaces=True),)

    def waiting(spares):
        policy = NodeReplacement(spares, repair=DAY)
        run = LongRun(10 * DAY, 2_000.0, 60.0, causes, replacement=policy)
        return replicate_run(run, 6).accounts["waiting"].mean()

    found = [waiting(spares) for spares in (2, 4, 8, 60)]

    assert found == sorted(found, reverse=True)
    assert found[-1] == 0.0


def test_replicas_lose_steps_instead_of_intervals():
    """With another replica's state a failure loses half a step on average."""
    causes = (FailureCause("a", 1e-4, 0.0, by_step=True),)
    found = replicate_run(LongRun(100 * DAY, 5_000.0, 0.0, causes, step=100.0), 50)
    lost = found.accounts["lost"].sum() / found.failures.sum()

    assert lost == pytest.approx(50.0, rel=0.05)


@pytest.mark.large
def test_a_planned_stop_during_a_restart_does_not_shorten_it():
    """Stops more frequent than restarts are long cannot raise the goodput."""
    causes = (FailureCause("a", 1 / 11_135.0, 36_420.0),)
    run = LongRun(20 * DAY, 500.0, 1.0, causes)
    stopped = replace(run, stop=PlannedStop(12_000.0, 10.0))
    plain, found = (replicate_run(each, 40) for each in (run, stopped))
    error = plain.goodput.std() / sqrt(40)

    assert found.goodput.mean() < plain.goodput.mean() + 3 * error


def test_eighteen_causes_fail_as_one_of_the_sum_of_their_rates():
    """466 failures in 54 days, in each of 1,000 replications."""
    causes = tuple(FailureCause(str(i), 7.76 / DAY / 18, 600) for i in range(18))
    found = replicate_run(LongRun(49 * DAY, 1_800.0, 5.0, causes), 1_000)

    assert np.mean(found.failures.sum(axis=1)) == pytest.approx(
        7.76 * found.elapsed.mean() / DAY, rel=0.01
    )
    assert interval_goodput(1_800.0, 5.0, DAY / 7.76, 600) == pytest.approx(
        found.goodput.mean(), abs=2e-3
    )
