"""Energy, carbon and money of a whole run, from the energy of a step and the hours of the run.

useful, lost                    power of a step
saving, restarting, waiting,    devices with a process that runs no kernel, everything else
planned                         as in a step

machine x PUE of the site = energy;  energy x carbon intensity = emissions
devices x hours x rate (+ energy x price of electricity, if purchased) = cost
"""

from collections.abc import Mapping, Sequence
from typing import Final

from clustersim.answers import record
from clustersim.cost.prices import NO_ELECTRICITY, NO_SITE, Price, Site
from clustersim.metrics.energy import StepEnergy
from clustersim.units import format_usd

STEPPING: Final = frozenset({"useful", "lost"})
"""Categories of time in which a run executes steps."""

_JOULES_PER_KWH: Final = 3.6e6
_TRILLION: Final = 1e12


@record
class Bill:
    """What a run draws, emits and costs.

    Attributes
    ----------
    machine_kwh : energy of the machine, before the cooling of the site [kWh]
    energy_kwh : energy of the site, with its cooling; of the machine without a site [kWh]
    by_account : energy of the site by part of `accounting`; adds up to `energy_kwh` [kWh]
    mean_w : mean power of the machine [W]
    co2e_kg : emissions; null without a site, or one of unknown carbon intensity [kg]
    cost : rate of the devices, and electricity if it is not part of it; null without one [USD]
    unavailable : for `cost` and `co2e_kg`, the reason where they are null
    site : name of the site; null without `costs.site`
    pue : energy of the site over that of the machine; 1 without a site
    carbon : emissions of electricity; null where not stated [kg CO2e/kWh]
    device_hours : hours of all devices [h]
    usd_per_device_hour : rate of a device; null where no price is known [USD/h]
    term : how devices are paid for: `on-demand`, `one-year`, `three-year`, `purchase`, or `stated`
        by the user; null where no price is known
    quote : quotes that the rate is from, with their dates; null where no price is known
    electricity_usd : price of the energy; null where it is part of the rate [USD]
    per_trillion_tokens : `energy_kwh`, `cost` and `co2e_kg` of a trillion tokens, as far as known
    """

    machine_kwh: float
    energy_kwh: float
    by_account: Mapping[str, float]
    mean_w: float
    co2e_kg: float | None
    cost: float | None
    unavailable: Mapping[str, str]
    site: str | None
    pue: float
    carbon: float | None
    device_hours: float
    usd_per_device_hour: float | None
    term: str | None
    quote: str | None
    electricity_usd: float | None
    per_trillion_tokens: Mapping[str, float]

    @property
    def energy_of(self) -> str:
        """What the energy is of: the machine, or a site with its PUE."""
        return f"with PUE {self.pue:g} of {self.site}" if self.site else "of the machine"

    @property
    def rate(self) -> str:
        """The rate of a device with its quotes, and electricity that is not part of it."""
        if self.usd_per_device_hour is None or self.term is None or self.quote is None:
            return ""
        rate = Price(self.usd_per_device_hour, self.term, self.quote).text
        if self.electricity_usd is None:
            return rate
        return f"{rate}; {format_usd(self.electricity_usd)} of electricity at {self.site}"


def bill(
    steps: Sequence[tuple[float, StepEnergy]],
    accounting: Mapping[str, float],
    tokens: float,
    site: Site | None = None,
    price: Price | str = "no price is stated (costs)",
) -> Bill:
    """Return what a run draws, emits and costs.

    Parameters
    ----------
    steps : energy of each kind of step, with its share of the time of all steps
    accounting : seconds of the run by category: useful, lost, saving, restarting, waiting, planned
    tokens : of the run
    site : where it runs; its energy is that of the machine without one
    price : of a device; or why there is no cost
    """
    machine = steps[0][1].machine
    idle = machine.of(machine.in_state("waiting")).total
    stepping = sum(share * step.mean.total for share, step in steps)
    watts = {name: stepping if name in STEPPING else idle for name in accounting}
    kwh = {name: watts[name] * s / _JOULES_PER_KWH for name, s in accounting.items()}
    seconds, machine_kwh = sum(accounting.values()), sum(kwh.values())
    pue, carbon = (1.0, None) if site is None else (site.pue, site.carbon)
    energy, hours = machine_kwh * pue, machine.devices * seconds / 3600
    unavailable = {**_no_carbon(site), **_no_cost(site, price)}
    known = None if isinstance(price, str) else price
    cost = electricity = None
    if known is not None and "cost" not in unavailable:
        cost = hours * known.usd_per_device_hour
        if not known.includes_electricity and site is not None:
            electricity = energy * (site.electricity or 0.0)
            cost += electricity
    co2e = None if carbon is None else energy * carbon
    totals = {"energy_kwh": energy, "cost": cost, "co2e_kg": co2e}
    return Bill(
        machine_kwh=machine_kwh,
        energy_kwh=energy,
        by_account={name: pue * value for name, value in kwh.items()},
        mean_w=machine_kwh * _JOULES_PER_KWH / seconds if seconds else 0.0,
        co2e_kg=co2e,
        cost=cost,
        unavailable=unavailable,
        site=None if site is None else site.name,
        pue=pue,
        carbon=carbon,
        device_hours=hours,
        usd_per_device_hour=None if known is None else known.usd_per_device_hour,
        term=None if known is None else known.term,
        quote=None if known is None else known.quote,
        electricity_usd=electricity,
        per_trillion_tokens={
            name: _TRILLION / tokens * value for name, value in totals.items() if value is not None
        },
    )


def _no_carbon(site: Site | None) -> dict[str, str]:
    if site is None:
        return {"co2e_kg": NO_SITE}
    return {} if site.carbon is not None else {"co2e_kg": f"no carbon intensity of {site.name}"}


def _no_cost(site: Site | None, price: Price | str) -> dict[str, str]:
    if isinstance(price, str):
        return {"cost": price}
    if not price.includes_electricity and (site is None or site.electricity is None):
        return {"cost": NO_ELECTRICITY}
    return {}
