r"""Tokens of the experts of a device, when each token chooses experts by given shares.

    expected tokens of an expert     T k p
    probability that it has any      1 - (1 - k p)^T

A step waits for the device that takes longest.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from clustersim.arrays import Floats
from clustersim.cost.surfaces.grouped import ROWS

MOST_CHOSEN: Final = 1.0
"""Share of tokens that an expert can get: each token chooses it at most once."""


class ExpertLoads:
    """The distribution of tokens over the experts of a layer, and over devices.

    Parameters
    ----------
    shares : of each expert in all tokens, in any unit, devices one after another
    chosen : experts of a token
    devices : that hold different experts
    """

    def __init__(self, shares: Sequence[float], chosen: int, devices: int) -> None:
        of_device = np.asarray(shares, dtype=float).reshape(devices, -1)
        picked = np.minimum(chosen * of_device / of_device.sum(), MOST_CHOSEN)
        self._kinds = np.unique(np.sort(picked, axis=1), axis=0)

    @property
    def kinds(self) -> int:
        """Devices that differ in the shares of their experts."""
        return len(self._kinds)

    def tiles(self, tokens: Floats) -> dict[str, Floats]:
        """Return the columns of shapes for each kind of device and number of tokens, in a row.

        Of an expert with some probability of having tokens, tiles are counted for its tokens when
        it has any.
        """
        picked = self._kinds[:, None, :]
        expected = picked * tokens[None, :, None]
        active = 1 - (1 - picked) ** tokens[None, :, None]
        each = expected / np.maximum(active, 1e-12)
        columns = {
            "routed": expected.sum(axis=2),
            "active": active.sum(axis=2),
            "local": np.full(expected.shape[:2], float(self._kinds.shape[1])),
        }
        for rows in ROWS:
            full = np.ceil(each / rows - 1e-9)
            columns[f"tiles{rows}"] = (active * full).sum(axis=2)
        return {name: column.ravel() for name, column in columns.items()}

    def slowest(self, seconds: Floats) -> Floats:
        """Return the longest time of all devices for each number of tokens [s]."""
        longest: Floats = seconds.reshape(self.kinds, -1).max(axis=0)
        return longest
