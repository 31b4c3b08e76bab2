"""Prices of accelerators and facts about sites, as their files state them.

topologies/prices/<accelerator>.yaml   dated quotes of rental and purchase
topologies/sites/<name>.yaml           cooling, carbon intensity and price of electricity
"""

from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field

from clustersim.catalog.checking import checked, shipped_record
from clustersim.catalog.facts import Fact, Line, NotNegative, Positive, Record, Strict
from clustersim.catalog.finding import entry_names, find
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError

Day = Annotated[str, Field(pattern=r"^\d{4}-\d{2}(-\d{2})?$")]


class Rental(Strict):
    """A quote of a vendor, by length of the commitment [USD per device and hour]."""

    date: Day
    vendor: Line
    on_demand: Positive | None = None
    one_year: Positive | None = None
    three_year: Positive | None = None
    region: Line | None = None


class Purchase(Strict):
    """A price of a device [USD]; of a `system`, it includes its share of the node."""

    date: Day
    usd: Positive
    basis: Literal["unit", "system"]


class PricesRecord(Record):
    """``topologies/prices/*.yaml``: quotes for the accelerator of that name.

    `source` is that of all quotes.
    """

    kind: Literal["prices"]
    source: str
    rental: list[Rental] = Field(default_factory=list)
    purchase: list[Purchase] = Field(default_factory=list)


class SiteRecord(Record):
    """``topologies/sites/*.yaml``: where a machine stands.

    `pue` is the energy of the site over that of its machines, `carbon` its emissions [g CO2e/kWh],
    `electricity` the price of energy [USD/kWh].
    """

    kind: Literal["site"]
    pue: Fact[Annotated[float, Field(ge=1, le=10)]]
    carbon: Fact[NotNegative] | None = None
    electricity: Fact[NotNegative] | None = None


@lru_cache(maxsize=64)
def find_prices(accelerator: str) -> PricesRecord | None:
    """Return the prices of an accelerator; None without any."""
    if accelerator not in entry_names("prices"):
        return None
    return shipped_record(PricesRecord, "prices", accelerator)


def find_site(name: str, where: str = "") -> SiteRecord:
    """Return a site.

    Raises
    ------
    CatalogError
        when there is none of that name; the message begins with `where`.
    """
    return checked(SiteRecord, Tree.of(find("site", name, None, where)), CatalogError)
