r"""Exchange of tokens between the devices that hold experts: dispatch to them, and combination.

t = base + other nodes + tokens + smooth maximum of (bytes in the node, bytes to other nodes)
"""

from typing import Final

import numpy as np

from clustersim.cost.surfaces.surface import Array, Shapes, Surface, Term, Values, smooth_maximum
from clustersim.topology.accelerator import Accelerator

TERMS: Final = (
    Term("base", 25.0e-6, 1.0, 1e-7, 1e-2, "s"),
    Term("node", 8.0e-6, 1.0, 1e-8, 1e-3, "s"),
    Term("token", 2.0e-9, 1.5, 1e-12, 1e-5, "s"),
    Term("rate", 200e9, 1.0, 1e8, 1e13, "B/s"),
    Term("network_rate", 40e9, 1.0, 1e8, 1e13, "B/s"),
    Term("sharpness", 1.0, 0.7, 0.05, 20),
    Term("units_half", 4.0, 1.0, 0.05, 100),
)
"""`node` is the latency of each other node and `token` the time of a token; `units_half` are the
compute units of the exchange at which it reaches half of its rates."""


def exchange_terms(variant: str) -> tuple[Term, ...]:
    """Return the terms of a library."""
    return TERMS


def exchange_seconds(device: Accelerator, shapes: Shapes, variant: str, values: Values) -> Array:
    r"""Return the times of an exchange [s].

    A token is sent once to each device, and over the network once to each node, that holds one of
    its experts. Of g places, e experts reach on average

    .. math:: g \left( 1 - (1 - 1/g)^e \right)

    Kernels of low latency send a token once for each of its experts instead: DeepEP, README.

    Parameters
    ----------
    shapes : `tokens` of a device, `experts` chosen for a token, `bytes` of a token, `ranks` in the
        group, its `nodes`, compute `units` of the exchange, 0 where it is unknown, and `merged`, 1
        where a token is sent once to each place and 0 where once for each expert
    """
    tokens, chosen, ranks = shapes["tokens"], shapes["experts"], shapes["ranks"]
    nodes, units, merged = shapes["nodes"], shapes["units"], shapes["merged"] > 0
    sent = tokens * shapes["bytes"]
    near = sent * np.where(merged, _reached(ranks, chosen), chosen) * (ranks - 1) / ranks
    far = sent * np.where(merged, _reached(nodes, chosen), chosen) * (nodes - 1) / nodes
    share = np.where(units > 0, units / (units + values["units_half"]), 1.0)
    inside = near / (values["rate"] * share)
    across = far / (values["network_rate"] * share)
    moving = smooth_maximum(inside, across, values["sharpness"])
    start = values["base"] + values["node"] * (nodes - 1)
    return start + tokens * values["token"] + moving


def _reached(places: Array, chosen: Array) -> Array:
    reached: Array = places * (1 - (1 - 1 / places) ** chosen)
    return reached


EXCHANGE: Final = Surface(
    ("tokens", "experts", "bytes", "ranks", "nodes", "units", "merged"),
    exchange_terms,
    exchange_seconds,
)
"""Dispatch of tokens to experts, and combination of their results."""
