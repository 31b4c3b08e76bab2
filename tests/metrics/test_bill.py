"""What a run draws, emits and costs."""

import pytest

from clustersim import CatalogError, simulate
from clustersim.catalog.finding import entry_names
from clustersim.catalog.prices import find_prices, find_site
from clustersim.cost.prices import TERMS, Price, Site, build_site, price_of
from clustersim.metrics.bill import bill

STEP = simulate("megatron21-t1-18b").energy
DAY = 86400.0


def test_a_run_of_steps_draws_the_mean_power_of_a_step():
    """A day of steps is a day of mean power, times the PUE of the site."""
    found = bill([(1.0, STEP)], {"useful": DAY}, 5e11, Site("here", 1.2, 0.057, None))

    assert found.mean_w == pytest.approx(STEP.mean.total)
    assert found.energy_kwh == pytest.approx(1.2 * 24 * STEP.mean.total / 1e3)
    assert found.co2e_kg == pytest.approx(found.energy_kwh * 0.057)


def test_a_run_that_waits_draws_less():
    """Hours of restarts draw less than hours of steps, and the categories add up."""
    busy = bill([(1.0, STEP)], {"useful": 2 * DAY}, 5e11)
    found = bill([(1.0, STEP)], {"useful": DAY, "restarting": DAY}, 5e11)

    assert found.energy_kwh < busy.energy_kwh
    assert sum(found.by_account.values()) == pytest.approx(found.energy_kwh)


def test_rented_devices_cost_their_hours_and_purchased_ones_their_energy_too():
    """A rate is per device and hour; a purchase adds the electricity of its site.

    Half a trillion tokens cost half of what a trillion costs.
    """
    rented = bill([(1.0, STEP)], {"useful": DAY}, 5e11, price=Price(2.0, "stated", ""))
    site = Site("here", 1.1, None, 0.1)
    owned = bill([(1.0, STEP)], {"useful": DAY}, 5e11, site, Price(2.0, "purchase", ""))

    assert rented.cost == pytest.approx(2.0 * 24 * STEP.machine.devices)
    assert rented.per_trillion_tokens["cost"] == pytest.approx(2 * rented.cost)
    assert owned.cost == pytest.approx(rented.cost + 0.1 * owned.energy_kwh)


def test_what_is_not_known_is_none_with_the_reason():
    """Without a site there is no carbon, without a price no cost."""
    found = bill([(1.0, STEP)], {"useful": DAY}, 5e11)

    assert found.co2e_kg is None
    assert found.cost is None
    assert "costs.site" in found.unavailable["co2e_kg"]
    assert "no price is stated" in found.unavailable["cost"]


@pytest.mark.parametrize("name", entry_names("prices"))
def test_shipped_prices_have_quotes_of_an_accelerator(name):
    """Each file of prices belongs to an accelerator, and gives a rate of some term."""
    record = find_prices(name)

    assert name in entry_names("accelerator")
    assert record.source in record.sources
    assert any(price_of(name, term) for term in TERMS)


@pytest.mark.parametrize("name", entry_names("site"))
def test_shipped_sites_load(name):
    """A site has a PUE of at least 1, and carbon in kilograms."""
    site = build_site(find_site(name))

    assert site.pue >= 1
    assert site.carbon is None or 0 < site.carbon < 1


def test_the_price_is_the_median_of_the_last_year():
    """H100 of 2024 and 2025, not the first quotes; a purchase is divided by its hours."""
    rented, owned = price_of("h100-sxm", "on-demand"), price_of("h100-sxm", "purchase", years=4)

    assert 2 < rented.usd_per_device_hour < 5
    assert "2025-03" in rented.quote
    assert owned.usd_per_device_hour == pytest.approx(36018 / 4 / 8766)


def test_unknown_terms_and_sites_are_one_line():
    """The message names what is allowed."""
    with pytest.raises(CatalogError, match=r"no term 'spot' \(allowed: on-demand"):
        price_of("h100-sxm", "spot")
    with pytest.raises(CatalogError, match=r"costs\.site: no site named 'mars'"):
        find_site("mars", "costs.site: ")
