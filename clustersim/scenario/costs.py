"""The section `costs:` of a scenario: where a machine stands, and how it is paid for."""

from typing import Annotated, Literal

from pydantic import Field

from clustersim.catalog.facts import Line, Positive, Strict
from clustersim.catalog.prices import find_site
from clustersim.cost.prices import (
    NO_ELECTRICITY,
    TERMS,
    Price,
    Site,
    assumed_years_of_use,
    build_site,
    price_of,
)


class CostsFile(Strict):
    """Where a machine stands, and how its devices are paid for."""

    site: Line | None = Field(
        None, description="site of the catalogue, for cooling, carbon and electricity"
    )
    price: Literal["on-demand", "one-year", "three-year", "purchase"] = Field(
        "on-demand", description="rental with a commitment, or purchase; the latest quotes"
    )
    usd_per_device_hour: Positive | None = Field(
        None, description="rate of a device [USD/h], instead of quotes"
    )
    years: Annotated[float, Field(gt=0, le=30)] = Field(
        assumed_years_of_use, description="years of use of a purchase"
    )


def site_of(costs: CostsFile, where: str = "") -> Site | None:
    """Return the site of a scenario; None without one.

    Raises
    ------
    CatalogError
        when there is none of that name; the message begins with `where`.
    """
    return None if costs.site is None else build_site(find_site(costs.site, where))


def rate_of(costs: CostsFile, accelerator: str) -> Price | str:
    """Return the price of a device of a scenario; or why it is not known, and what to state."""
    if costs.usd_per_device_hour is not None:
        return Price(costs.usd_per_device_hour, "stated", "costs.usd_per_device_hour")
    price = price_of(accelerator, costs.price, costs.years)
    if price is not None:
        return price
    quoted = [f"costs.price={term}" for term in TERMS if price_of(accelerator, term) is not None]
    remedies = ", or ".join(["costs.usd_per_device_hour", *quoted])
    site = " with costs.site, of: clustersim list sites" if "purchase" in remedies else ""
    return f"no {costs.price} price of {accelerator} is quoted (state {remedies}{site})"


def usd_per_hour(
    costs: CostsFile, accelerator: str, devices: int, watts: float | str, where: str = ""
) -> float | str:
    """Return the price of an hour of some devices, with electricity that is not part of the rate.

    Parameters
    ----------
    watts : mean power of their machine [W]; or why it is not known
    where : the place of the site, with which a message begins

    Returns
    -------
    why it is not known, where it is not [USD/h].
    """
    site, price = site_of(costs, where), rate_of(costs, accelerator)
    if isinstance(price, str):
        return price
    rate = devices * price.usd_per_device_hour
    if price.includes_electricity:
        return rate
    if site is None or site.electricity is None:
        return NO_ELECTRICITY
    return watts if isinstance(watts, str) else rate + watts / 1000 * site.pue * site.electricity


def site_watts(costs: CostsFile, watts: float, where: str = "") -> float | None:
    """Return what a site draws for a machine, with its PUE; None without a site [W]."""
    site = site_of(costs, where)
    return None if site is None else watts * site.pue


def rate_text(costs: CostsFile, accelerator: str) -> str | None:
    """Return the rate of a device with its quotes; None where no price is known."""
    rate = rate_of(costs, accelerator)
    if isinstance(rate, str):
        return None
    added = costs.site is not None and not rate.includes_electricity
    return f"{rate.text}; and electricity of {costs.site}" if added else rate.text
