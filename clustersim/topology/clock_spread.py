r"""The spread of clocks: devices of a kind hold different clocks under the same power limit.

    device  0   1   2  ...  n - 1
    clock   |   |  |     |   |        a step runs at the pace of the slowest

Ranks of a step wait for each other at its collectives, so that kernels that are limited by compute
take the time of the slowest device, and those limited by memory are as fast as on any other.
"""

from dataclasses import replace
from functools import lru_cache
from statistics import NormalDist

from clustersim.topology.accelerator import Accelerator


def slowest_of(device: Accelerator, devices: int) -> Accelerator:
    """Return the slowest of some devices, as it is expected.

    Parameters
    ----------
    devices : that wait for each other [count]
    """
    clock = slowest_clock(device.clock_spread, devices)
    return device if clock == 1 else clocked(device, clock)


def slowest_clock(spread: float, devices: int) -> float:
    r"""Return the rate of products on the slowest of some devices, over that on the mean one.

    .. math:: \frac{1}{1 + s\, m(n)}

    with s = `spread` the relative standard deviation of the time of kernels limited by compute,
    normal over devices, and m(n) the expected maximum of n standard normal numbers.
    """
    return 1 / (1 + spread * normal_maximum(devices))


@lru_cache(maxsize=256)
def normal_maximum(count: int) -> float:
    r"""Return the expected maximum of some standard normal numbers [unitless], to 1 %.

    .. math:: m(n) \approx \Phi^{-1}\left(\frac{n - 3/8}{n + 1/4}\right)

    Blom 1958, *Statistical Estimates and Transformed Beta-Variables*.

    >>> round(normal_maximum(1024), 2)
    3.23
    """
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25))


def clocked(device: Accelerator, clock: float) -> Accelerator:
    """Return a device with another clock of its compute units; its memory is as fast as before."""
    ragged = device.gemm_ragged
    return replace(
        device,
        peak={precision: clock * rate for precision, rate in device.peak.items()},
        clock=clock * device.clock,
        gemm_ragged=None if ragged is None else clock * ragged,
    )
