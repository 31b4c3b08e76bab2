"""Energy, emissions and price of a whole run: those of its parts, by their useful time."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from clustersim.cost.prices import Price, Site
from clustersim.metrics.bill import Bill, bill
from clustersim.scenario.costs import rate_of, site_of
from clustersim.simulation.training_run.answer import (
    Accounting,
    EnergyAndPrice,
    MeanAndPeak,
    PowerLevels,
)
from clustersim.simulation.training_run.whole_run import WholeRun


@dataclass(frozen=True)
class RunBill:
    """What a run draws, emits and costs; keys as in `TrainAnswer`.

    Attributes
    ----------
    unavailable : for each value that is None, the reason
    """

    energy_kwh: float | None
    power_w: MeanAndPeak | None
    cost: float | None
    co2e_kg: float | None
    unavailable: Mapping[str, str]
    power_levels: PowerLevels | None = None
    bill: EnergyAndPrice | None = None


LEVELS: Final = 400
"""Levels of power over a step."""


def run_bill(whole: WholeRun, accounting: Accounting) -> RunBill:
    """Return what a run draws, emits and costs.

    Raises
    ------
    CatalogError
        when there is no site of the name that `costs` has.
    """
    costs = whole.loaded.scenario.costs
    site = site_of(costs, f"{whole.loaded.where('costs', 'site')}: ")
    price = rate_of(costs, whole.loaded.scenario.cluster.node.accelerator.name)
    bills, peaks = [], []
    for stage in whole.stages:
        step, trace = stage.result.energy, stage.result.power
        if step is None or trace is None:
            name = whole.loaded.scenario.cluster.name
            reason = f"no source states the power of the nodes of {name}"
            keys = ("energy_kwh", "power_w", "cost", "co2e_kg")
            return RunBill(None, None, None, None, dict.fromkeys(keys, reason))
        share = stage.seconds / whole.run.work
        spent = {name: share * seconds for name, seconds in vars(accounting).items()}
        bills.append(bill(step, spent, site, price))
        peaks.append(trace.peak)
    last = whole.stages[-1].result.power
    assert last is not None, "checked above"
    thin = last.thinned(LEVELS)
    found = _sum(bills, max(peaks), accounting.elapsed)
    return replace(
        found,
        power_levels=PowerLevels(tuple(thin.time.tolist()), tuple(thin.watts.tolist())),
        bill=_details(whole, bills, found, accounting, site, price),
    )


def _details(
    whole: WholeRun,
    bills: list[Bill],
    total: RunBill,
    accounting: Accounting,
    site: Site | None,
    price: Price | None,
) -> EnergyAndPrice:
    """Return what energy, emissions and price are made of."""
    hours = whole.loaded.scenario.devices * accounting.elapsed / 3600
    cost, rate = total.cost, None if price is None else price.usd_per_device_hour
    own = cost is not None and price is not None and not price.includes_electricity
    share = TRILLION / sum(stage.tokens for stage in whole.stages)
    numbers = {"energy_kwh": total.energy_kwh, "cost": cost, "co2e_kg": total.co2e_kg}
    return EnergyAndPrice(
        machine_kwh=sum(each.machine_kwh for each in bills),
        by_account={
            name: sum(each.by_category[name] for each in bills) for name in bills[0].by_category
        },
        site=None if site is None else site.name,
        pue=1.0 if site is None else site.pue,
        carbon=None if site is None else site.carbon,
        device_hours=hours,
        usd_per_device_hour=rate,
        term=None if price is None else price.term,
        quote=None if price is None else price.quote,
        electricity_usd=cost - hours * rate
        if own and cost is not None and rate is not None
        else None,
        per_trillion_tokens={
            name: share * value for name, value in numbers.items() if value is not None
        },
    )


TRILLION: Final = 1e12


def _sum(bills: list[Bill], peak: float, elapsed: float) -> RunBill:
    missing = bills[0].missing
    unavailable = {
        key: missing[name]
        for key, name in (("cost", "cost_usd"), ("co2e_kg", "co2e_kg"))
        if name in missing
    }
    machine = sum(each.machine_kwh for each in bills)
    return RunBill(
        energy_kwh=sum(each.energy_kwh for each in bills),
        power_w=MeanAndPeak(machine * 3.6e6 / elapsed, peak),
        cost=_total([each.cost_usd for each in bills]),
        co2e_kg=_total([each.co2e_kg for each in bills]),
        unavailable=unavailable,
    )


def _total(values: list[float | None]) -> float | None:
    """Return the sum of some values; None where one is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
