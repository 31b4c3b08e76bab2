"""Energy, cost and limits of services: powers between waiting and compute, rates per token."""

import pytest

import clustersim
from clustersim.topology.accelerator import device_power

NAME = "llama3-70b-h100-serving"
SMALL = {"load.concurrency": 8, "load.requests": 16}


def served(name=NAME, **settings):
    """Return the answer of a small service."""
    return clustersim.serve(name, SMALL | settings)


def test_a_device_draws_between_waiting_and_compute():
    """Power times time is energy per token times tokens, and hosts are shared by devices."""
    result = served()
    answer, power = result.answer, device_power(result.scenario.cluster.node.accelerator)
    energy = answer.energy

    assert power.waiting < energy.device_w < power.compute
    assert energy.power_w > 8 * energy.device_w
    assert energy.joules_per_output_token * answer.output_tokens_per_s == pytest.approx(
        energy.power_w
    )
    assert energy.output_tokens_per_joule == pytest.approx(1 / energy.joules_per_output_token)


def test_half_of_a_machine_draws_about_half():
    """A service on four of eight devices has half of the hosts, fans and switches."""
    whole, half = served().answer.energy, served(**{"plan.tensor": 4}).answer.energy
    rest = [one.power_w - n * one.device_w for one, n in ((whole, 8), (half, 4))]

    assert rest[1] == pytest.approx(rest[0] / 2, rel=0.1)


def test_a_stated_rate_is_the_cost():
    """Tokens for a dollar are those of an hour over the rate of all devices."""
    answer = served(**{"costs.usd_per_device_hour": 2.5}).answer

    assert answer.cost.usd_per_device_hour == 2.5
    assert answer.cost.output_tokens_per_usd == pytest.approx(
        3600 * answer.output_tokens_per_s / (8 * 2.5)
    )
    assert answer.unavailable == {}


def test_what_is_not_known_has_a_reason():
    """A purchase without a price of electricity has no cost, and the answer states why."""
    answer = served(**{"costs.price": "purchase"}).answer

    assert answer.cost is None
    assert answer.unavailable["cost"] == (
        "a purchase needs a site with a price of electricity (costs.site=NAME; clustersim list"
        " sites)"
    )


def test_the_limiting_kernel_is_a_product_that_reads_weights_for_few_users():
    """One user is limited by the largest product of the MLP; the link is one in the node."""
    answer = served().answer

    assert answer.limiting_kernel.part == "weights"
    assert "in fp8" in answer.limiting_kernel.kernel
    assert 0 < answer.limiting_kernel.share < 1
    assert answer.limiting_link.link.startswith("n0.dev")
    assert answer.limiting_link.bandwidth == pytest.approx(367.2e9)


@pytest.mark.large
def test_services_are_ranked_by_tokens_for_a_dollar():
    """`--by output_tokens_per_usd` ranks cards by their quoted rates."""
    found = clustersim.whatif(
        f"{NAME} load.concurrency=8 load.requests=16",
        settings=["costs.usd_per_device_hour=1", "cluster.node.interconnect.bandwidth=x2"],
        by="output_tokens_per_usd",
        jobs=1,
    )

    assert found.changes[0].settings == ("costs.usd_per_device_hour=1",)
