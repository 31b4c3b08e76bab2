"""Energy, carbon and money of a whole run, from the energy of a step and the hours of the run.

useful, lost                    power of a step
saving, restarting, waiting,    devices with a process that runs no kernel, everything else
planned                         as in a step

machine x PUE of the site = energy;  energy x carbon intensity = emissions
devices x hours x rate (+ energy x price of electricity, if purchased) = cost
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from clustersim.cost.prices import Price, Site
from clustersim.metrics.energy import StepEnergy

STEPPING: Final = frozenset({"useful", "lost"})
"""Categories of time in which a run executes steps."""

_JOULES_PER_KWH: Final = 3.6e6
_TRILLION: Final = 1e12


@dataclass(frozen=True)
class Bill:
    """What a run draws, emits and costs.

    Attributes
    ----------
    machine_kwh : energy of the machine [kWh]
    energy_kwh : energy of the site, with its cooling; of the machine without a site [kWh]
    by_category : energy of the site by category of time [kWh]
    mean_w : mean power of the machine [W]
    co2e_kg : emissions [kg]; None without a site, or one of unknown carbon intensity
    cost_usd : rate of the devices, and electricity if it is not part of it [USD]; None without one
    missing : for each value that is None, the reason
    """

    machine_kwh: float
    energy_kwh: float
    by_category: Mapping[str, float]
    mean_w: float
    co2e_kg: float | None
    cost_usd: float | None
    missing: Mapping[str, str]

    def per_trillion_tokens(self, tokens: float) -> "Bill":
        """Return the same for a trillion tokens of a run of `tokens`; power stays."""
        share = _TRILLION / tokens
        return Bill(
            machine_kwh=self.machine_kwh * share,
            energy_kwh=self.energy_kwh * share,
            by_category={name: kwh * share for name, kwh in self.by_category.items()},
            mean_w=self.mean_w,
            co2e_kg=None if self.co2e_kg is None else self.co2e_kg * share,
            cost_usd=None if self.cost_usd is None else self.cost_usd * share,
            missing=self.missing,
        )


def bill(
    step: StepEnergy,
    accounting: Mapping[str, float],
    site: Site | None = None,
    price: Price | None = None,
) -> Bill:
    """Return what a run draws, emits and costs.

    Parameters
    ----------
    step : energy of its step
    accounting : seconds of the run by category: useful, lost, saving, restarting, waiting, planned
    site : where it runs; its energy is that of the machine without one
    price : of a device; no cost without one
    """
    machine = step.machine
    idle = machine.of(machine.in_state("waiting")).total
    watts = {name: step.mean.total if name in STEPPING else idle for name in accounting}
    kwh = {name: watts[name] * s / _JOULES_PER_KWH for name, s in accounting.items()}
    seconds, machine_kwh = sum(accounting.values()), sum(kwh.values())
    pue = 1.0 if site is None else site.pue
    energy = machine_kwh * pue
    carbon = None if site is None else site.carbon
    missing = {**_no_carbon(site), **_no_cost(site, price)}
    return Bill(
        machine_kwh=machine_kwh,
        energy_kwh=energy,
        by_category={name: pue * value for name, value in kwh.items()},
        mean_w=machine_kwh * _JOULES_PER_KWH / seconds if seconds else 0.0,
        co2e_kg=None if carbon is None else energy * carbon,
        cost_usd=None
        if price is None or "cost_usd" in missing
        else _cost(machine.devices * seconds / 3600, energy, site, price),
        missing=missing,
    )


def _cost(device_hours: float, energy: float, site: Site | None, price: Price) -> float:
    rate = device_hours * price.usd_per_device_hour
    if price.includes_electricity or site is None or site.electricity is None:
        return rate
    return rate + energy * site.electricity


def _no_carbon(site: Site | None) -> dict[str, str]:
    if site is None:
        return {"co2e_kg": "no site is given (costs.site)"}
    return {} if site.carbon is not None else {"co2e_kg": f"no carbon intensity of {site.name}"}


def _no_cost(site: Site | None, price: Price | None) -> dict[str, str]:
    if price is None:
        return {"cost_usd": "no price of this accelerator is known (costs.usd_per_device_hour)"}
    if not price.includes_electricity and (site is None or site.electricity is None):
        return {"cost_usd": "a purchase needs a site with a price of electricity (costs.site)"}
    return {}
