r"""Collectives of devices in a node, called alone.

    t = base + (p - 1) hop + x + 2 sqrt((p - 1) piece x),   x = bus factor * bytes / rate(p)

The last term is that of a buffer cut into pieces of the best size, as in `cost.closed_form`.
Without a CUDA graph the host issues each call, and the device waits for it: the longer of the two.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from clustersim.cost.surfaces.issued import HOST, at_least_host
from clustersim.cost.surfaces.surface import Array, Shapes, Surface, Term, Values
from clustersim.topology.accelerator import Accelerator

TERMS: Final = (
    Term("base", 6.0e-6, 1.2, 1e-7, 1e-3, "s"),
    Term("hop", 0.6e-6, 1.2, 1e-9, 1e-3, "s"),
    Term("rate", 250e9, 1.2, 1e8, 1e13, "B/s"),
    Term("piece", 0.2e-6, 1.5, 1e-10, 1e-3, "s"),
    Term("growth", 1.15, 0.4, 0.05, 4),
    Term("pair", 1.0, 0.5, 0.1, 10),
)
"""`rate` is the bus bandwidth of four devices, and `growth` its factor for each doubling of them:
above 1 where a switch reduces, below 1 where devices share a path over the host.  `pair` is a
further factor of two devices, above 1 where these have a path of their own and more share one."""

ISSUED: Final = frozenset({"torch", "sglang-customallreduce-eager", "vllm-custom-eager"})
"""Libraries measured call by call, without CUDA graphs."""


def in_node_terms(variant: str) -> tuple[Term, ...]:
    """Return the terms of a collective of a library."""
    return (*TERMS, HOST) if variant in ISSUED else TERMS


def in_node_seconds(
    device: Accelerator, shapes: Shapes, variant: str, values: Values, *, passes: int
) -> Array:
    """Return the times of collectives on `devices` of a node [s].

    Parameters
    ----------
    passes : 2 of an all-reduce, whose buffer goes round twice, else 1
    """
    devices, nbytes = shapes["devices"], shapes["bytes"]
    rate = values["rate"] * values["growth"] ** np.log2(devices / 4)
    rate = rate * np.where(devices == 2, values["pair"], 1.0)
    x = passes * (devices - 1) / devices * nbytes / rate
    pieces = 2 * np.sqrt(values["piece"] * (devices - 1) * x)
    seconds: Array = values["base"] + values["hop"] * (devices - 1) + x + pieces
    if variant not in ISSUED:
        return seconds
    return at_least_host(seconds, values)


def _surface(seconds: Callable[[Accelerator, Shapes, str, Values], Array]) -> Surface:
    return Surface(("devices", "bytes"), in_node_terms, seconds)


TWICE: Final = _surface(partial(in_node_seconds, passes=2))
"""All-reduce."""

ONCE: Final = _surface(partial(in_node_seconds, passes=1))
"""All-gather, reduce-scatter and all-to-all."""
