r"""Fused attention of many queries: a tile of 128 queries of a head on each compute unit.

    t = launch + smooth maximum of (waves of tiles, bytes)

Short sequences fill a tile in part, and each tile costs a time of its own, whatever its keys.
"""

from typing import Final

import numpy as np

from clustersim.cost.surfaces.surface import Array, Shapes, Surface, Term, Values, smooth_maximum
from clustersim.topology.accelerator import Accelerator

QUERIES: Final = 128
"""Queries of a tile: Dao 2023, arXiv:2307.08691, section 3.3."""

KEYS: Final = 64
"""Keys of a block of the inner loop, the smaller of the two that the same section names."""

_MOST_ROUNDED: Final = 8
"""Waves up to which the last one is counted whole; in more of them units drift apart."""

TERMS: Final = (
    Term("launch", 13.0e-6, 0.6, 1e-7, 1e-3, "s"),
    Term("best", 0.45, 0.4, 0.01, 1.2),
    Term("head_half", 60, 0.7, 1, 600),
    Term("memory", 0.30, 0.5, 0.02, 1.2),
    Term("sharpness", 0.6, 0.6, 0.05, 20),
    Term("tile", 2.3e-6, 0.8, 1e-8, 1e-4, "s"),
)
"""`best` is the share of peak with heads of 128, `head_half` as of `flash_attention` in the files
of accelerators, `tile` the time of a tile without keys."""

PRECISIONS: Final = {"bf16": ("bf16", 2.0), "fp8": ("fp8", 1.0)}
"""Peak and size [B] of queries, and size of cached keys and values, by the name of a format."""


def query_peak(variant: str) -> str:
    """Return the peak of attention in formats ``queries/keys``."""
    return PRECISIONS[variant.partition("/")[0]][0]


def prefill_terms(variant: str) -> tuple[Term, ...]:
    """Return the terms of attention in formats ``queries/keys``, such as ``bf16/fp8``."""
    return TERMS


def prefill_seconds(device: Accelerator, shapes: Shapes, variant: str, values: Values) -> Array:
    """Return the times of causal attention of the last `queries` of `keys` tokens [s]."""
    (precision, width), (_, stored) = (PRECISIONS[name] for name in variant.split("/"))
    batch, heads, kv_heads = shapes["batch"], shapes["heads"], shapes["kv_heads"]
    queries, keys = shapes["queries"], shapes["keys"]
    key, value = shapes["key"], shapes["value"]
    head = (key + value) / 2
    blocks = np.ceil(queries / QUERIES)
    seen = blocks * (keys - queries) + QUERIES * blocks * (blocks + 1) / 2
    seen = np.where(blocks == 1, np.ceil(keys / KEYS) * KEYS, seen)
    half = values["head_half"]
    share = values["best"] * head / (head + half) * (128 + half) / 128
    tiles = batch * heads * blocks
    flops = 2 * batch * heads * (key + value) * QUERIES * seen
    waves = tiles / device.compute_units
    work = flops / (device.peak_rate(precision) * share) + waves * values["tile"]
    work = work * np.where(waves < _MOST_ROUNDED, np.ceil(waves) / waves, 1.0)
    moved = (
        batch * heads * queries * (width * key + 2 * value)
        + stored * batch * kv_heads * keys * (key + value)
    ) / (device.memory_bandwidth * values["memory"])
    return values["launch"] + smooth_maximum(work, moved, values["sharpness"])


PREFILL: Final = Surface(
    ("batch", "heads", "kv_heads", "key", "value", "queries", "keys"),
    prefill_terms,
    prefill_seconds,
    query_peak,
)
"""Attention of many queries; `key` and `value` are widths of a head."""
