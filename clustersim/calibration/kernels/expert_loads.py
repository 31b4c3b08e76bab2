"""Tokens of each expert of a device, for the routings that kernels of experts are measured with.

balanced         every expert has the same number of tokens
power_law_1.2    tokens of an expert follow a power law; the device is the one with most tokens
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from clustersim.calibration.linear import Array

POWER_LAW: Final = "power_law_"
"""Prefix of the names of skewed routings."""

_SCARCE: Final = (0.01, 2.0)
"""Ends of the power law where there are fewer routed tokens than experts."""

_MOST: Final = 0.8
"""Upper end otherwise, as a share of all tokens; the lower end is 1."""

_PLACEMENTS: Final = 9
"""Random placements of experts on devices, of which the median is taken."""


def expert_loads(
    tokens: float, chosen: int, experts: int, groups: int, distribution: str
) -> Sequence[float]:
    """Return the tokens of each expert of one device.

    A power law is that of the generator in ai-dynamo/aiconfigurator, ``collector/helper.py``
    (``_generate_power_law_distribution``), whose random loads are replaced by quantiles.  Experts
    are placed at random; the device is the one with most tokens, in the median placement.

    Parameters
    ----------
    tokens : of all devices that hold the experts
    chosen : experts of a token
    groups : devices that the experts are divided over

    Raises
    ------
    ValueError
        when the distribution is unknown.

    >>> expert_loads(64, 8, 256, 64, "balanced")
    [2.0, 2.0, 2.0, 2.0]
    >>> expert_loads(4, 1, 16, 4, "balanced")
    [1.0, 0.0, 0.0, 0.0]
    """
    local, routed = max(1, experts // groups), tokens * chosen
    if distribution == "balanced":
        if routed >= experts:
            return [routed / experts] * local
        active = min(local, max(1, round(routed / groups)))
        return [1.0] * active + [0.0] * (local - active)
    if not distribution.startswith(POWER_LAW):
        raise ValueError(
            f"distribution: no '{distribution}' (known: balanced, {POWER_LAW}ALPHA such as"
            f" {POWER_LAW}1.2)"
        )
    try:
        alpha = float(distribution.removeprefix(POWER_LAW))
    except ValueError:
        raise ValueError(f"distribution: '{distribution}' has no number after it") from None
    if alpha <= 0 or alpha == 1:
        raise ValueError(f"distribution: '{distribution}' needs an exponent above 0 other than 1")
    return _hottest(tokens, routed, experts, local, alpha)


def _hottest(
    tokens: float, routed: float, experts: int, local: int, alpha: float
) -> Sequence[float]:
    """Return the loads of the device with most tokens."""
    low, high = (1.0, max(2.0, _MOST * tokens)) if routed > experts else _SCARCE
    quantile = (np.arange(experts) + 0.5) / experts
    ends = low ** (1 - alpha), high ** (1 - alpha)
    weights = ((ends[1] - ends[0]) * quantile + ends[0]) ** (1 / (1 - alpha))
    loads = np.minimum(np.round(weights / weights.sum() * routed), tokens)
    whole = experts // local * local
    generator = np.random.default_rng(0)
    devices = [
        _busiest(generator.permutation(loads)[:whole].reshape(-1, local), tokens, routed)
        for _ in range(_PLACEMENTS)
    ]
    chosen = sorted(devices, key=sum)[_PLACEMENTS // 2]
    return [float(load) for load in chosen]


def _busiest(devices: Array, tokens: float, routed: float) -> Array:
    """Return the loads of the device with most tokens, of devices of a row each.

    Tokens that rounding leaves go to the expert with fewest on each device in turn; those too many
    are taken from the expert with most.
    """
    missing = round(min(routed, devices.size * tokens) - devices.sum())
    for turn in range(abs(missing)):
        row = devices[turn % len(devices)]
        if missing > 0:
            row[row.argmin()] += row.min() < tokens
        else:
            row[row.argmax()] -= row.max() > 0
    busiest: Array = devices[devices.sum(axis=1).argmax()]
    return busiest
