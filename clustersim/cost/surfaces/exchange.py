r"""Measured communication: exchange of tokens with experts, and collectives of devices in a node.

An exchange is a dispatch of tokens to the devices that hold experts, or the combination of results:

    t = base + other nodes + tokens + smooth maximum of (bytes in the node, bytes to other nodes)

A collective in a node, called alone:

    t = base + (p - 1) hop + min(y / quick, second + x + 2 sqrt((p - 1) piece x))

with x = bus factor * bytes / rate(p).  The root is that of a buffer cut into pieces of the best
size, as in `cost.closed_form`; small buffers have a quicker path:

    NCCL, protocol LL          y = x                       a flag next to the data of each store
    all-reduces of engines     y = (p - 1) bytes / rate(p) each device reads the buffers of all
                                                           others, and no sum is sent back

Libraries without such a path have the second one alone, and no `second`.
Without a CUDA graph the host issues each call, and the device waits for it: the longer of the two.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from clustersim.cost.surfaces.surface import (
    HOST,
    Array,
    Shapes,
    Surface,
    Term,
    Values,
    at_least_host,
    smooth_maximum,
)
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
    lambda variant: TERMS,
    exchange_seconds,
)
"""Dispatch of tokens to experts, and combination of their results."""


# --- collectives in a node ------------------------------------------------------------------------

IN_NODE: Final = (
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

Amount = Array | float

ISSUED: Final = frozenset({"torch", "sglang-customallreduce-eager", "vllm-custom-eager"})
"""Libraries measured call by call, without CUDA graphs."""

OWN: Final = ("trtllm", "vllm-custom-", "sglang-customallreduce-")
"""How the names of engines' own all-reduces begin: TensorRT-LLM, `allReduceKernels`, and vLLM,
`custom_all_reduce`, which SGLang has as well."""

LIBRARY: Final = "nccl"
"""The collective library that files of machines model.  Its protocol LL stores a flag next to each
four bytes: NCCL, `prims_ll.h`."""


def in_node_terms(variant: str) -> tuple[Term, ...]:
    """Return the terms of a collective of a library."""
    host = (HOST,) if variant in ISSUED else ()
    return (*IN_NODE, *_quick_terms(variant), *host)


def _quick_terms(variant: str) -> tuple[Term, ...]:
    """Return the terms of the path of small buffers.

    Flags take half of a rate; 3 us are assumed.  Medians over fitted accelerators are 0.39 and 7 us
    of NCCL, 0.93 and 4 us of engines.
    """
    if variant != LIBRARY and not variant.startswith(OWN):
        return ()
    share = 0.5 if variant == LIBRARY else 1.0
    return (
        Term("quick", share, 0.7, 0.02, 20),
        Term("second", 3.0e-6, 1.2, 1e-8, 1e-3, "s"),
    )


def in_node_seconds(
    device: Accelerator, shapes: Shapes, variant: str, values: Values, *, passes: int
) -> Array:
    """Return the times of collectives on `devices` of a node [s].

    Parameters
    ----------
    passes : 2 of an all-reduce, whose buffer goes round twice, else 1
    """
    devices, nbytes = shapes["devices"], shapes["bytes"]
    start, moving = transfer_parts(devices, nbytes, variant, values, passes=passes)
    seconds = np.asarray(start + moving)
    if variant not in ISSUED:
        return seconds
    return at_least_host(seconds, values)


def transfer_parts(
    devices: Amount, nbytes: Amount, variant: str, values: Values, *, passes: int
) -> tuple[Amount, Amount]:
    """Return the start of collectives on `devices` of a node, and the time of their bytes [s]."""
    rate = _rate(devices, values)
    x = passes * (devices - 1) / devices * nbytes / rate
    moving = x + 2 * np.sqrt(values["piece"] * (devices - 1) * x)
    if "quick" in values:
        quick = (devices - 1) * nbytes / rate if variant.startswith(OWN) else x
        moving = np.minimum(quick / values["quick"], values["second"] + moving)
    return values["base"] + values["hop"] * (devices - 1), moving


def _rate(devices: Amount, values: Values) -> Amount:
    """Return the bus bandwidth of `devices` of a node [B/s]."""
    rate: Amount = values["rate"] * values["growth"] ** np.log2(devices / 4)
    return rate * values["pair"] ** (devices == 2)


def _surface(seconds: Callable[[Accelerator, Shapes, str, Values], Array]) -> Surface:
    return Surface(("devices", "bytes"), in_node_terms, seconds)


TWICE: Final = _surface(partial(in_node_seconds, passes=2))
"""All-reduce."""

ONCE: Final = _surface(partial(in_node_seconds, passes=1))
"""All-gather, reduce-scatter and all-to-all."""
