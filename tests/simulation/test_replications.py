"""Replications: steps with random numbers of their own, and what each disturbance costs."""

from concurrent.futures import ProcessPoolExecutor

import pytest

from clustersim.answers import to_json
from clustersim.simulation.step.replications import replicate
from clustersim.simulation.step.simulate import simulate

SETTINGS = {"batch.global": 32}
SLOW = {"type": "slow-device", "name": "slow", "devices": [3], "factor": 1.3}
JITTER = {"type": "jitter", "deviation": 0.05}
LINK = {"type": "slow-link", "link": "n0.dev0>n0.dev1", "bandwidth": 0.1}


def replications(count, *disturbances, executor=None):
    settings = {**SETTINGS, "disturbances": [*disturbances]}
    return replicate("frontier-22b", count, settings, executor=executor)


def test_the_first_replication_is_the_run_and_others_differ():
    """A run is replication 0; each replication has random numbers of its own."""
    found = replications(3, JITTER)
    run = simulate("frontier-22b", {**SETTINGS, "disturbances": [JITTER]})

    assert found.steps_s[0] == run.step_time
    assert len(set(found.steps_s)) == 3
    assert found.quantiles.p10_s < found.mean_s < found.quantiles.p99_s


def test_the_time_without_all_disturbances_is_that_of_the_plain_scenario():
    """What is recovered without all is the difference from the undisturbed step."""
    found = replications(2, SLOW, JITTER, LINK)
    plain = simulate("frontier-22b", SETTINGS).step_time

    assert found.undisturbed_s == plain
    assert found.recovered_s == pytest.approx(found.mean_s - plain)
    assert found.blame[0].name == "slow"


def test_a_single_disturbance_has_all_of_the_blame():
    """The share of one is 1; of one without any effect there is none."""
    idle = {"type": "pauses", "length": "0 s", "every": 10}

    assert [blame.share for blame in replications(1, SLOW).blame] == [1.0]
    assert [blame.share for blame in replications(1, idle).blame] == [None]


def test_steps_without_random_numbers_are_equal():
    """Ten replications of a slow device and a slow link are ten times the same step."""
    found = replications(10, SLOW, LINK)

    assert len(set(found.steps_s)) == 1
    assert found.deviation_s == pytest.approx(0, abs=1e-12)


@pytest.mark.large
def test_processes_give_the_same_bytes():
    """Replications that other processes compute are those of this one, in the same order."""
    with ProcessPoolExecutor(2) as executor:
        elsewhere = replications(6, JITTER, SLOW, executor=executor)

    assert to_json(elsewhere) == to_json(replications(6, JITTER, SLOW))
