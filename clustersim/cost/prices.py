"""Money and carbon of a machine: the price of a device and hour, and the energy of its site.

rented      devices x hours x quoted rate
purchased   devices x hours x price / years of use, and the electricity of the site
"""

from collections.abc import Sequence
from statistics import median
from typing import Final, Literal

from clustersim.catalog.prices import PricesRecord, SiteRecord, find_prices
from clustersim.errors import CatalogError
from clustersim.records import dataclass

Term = Literal["on-demand", "one-year", "three-year", "purchase"]

TERMS: Final[tuple[Term, ...]] = ("on-demand", "one-year", "three-year", "purchase")
"""How devices are paid for: rented with some commitment, or purchased."""

HOURS_A_YEAR: Final = 8766.0

NO_ELECTRICITY: Final = (
    "a purchase needs a site with a price of electricity (costs.site=NAME; clustersim list sites)"
)
"""Why a purchase has no price without a site."""

NO_SITE: Final = "no site is given (costs.site)"
"""Why what a site adds is not known."""

assumed_years_of_use: Final = 4.0
"""Years over which a purchase is written off; assumed, as usual for servers."""


@dataclass(frozen=True)
class Price:
    """The price of a device.

    Attributes
    ----------
    usd_per_device_hour : the rate, without electricity if purchased [USD/h]
    term : how it is paid for; ``stated`` for a rate of the user
    quote : the quotes that it is from, with their dates
    quotes : how many these are; None for a rate of the user
    """

    usd_per_device_hour: float
    term: str
    quote: str
    quotes: int | None = None

    @property
    def text(self) -> str:
        """The rate with its quotes."""
        rate = f"{self.usd_per_device_hour:.3g} USD per device and hour"
        without = "" if self.includes_electricity else " without electricity"
        return f"{rate}, {self.term}{without}: {self.quote}"

    @property
    def includes_electricity(self) -> bool:
        """Whether energy is part of the rate."""
        return self.term != "purchase"


def price_of(accelerator: str, term: str, years: float = assumed_years_of_use) -> Price | None:
    """Return the price of an accelerator: the median of the quotes of the last year with any.

    Parameters
    ----------
    term : one of `TERMS`
    years : of use, over which a purchase is divided

    Returns
    -------
    None where no quote of that term is known.

    Raises
    ------
    CatalogError
        when the term is not known.
    """
    if term not in TERMS:
        raise CatalogError(f"price: no term '{term}' (allowed: {', '.join(TERMS)})")
    record = find_prices(accelerator)
    if record is None:
        return None
    if term == "purchase":
        return _purchase(record, years)
    key = term.replace("-", "_")
    quoted = [(quote.date, getattr(quote, key)) for quote in record.rental]
    found = _latest([(day, rate) for day, rate in quoted if rate is not None])
    if not found:
        return None
    quote = f"{_sample(found)}{_range(found, 'USD/h')}"
    return Price(median(rate for _, rate in found), term, quote, len(found))


def _purchase(record: PricesRecord, years: float) -> Price | None:
    """Return the rate of a purchase: shares of systems where some are quoted."""
    systems = [quote for quote in record.purchase if quote.basis == "system"]
    quotes = systems or record.purchase
    if not quotes:
        return None
    latest = _latest([(quote.date, quote.usd) for quote in quotes])
    usd = median(price for _, price in latest)
    what = "share of a system" if systems else "device alone"
    sample = f"{_sample(latest)}{_range(latest, 'USD')}"
    quote = f"{what} at {usd:,.0f} USD over {years:g} years, {sample}"
    return Price(usd / years / HOURS_A_YEAR, "purchase", quote, len(latest))


def _sample(quotes: Sequence[tuple[str, float]]) -> str:
    """Return how many quotes a price is from, and of when."""
    first, last = min(quotes)[0][:7], max(quotes)[0][:7]
    if len(quotes) == 1:
        return f"a single quote of {last}"
    return f"median of {len(quotes)} quotes of {first if first == last else f'{first} to {last}'}"


def _range(quotes: Sequence[tuple[str, float]], unit: str) -> str:
    """Return the lowest and the highest of several quotes."""
    prices = [price for _, price in quotes]
    low, high = (f"{price:,.2f}".rstrip("0").rstrip(".") for price in (min(prices), max(prices)))
    return f", {low} to {high} {unit}" if len(quotes) > 1 else ""


def _latest(quotes: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return the quotes of the year before the latest one, by their dates."""
    if not quotes:
        return []
    day = max(quotes)[0]
    return [quote for quote in quotes if quote[0] > f"{int(day[:4]) - 1}{day[4:]}"]


@dataclass(frozen=True)
class Site:
    """Where a machine stands.

    Attributes
    ----------
    pue : energy of the site over that of its machines
    carbon : emissions [kg CO2e/kWh]; None if not known
    electricity : price [USD/kWh]; None if not known
    """

    name: str
    pue: float
    carbon: float | None
    electricity: float | None


def build_site(record: SiteRecord) -> Site:
    """Return the site that a catalogue file describes."""
    carbon, electricity = record.carbon, record.electricity
    return Site(
        name=record.name,
        pue=record.pue,
        carbon=None if carbon is None else carbon / 1e3,
        electricity=electricity,
    )
