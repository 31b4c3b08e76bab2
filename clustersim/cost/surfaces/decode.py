r"""Fused attention of one query for each sequence, which reads all its keys and values.

    t = launch + depth sqrt(keys / 4096) + smooth maximum of (tiles and products, bytes)

Query heads that share keys are packed in a tile, up to a number of them; where there are more, each
query head reads the keys again, from the cache.  The keys of a tile are divided among a number of
compute units, each of which has a rate of its own.

Benchmarks repeat a call with the same keys, which short caches keep in that of the device.
"""

from typing import Final

import numpy as np

from clustersim.cost.surfaces.prefill import PRECISIONS, query_peak
from clustersim.cost.surfaces.surface import (
    HOST,
    Array,
    Shapes,
    Surface,
    Term,
    Values,
    held_share,
    issued_seconds,
    smooth_maximum,
)
from clustersim.topology.accelerator import Accelerator

assumed_packed: Final = 32
"""Most query heads in a tile, which fits tables of TensorRT-LLM on nine accelerators better than 16
and 64: kernels of larger groups are several times slower."""

assumed_group: Final = 16
"""Most query heads of a small group; tensor cores multiply 16 rows at once."""

TERMS: Final = (
    Term("launch", 9.0e-6, 0.6, 1e-7, 1e-3, "s"),
    Term("memory", 0.95, 0.15, 0.05, 1.5),
    Term("best", 0.25, 0.7, 0.01, 1.2),
    Term("sharpness", 3.0, 0.4, 0.1, 20),
    Term("tile", 1.3e-6, 0.5, 1e-8, 1e-4, "s"),
    Term("row", 0.05e-6, 1.0, 1e-10, 1e-5, "s"),
    Term("depth", 2.5e-6, 0.8, 1e-8, 1e-3, "s"),
    Term("cache", 1.6, 0.6, 0.3, 30),
    Term("single", 1.0, 0.3, 0.1, 1.3),
    Term("single_launch", 1.0, 0.3, 0.3, 5),
    Term("width", 0.2, 1.0, 0.001, 0.9),
    Term("group_launch", 1.1, 0.3, 0.3, 5),
    Term("unit", 8.0, 1.2, 0.05, 100),
    Term("parts", 10.0, 1.5, 1.0, 1000),
    Term("kept", 0.75, 0.3, 0.1, 1.5),
    Term("hot", 2.5, 0.7, 1.0, 30),
    HOST,
)
"""`tile` is the time of a tile and `row` that of each query head in it, on one compute unit;
`width` is the part of it that grows with the width of a head.  `cache` is the rate of keys read
again, over that of memory.  `single` and `single_launch` are the rate of memory and the launch
where heads share no keys, over the others: libraries have another kernel for these.
`group_launch` is the launch of large groups over that of small ones.
`unit` is the rate at which a compute unit reads keys, over its share of the bandwidth of memory,
and `parts` the most units among which the keys of a tile are divided: 1 where the library has no
such kernel for a format.  `kept` is the share of the cache that holds keys which are read again by
the next call of a benchmark, and `hot` its rate over that of memory."""


def decode_seconds(device: Accelerator, shapes: Shapes, variant: str, values: Values) -> Array:
    """Return the times of attention of one query over `keys` cached tokens [s]."""
    (precision, _), (_, stored) = (PRECISIONS[name] for name in variant.split("/"))
    batch, heads, kv_heads = shapes["batch"], shapes["heads"], shapes["kv_heads"]
    keys = shapes["keys"]
    packed = heads / kv_heads <= shapes["packed"]
    tiles = batch * np.where(packed, kv_heads, heads)
    rows = np.where(packed, batch * heads, 0.0)
    wider = 1 + values["width"] * (shapes["key"] / 128 - 1)
    start = (tiles * values["tile"] * wider + rows * values["row"]) / device.compute_units
    alone = heads == kv_heads
    share = np.where(alone, values["single"], 1.0)
    bandwidth = device.memory_bandwidth * values["memory"] * share
    large = np.where(heads > assumed_group * kv_heads, values["group_launch"], 1.0)
    launch = values["launch"] * np.where(alone, values["single_launch"], large)
    nbytes = stored * batch * keys * shapes["read"]
    reread = np.where(packed, 0.0, nbytes * heads / (bandwidth * values["cache"]))
    flops = 2 * batch * heads * (shapes["key"] + shapes["value"]) * keys
    total = nbytes * kv_heads
    units = np.minimum(tiles * values["parts"], device.compute_units) * values["unit"]
    reading = total * device.compute_units / (units * device.memory_bandwidth)
    work = np.maximum(flops / (device.peak_rate(precision) * values["best"]), reread)
    work = np.maximum(work, reading)
    held = shapes["repeated"] * held_share(device, total, values["kept"])
    moved = total * (1 - held + held / values["hot"]) / bandwidth
    chain = values["depth"] * np.sqrt(keys / 4096)
    read = smooth_maximum(start + work, moved, values["sharpness"])
    return issued_seconds(launch + chain + read, shapes, values)


DECODE: Final = Surface(
    ("batch", "heads", "kv_heads", "key", "value", "read", "packed", "keys", "repeated", "issued"),
    lambda variant: TERMS,
    decode_seconds,
    query_peak,
)
"""Attention of one query; `read` are the numbers of a cached token and head, `packed` the most
query heads in a tile, `repeated` is 1 in a benchmark that reads the same keys again, else 0, and
`issued` as of `issued_seconds`."""
