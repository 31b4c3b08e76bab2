r"""Energy and money of a service: power of its devices by what they do, and quoted rates.

    power of a device = busy x \sum_{parts} share x power of the state + (1 - busy) x waiting
    tokens for a joule = tokens in a second / power
    tokens for a dollar = tokens in a second / (devices x rate of a device)

Hosts, fans, power supplies and switches count by the share of the machine that the service has.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from clustersim.cost.power import MachinePower, State, machine_power, missing_power
from clustersim.engine.requests.steps import Steps
from clustersim.scenario.costs import rate_of, site_watts, usd_per_hour
from clustersim.scenario.serving import ServingScenario
from clustersim.simulation.service.answer import ServiceCost, ServiceEnergy
from clustersim.simulation.service.attribution import sampled_batches
from clustersim.simulation.service.pools import Pool

_STATES: Final[Mapping[str, State]] = {
    "weights": "memory",
    "kv": "memory",
    "elementwise": "memory",
    "sampling": "memory",
    "experts": "memory",
    "draft": "memory",
    "compute": "compute",
    "prefill": "compute",
    "tensor": "communication",
    "expert": "communication",
    "pipeline": "communication",
    "context": "communication",
    "host": "waiting",
}
"""State of a device in each part of a step."""

_SITE: Final = "costs.site: "
"""The place of the site, with which a message begins."""


def service_energy(
    scenario: ServingScenario,
    pools: Sequence[Pool],
    steps: Sequence[Sequence[Steps]],
    window: tuple[float, float],
    rates: Mapping[str, float],
) -> ServiceEnergy | str:
    """Return power and energy of a service; or why they are not known.

    Parameters
    ----------
    steps : of the replicas of each pool
    window : of the time that is measured [s]
    rates : of tokens, by key of the answer [1/s]
    """
    cluster = scenario.cluster
    machine = machine_power(cluster, cluster.nodes)
    if machine is None:
        return missing_power(cluster)
    devices = sum(pool.devices for pool in pools)
    watts = [
        pool.devices * _device_watts(machine, pool, own, window)
        for pool, own in zip(pools, steps, strict=True)
    ]
    device = sum(watts) / devices
    power = machine.of(device).total * devices / machine.devices
    output, total = rates["output_tokens_per_s"], rates["total_tokens_per_s"]
    if not output:
        return "no tokens are generated in the time that is measured"
    return ServiceEnergy(
        power_w=power,
        device_w=device,
        joules_per_output_token=power / output,
        output_tokens_per_joule=output / power,
        total_tokens_per_joule=total / power,
        site_power_w=site_watts(scenario.costs, power, _SITE),
    )


def _device_watts(
    machine: MachinePower, pool: Pool, steps: Sequence[Steps], window: tuple[float, float]
) -> float:
    """Return the mean power of a device of a pool [W]."""
    begin, end = window
    waiting = machine.in_state("waiting")
    stepping = sum(each.seconds_within(begin, end) for each in steps)
    stages = pool.layout.pipeline
    busy = min(1.0, stepping / ((end - begin) * len(steps) * stages)) if end > begin else 0.0
    parts: defaultdict[str, float] = defaultdict(float)
    sizes = [each.sequences + each.prompt_tokens for each in steps]
    for batch in sampled_batches(steps, sizes):
        for name, seconds in pool.costs.step(batch).parts.items():
            parts[name] += seconds
    total = sum(parts.values())
    if not total:
        return waiting
    drawn = sum(s * machine.in_state(_STATES[name]) for name, s in parts.items()) / total
    return busy * drawn + (1 - busy) * waiting


def service_cost(
    scenario: ServingScenario,
    devices: int,
    energy: ServiceEnergy | str,
    rates: Mapping[str, float],
) -> ServiceCost | str:
    """Return what tokens of a service cost; or why it is not known."""
    accelerator = scenario.cluster.node.accelerator.name
    watts = energy if isinstance(energy, str) else energy.power_w
    hourly = usd_per_hour(scenario.costs, accelerator, devices, watts, _SITE)
    price = rate_of(scenario.costs, accelerator)
    if isinstance(price, str) or isinstance(hourly, str):
        return f"{hourly}"
    output = 3600 * rates["output_tokens_per_s"] / hourly
    total = 3600 * rates["total_tokens_per_s"] / hourly
    return ServiceCost(
        usd_per_device_hour=price.usd_per_device_hour,
        quote=price.quote,
        usd_per_million_output_tokens=1e6 / output,
        output_tokens_per_usd=output,
        total_tokens_per_usd=total,
        quotes=price.quotes,
    )
