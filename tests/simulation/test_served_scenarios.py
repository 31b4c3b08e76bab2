"""Every shipped serving scenario runs, and comes as close to what was published as we claim."""

from functools import cache

import pytest

from clustersim.catalog.finding import entry_names, find
from clustersim.simulation.serve import serve
from clustersim.simulation.serving.serve_result import ServeResult

SERVING = tuple(name for name in entry_names("scenario") if "load" in find("scenario", name).data)


@cache
def result(name: str) -> ServeResult:
    return serve(name)


@pytest.mark.parametrize("name", SERVING)
def test_every_serving_scenario_runs_and_states_what_was_published(name):
    """A shipped service fits if it did, and has a published number or states why it has none."""
    found = result(name)
    verdicts = [check for check in found.published if check.metric == "fits"]

    assert found.memory.fits == all(check.value for check in verdicts)
    assert found.published or "published" in found.scenario.assumed
    assert all(check.source for check in found.published)
    for check in found.published:
        assert check.error is None or abs(check.error) <= 0.35, check


@pytest.mark.parametrize("name", SERVING)
def test_the_causes_of_a_time_add_up_to_it(name):
    """The parts of the time per token, and of the first token, add up to their means."""
    found = result(name)
    if found.ttft is None:
        return

    assert sum(found.first_attribution.values()) == pytest.approx(found.ttft.mean)
    if found.tpot is not None:
        assert sum(found.attribution.values()) == pytest.approx(found.tpot.mean)
        assert min(found.attribution.values()) >= 0


def test_70b_on_eight_h100_over_concurrency():
    """More users: tokens come later for each, and more of them for all."""
    name = "llama3-70b-h100-serving"
    found = [serve(name, {"load.concurrency": users}) for users in (1, 16, 128)]
    times = [each.tpot.mean for each in found]
    rates = [each.output_rate for each in found]

    assert times == sorted(times)
    assert rates == sorted(rates)
    assert rates[-1] > 20 * rates[0]
