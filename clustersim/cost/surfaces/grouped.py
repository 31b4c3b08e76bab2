r"""Products of experts: one for each expert, over the tokens that are routed to it.

    t = launch + experts + tokens moved + idle tiles + smooth maximum of (waves of tiles, bytes)

Tokens of an expert fill tiles of their own.  Experts without tokens are not read.  All tokens of
the devices that share the experts are prepared and summed on each, wherever they are routed.
Kernels of 4-bit weights are launched for the worst routing, and most of their tiles have no rows.
Others multiply the rows of all tokens, wherever these are routed.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from clustersim.cost.surfaces.formats import FORMATS, OUTPUT, format_peak
from clustersim.cost.surfaces.surface import Array, Shapes, Surface, Term, Values, smooth_maximum
from clustersim.topology.accelerator import Accelerator

ROWS: Final = (8, 16, 32, 64, 128, 256)
"""Tokens of a tile, from which the library chooses."""

assumed_columns: Final = 128
"""Columns of a tile; assumed."""

assumed_least_rows: Final = 64
"""Rows of a tile of full speed: tensor cores multiply no fewer at once; assumed."""

assumed_idle: Final = 0.5
"""Time of a tile without tokens in kernels that fill tiles, over that of one with tokens: its
operands come from the level-2 cache, 19 MB for each expert of two devices of Qwen3 235B at 5.5 TB/s
on an H200, and are not multiplied.  Assumed, and chosen by 14 runs of vLLM 0.12 with that model:
their time per token is 10 % off in the median with 0.5, 15 % with 0.25 and 25 % with 0."""

_MOST_ROUNDED: Final = 6
"""Waves up to which the last one is counted whole."""

TERMS: Final = (
    Term("launch", 25.0e-6, 0.7, 1e-7, 1e-3, "s"),
    Term("best", 0.70, 0.35, 0.02, 1.4),
    Term("inner_half", 120, 0.5, 4, 4000),
    Term("memory", 0.78, 0.30, 0.02, 1.2),
    Term("sharpness", 2.0, 0.4, 0.1, 20),
    Term("moved", 11.0, 1.0, 0.05, 1000),
    Term("shared", 11.0, 1.0, 0.01, 1000),
    Term("expert", 0.06e-6, 1.0, 1e-10, 1e-5, "s"),
    Term("entry", 0.5e-9, 1.0, 1e-12, 1e-6, "s"),
)
"""`moved` are bytes that each number of a routed token moves next to the products: conversion,
permutation and sum; `shared` the same of each token of the devices that share the experts, routed
here or not; `expert` is the time of each expert of the device, and `entry` that of each expert of
each token, whose rows are sorted by expert."""

WORST_CASE: Final = frozenset({"nvfp4", "mxfp4-mxfp8", "mxfp4-weights"})
"""Formats whose kernels are launched for the most tiles that any routing could need, because the
tokens of an expert are only on the device: `getMaxNumCtasInBatchDim` of TensorRT-LLM and
FlashInfer."""

IDLE: Final = Term("idle", 0.2e-6, 1.0, 1e-9, 1e-5, "s")
"""Time of a launched tile without tokens, on one compute unit."""

_LAUNCHED_ROWS: Final = (8, 64)
"""Fewest and most rows of such tiles: the tokens of an expert in the mean, to a power of 2."""

ALL_ROWS: Final = frozenset({("fp8-block", "12")})
"""Formats, and major compute capabilities, whose kernels also multiply the rows of tokens that are
routed to other devices: with 16,384 tokens and eight experts for each, TensorRT-LLM 1.3 on an RTX
PRO 6000 takes 5.4 times the products of 131,072 rows at peak where 1,024 of them are routed to the
device, and 5.3 times where all are.  On Hopper, and on Blackwell of capability 10, it multiplies
only its own."""

ALONE: Final = (
    Term("launch", 8.0e-6, 0.7, 1e-7, 1e-3, "s"),
    Term("best", 0.85, 0.3, 0.02, 1.4),
    *TERMS[2:5],
    Term("moved", 7.0, 0.8, 0.05, 1000),
    Term("expert", 0.1e-6, 1.0, 1e-10, 1e-5, "s"),
)
"""The same of a product alone, from permuted tokens."""


def expert_terms(variant: str) -> tuple[Term, ...]:
    """Return the terms of both layers of experts in a number format."""
    return (*TERMS, IDLE) if variant in WORST_CASE else TERMS


def tile_counts(loads: Sequence[float]) -> dict[str, float]:
    """Return the columns of shapes that describe the tokens of each expert of a device.

    >>> tile_counts([3, 0, 20])
    {'routed': 23, 'active': 2, 'local': 3, 'tiles8': 4, 'tiles16': 3, 'tiles32': 2, 'tiles64': 2, \
'tiles128': 2, 'tiles256': 2}
    """
    tiles = {f"tiles{rows}": sum(-int(-load // rows) for load in loads) for rows in ROWS}
    active = sum(load > 0 for load in loads)
    return {"routed": sum(loads), "active": active, "local": len(loads), **tiles}


def filled_tiles(tiles: Mapping[str, Array], rows: int) -> dict[str, Array]:
    """Return the columns of experts whose tokens are filled up to whole tiles of some rows.

    The host launches tiles for as many as any routing could need; those without tokens load their
    operands and multiply nothing.

    >>> float(filled_tiles(tile_counts([64, 0, 1]), 64)["tiles64"])  # of 3.97 launched, 2 have any
    2.984375
    """
    filled = tiles[f"tiles{rows}"]
    launched = (tiles["routed"] + (rows - 1) * tiles["local"]) / rows
    least = filled + assumed_idle * np.maximum(0.0, launched - filled)
    smaller = {f"tiles{each}": least * rows / each for each in ROWS if each <= rows}
    return {**tiles, **smaller}


def expert_seconds(device: Accelerator, shapes: Shapes, variant: str, values: Values) -> Array:
    """Return the times of both layers of experts [s].

    Parameters
    ----------
    shapes : `tokens` of all devices that share the experts, the number of `experts` on them,
        `entries`, one for each expert of each token, widths `hidden` and `inner`, and `gated`, 1
        where the first layer has a gate and 0 where not
    """
    hidden, inner = shapes["hidden"], shapes["inner"]
    form = FORMATS[variant]
    up = (1 + shapes["gated"]) * inner
    layers = ((up, hidden), (hidden, inner))
    between = form.activation * inner + OUTPUT * (up + hidden)
    shared = values["shared"] * shapes["tokens"] * hidden / device.memory_bandwidth
    start = shared + values["entry"] * shapes["entries"]
    if variant in WORST_CASE:
        columns = sum(np.ceil(n / assumed_columns) for n, _ in layers)
        start = start + values["idle"] * idle_tiles(shapes) * columns / device.compute_units
    if (variant, device.major_capability) in ALL_ROWS:
        shapes = {**shapes, **_all_tiles(shapes)}
    return start + _grouped(device, shapes, variant, values, layers, between)


def _all_tiles(shapes: Shapes) -> dict[str, Array]:
    """Return the tiles of all entries, those routed to other devices in full tiles."""
    elsewhere = shapes["entries"] - shapes["routed"]
    return {f"tiles{rows}": shapes[f"tiles{rows}"] + elsewhere / rows for rows in ROWS}


def idle_tiles(shapes: Shapes) -> Array:
    r"""Return the tiles of rows without tokens, of a launch for the worst case.

    .. math:: \min(X, E) + \max(0, X - E) / r - X_{local} / r

    with X the entries, E the experts of all devices and r the rows of a tile: each expert has one
    token, and all others are those of one expert.
    """
    entries, experts = shapes["entries"], shapes["experts"]
    mean = np.maximum(entries / experts, 1.0)
    rows = np.clip(2 ** np.ceil(np.log2(mean)), *_LAUNCHED_ROWS)
    spread = np.minimum(entries, experts)
    idle: Array = np.maximum(spread + (entries - spread - shapes["routed"]) / rows, 0.0)
    return idle


def grouped_seconds(device: Accelerator, shapes: Shapes, variant: str, values: Values) -> Array:
    """Return the times of one product (m, k) and (k, n) for each expert [s]."""
    n, k = shapes["n"], shapes["k"]
    return _grouped(device, {**shapes, "hidden": k}, variant, values, ((n, k),), OUTPUT * n)


def _grouped(
    device: Accelerator,
    shapes: Shapes,
    variant: str,
    values: Values,
    layers: Sequence[tuple[Array, Array]],
    between: Array,
) -> Array:
    """Return the times of some layers.

    Parameters
    ----------
    layers : columns and depth of the weights of each
    between : bytes that a routed token moves in addition to its `hidden` numbers
    """
    form = FORMATS[variant]
    routed, hidden = shapes["routed"], shapes["hidden"]
    bandwidth = device.memory_bandwidth * values["memory"]
    units = device.compute_units
    peak = device.peak_rate(form.peak) * values["best"]
    candidates = []
    for rows in ROWS:
        seconds = np.zeros_like(routed)
        for n, k in layers:
            waves = shapes[f"tiles{rows}"] * np.ceil(n / assumed_columns) / units
            waves = np.where(waves < _MOST_ROUNDED, np.ceil(waves), waves)
            flops = 2 * max(rows, assumed_least_rows) * assumed_columns * (k + values["inner_half"])
            seconds = seconds + waves * flops * units / peak
        candidates.append(seconds)
    work: Array = np.min(candidates, axis=0)
    weights = form.weight * shapes["active"] * sum(n * k for n, k in layers)
    moved = (weights + routed * (form.activation * hidden + between)) / bandwidth
    tokens = values["moved"] * routed * hidden / device.memory_bandwidth
    start = values["launch"] + values["expert"] * shapes["local"]
    return start + tokens + smooth_maximum(work, moved, values["sharpness"])


_TILES: Final = ("routed", "active", "local", *(f"tiles{rows}" for rows in ROWS))

EXPERTS: Final = Surface(
    (*_TILES, "tokens", "entries", "experts", "hidden", "inner", "gated"),
    expert_terms,
    expert_seconds,
    format_peak,
)
"""Both layers of the experts of a device, from routed tokens to their weighted sum; `tokens` are
those of all devices that share the experts."""

GROUPED: Final = Surface((*_TILES, "n", "k"), lambda variant: ALONE, grouped_seconds, format_peak)
"""One product for each expert."""
