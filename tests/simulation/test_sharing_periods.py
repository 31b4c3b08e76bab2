"""The periodic steady state of jobs on one machine, and blame of many jobs by drawn sets."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clustersim
from clustersim.reports.sharing.text import rows
from clustersim.simulation.sharing.blame import drawn_sets, estimated_values, shapley_values
from clustersim.simulation.sharing.period import find_period

ONE_CABLE = {"name": "superpod-a100", "nodes": 40, "fabric": {"leaf_uplinks": 1}}
"""Two leaves of twenty nodes, and one cable for each of their rails."""


def sender(number, pause, size="100 GB", **keys):
    """Return a job that computes, and sends from a node of the first leaf to one of the other."""
    traffic = {"collective": "all-to-all", "bytes": size, "pause": pause, "nodes": 2}
    return {"traffic": traffic, "nodes": f"{number},{20 + number}", **keys}


def shared(*jobs, steps=12, **keys):
    """Return the answer of jobs that share a cable."""
    return clustersim.share({"cluster": ONE_CABLE, "jobs": [*jobs], "steps": steps, **keys})


@pytest.fixture(scope="module")
def alone():
    """The time of the traffic alone, without its pause [s]."""
    return shared(sender(0, "1 s")).jobs[0].alone_s - 1


# --- periods --------------------------------------------------------------------------------------


def test_equal_jobs_in_phase_repeat_after_a_step_with_half_the_cable(alone):
    """Both compute, then both communicate at half the rate."""
    pause = f"{alone} s"
    both = shared(sender(0, pause), sender(1, pause))

    assert both.steady.reason is None
    assert [*both.steady.steps.values()] == [1, 1]
    assert both.steady.period_s == pytest.approx(3 * alone, rel=1e-4)
    assert [job.shared_s for job in both.jobs] == pytest.approx([3 * alone] * 2, rel=1e-4)


def test_interleaved_jobs_repeat_after_a_step_with_the_whole_cable(alone):
    """One computes while the other communicates."""
    pause = f"{alone} s"
    both = shared(sender(0, pause), sender(1, pause, start=pause))

    assert both.steady.period_s == pytest.approx(2 * alone, rel=1e-4)
    assert [job.slowdown for job in both.jobs] == pytest.approx([1, 1], rel=1e-4)


def test_the_mean_is_that_of_the_period(alone):
    """Of each job: the period over its steps."""
    both = shared(sender(0, f"{2 * alone} s"), sender(1, f"{alone / 2} s"), steps=40)

    assert both.steady.period_s is not None
    assert both.settled
    for job in both.jobs:
        assert job.shared_s * both.steady.steps[job.name] == pytest.approx(both.steady.period_s)


def test_jobs_that_drift_have_a_reason_instead_of_a_period(alone):
    """Their steps have no common multiple within the steps that are simulated."""
    both = shared(sender(0, f"{alone} s"), sender(1, f"{alone * math.pi / 3} s", "1 MB"), steps=4)

    assert both.steady.period_s is None
    assert both.steady.steps == {}
    assert "do not repeat within 4" in both.steady.reason
    assert any(row.label == "steady" and row.text.startswith("no: ") for row in rows(both))


@given(
    pattern=st.lists(st.floats(0.1, 10), min_size=1, max_size=3),
    other=st.integers(1, 4),
    before=st.lists(st.floats(0.1, 10), max_size=2),
)
def test_a_period_is_found_after_any_beginning(pattern, other, before):
    """Whatever the first steps are; the means are exact, as passes add up to the period."""
    slow = np.cumsum([*before, *pattern * 6])
    length = math.fsum(pattern)
    fast = slow[-1] - np.arange(other * 4, -1, -1) * length / other
    period = find_period({0: slow, 1: fast[fast > 0]})

    assert period is not None
    assert period.seconds <= length * (1 + 1e-6)
    assert len(period.times[0]) == pytest.approx(len(pattern) * period.seconds / length)
    for times in period.times.values():
        assert math.fsum(times) == pytest.approx(period.seconds, rel=1e-8)


def test_a_step_that_differs_by_a_millionth_is_no_period():
    """Offsets return to a billionth of the period."""
    even = np.arange(9.0)

    assert find_period({0: even, 1: even}) is not None
    assert find_period({0: even, 1: even * (1 + 1e-6)}) is None


# --- blame of many jobs ---------------------------------------------------------------------------


@settings(max_examples=20)
@given(costs=st.lists(st.floats(0, 1), min_size=5, max_size=7), seed=st.integers(0, 99))
def test_drawn_sets_are_exact_where_costs_only_add_up(costs, seed):
    """The estimate has no error then."""
    jobs = range(len(costs) + 1)
    pairs = drawn_sets(jobs, seed)
    found = estimated_values(
        0, jobs[1:], pairs, lambda some: 1 + math.fsum(costs[j - 1] for j in some)
    )

    for other, cost in found.items():
        assert cost.seconds == pytest.approx(costs[other - 1], abs=1e-9)
        assert cost.error == pytest.approx(0, abs=1e-9)


@settings(max_examples=20)
@given(values=st.lists(st.floats(0, 1), min_size=32, max_size=32), seed=st.integers(0, 99))
def test_drawn_sets_add_up_and_are_near_the_values_of_all(values, seed):
    """For any times next to any sets; most within three standard errors and half of their range."""
    others = range(1, 6)
    every = [some for size in range(6) for some in combinations(others, size)]
    times = dict(zip(every, values, strict=True))

    def time(some):
        return times[tuple(sorted(some))]

    exact = shapley_values(others, time)
    found = estimated_values(0, others, drawn_sets(range(6), seed), time)
    total = times[tuple(others)] - times[()]

    for costs in (exact, found):
        assert math.fsum(cost.seconds for cost in costs.values()) == pytest.approx(total, abs=1e-9)
    misses = [abs(found[j].seconds - exact[j].seconds) - 3 * found[j].error for j in others]
    assert float(np.median(misses)) < 0.5


def test_blame_of_six_jobs_adds_up_with_its_error():
    """To a billionth of a step; the same seed draws the same sets."""
    pauses = [f"{50 + 7 * number} ms" for number in range(6)]
    jobs = [sender(number, pause) for number, pause in enumerate(pauses)]
    six, again = (shared(*jobs, steps=6) for _ in range(2))

    assert six == again
    for job in six.jobs:
        assert job.slowdown > 1.1
        assert {part.job for part in job.blame} == {each.name for each in six.jobs} - {job.name}
        assert all(part.error is not None for part in job.blame)
        costs = math.fsum(part.seconds for part in job.blame)
        assert costs == pytest.approx(job.shared_s - job.alone_s, abs=1e-9 * job.alone_s)
