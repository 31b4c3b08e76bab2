"""The price of a job: its devices, rented on demand."""

from clustersim.cost.prices import price_of
from clustersim.scenario.schema import Scenario


def usd_per_hour(given: Scenario) -> float | None:
    """Return the price of the devices of a scenario; None if not known [USD/h]."""
    price = price_of(given.cluster.node.accelerator.name, "on-demand")
    return None if price is None else price.usd_per_device_hour * given.devices
