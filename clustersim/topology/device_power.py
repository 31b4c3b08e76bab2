"""Electrical power of a device by what it does, and its clock under a power cap.

waiting < communication < memory-bound < compute-bound <= cap <= limit of the board
"""

from dataclasses import dataclass
from typing import Final

from clustersim.catalog.accelerators import AcceleratorRecord

assumed_lowest_voltage_clock: Final = 0.6
"""Share of the clock at which the voltage is lowest; assumed, as usual for GPUs."""


@dataclass(frozen=True)
class DevicePower:
    """Electrical power of a device while it runs kernels of a kind [W].

    Attributes
    ----------
    idle : without a process
    waiting, communication, memory, compute : with a process that runs no kernel, exposed
        collectives, kernels that memory limits, and products or attention; none is above `cap`
    training : mean of typical steps
    cap : power that the device does not exceed
    clock : share of its clock at which products run under this cap
    """

    idle: float
    waiting: float
    communication: float
    memory: float
    compute: float
    training: float
    cap: float
    clock: float = 1.0


def device_power(record: AcceleratorRecord) -> DevicePower | None:
    """Return the power of a device, under its power cap; None where its file states none."""
    facts = record.power
    if facts is None:
        return None
    limit, idle = facts.limit, facts.idle
    cap = limit if record.power_cap is None else record.power_cap
    states = ("waiting", "communication", "memory", "compute", "training")
    drawn = {name: limit * getattr(facts, name) for name in states}
    capped = {name: min(cap, watts) for name, watts in drawn.items()}
    return DevicePower(
        idle=idle, cap=cap, clock=clock_under_cap(cap, drawn["compute"], idle), **capped
    )


def clock_under_cap(cap: float, watts: float, idle: float) -> float:
    r"""Return the share of the clock at which a device stays below a power cap [unitless].

    .. math:: f = \left(\frac{P_{cap} - P_0}{P - P_0}\right)^{1/3}, \qquad
              f = \frac{P_{cap} - P_0}{(P - P_0) f_0^2} \text{ below } f_0

    with P = `watts` at full clock and P_0 = `idle`: dynamic power grows with the clock and the
    square of the voltage, which follows the clock down to the share f_0 and is constant below.

    >>> round(clock_under_cap(400, 700, 70), 3), clock_under_cap(700, 700, 70)
    (0.806, 1.0)
    """
    dynamic = (cap - idle) / (watts - idle) if watts > cap else 1.0
    clock = dynamic ** (1 / 3)
    lowest = assumed_lowest_voltage_clock
    return clock if clock >= lowest else dynamic / lowest**2
