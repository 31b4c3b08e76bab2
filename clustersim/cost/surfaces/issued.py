"""Kernels that the host issues one by one, while the device runs those before.

t = the longer of host and device
"""

from typing import Final

import numpy as np

from clustersim.cost.surfaces.surface import Array, Shapes, Term, Values, smooth_maximum

HOST: Final = Term("host", 30.0e-6, 0.5, 1e-7, 1e-3, "s")
"""Time of the host for a call."""

assumed_edge: Final = 10.0
"""Sharpness of the maximum of host and device, which do not hinder each other; assumed."""


def at_least_host(seconds: Array, values: Values) -> Array:
    """Return the times of calls that the host issues one by one [s]."""
    return smooth_maximum(seconds, np.full_like(seconds, values["host"]), assumed_edge)


def issued_seconds(seconds: Array, shapes: Shapes, values: Values) -> Array:
    """Return the times of calls [s].

    Parameters
    ----------
    shapes : `issued` is 1 in a benchmark whose host issues each call, else 0
    """
    return np.where(shapes["issued"] > 0, at_least_host(seconds, values), seconds)
