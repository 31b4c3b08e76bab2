r"""Fused attention of many queries: a tile of queries of a head on each compute unit.

    t = launch + preparation + smooth maximum of (waves of tiles, bytes)

Short sequences fill a tile in part, and each tile costs a time of its own, whatever its keys.  The
last queries of a sequence attend to all its keys, so that few tiles take as long as theirs.
Preparation is the rotation of queries and keys and the write of keys and values into the cache,
where these belong to the kernel.  What a kernel of this size has just written is in the cache of
the device.
"""

from typing import Final

import numpy as np

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

QUERIES: Final = 128
"""Queries of a tile: Dao 2023, arXiv:2307.08691, section 3.3."""

KEYS: Final = 64
"""Keys of a block of the inner loop, the smaller of the two that the same section names."""

_REGISTERS: Final = frozenset({"8", "12"})
"""Major compute capabilities whose tensor cores add in the registers of four warps; 9.x and 10.x
have instructions for groups of warps, and memory for their sums."""

_THREADS: Final = 128
"""Threads of a tile of these: TensorRT-LLM, ``cpp/kernels/fmha_v2/setup.py``, ``warps_m``."""

_XE: Final = frozenset({"xe2"})
"""Generations of Intel's devices, with tiles of their own; they add in registers, too, and convert
keys and values of 8 bits there to the 16 of queries."""

_XE_STEP: Final = 32
"""Keys of a step of these: vllm-project/vllm-xpu-kernels, ``csrc/xpu/attn/xe_2/fmha_utils.hpp``,
``ShapeQK``."""

assumed_registers: Final = 128
"""Sums of a thread, of its 255 registers, above which others are spilled; assumed."""

_MOST_ROUNDED: Final = 8
"""Waves up to which the last one is counted whole; in more of them units drift apart."""

TERMS: Final = (
    Term("launch", 13.0e-6, 0.6, 1e-7, 1e-3, "s"),
    Term("best", 0.45, 0.4, 0.01, 1.2),
    Term("head_half", 60, 0.7, 1, 600),
    Term("memory", 0.78, 0.3, 0.02, 1.2),
    Term("sharpness", 1.5, 0.6, 0.05, 20),
    Term("tile", 2.1e-6, 0.8, 1e-8, 1e-4, "s"),
    Term("preparation", 1.5, 0.3, 0.02, 10),
    Term("spilled", 0.37, 0.5, 0.05, 1.2),
    Term("kept", 0.8, 0.3, 0.1, 1.5),
    Term("hot", 1.2, 0.7, 1.0, 30),
    HOST,
)
"""`best` is the share of peak with heads of 128, `head_half` as of `flash_attention` in the files
of accelerators, `tile` the time of a tile without keys.  `preparation` is the traffic of rotation
and cache over that of attention, `spilled` the rate of tiles whose sums exceed the registers over
that of others, `kept` the share of the cache that holds what was just written, and `hot` its rate
over that of memory."""

PRECISIONS: Final = {"bf16": ("bf16", 2.0), "fp16": ("fp16", 2.0), "fp8": ("fp8", 1.0)}
"""Peak and size [B] of queries, and size of cached keys and values, by the name of a format."""


def query_peak(variant: str) -> str:
    """Return the peak of attention in formats ``queries/keys``."""
    return PRECISIONS[variant.partition("/")[0]][0]


def prefill_seconds(device: Accelerator, shapes: Shapes, variant: str, values: Values) -> Array:
    """Return the times of causal attention of the last `queries` of `keys` tokens [s].

    Parameters
    ----------
    shapes : `key` and `value` are widths of a head; `prepared` is 1 where rotation and the write
        into the cache are part of the kernel, else 0, and `issued` as of `issued_seconds`
    """
    (precision, _), (_, stored) = (PRECISIONS[name] for name in variant.split("/"))
    batch, heads, kv_heads = shapes["batch"], shapes["heads"], shapes["kv_heads"]
    queries, keys, width = shapes["queries"], shapes["keys"], shapes["key"] + shapes["value"]
    new = batch * queries * width * (2 * heads + stored * kv_heads)
    old = batch * (keys - queries) * width * stored * kv_heads
    held = held_share(device, new, values["kept"])
    bandwidth = device.memory_bandwidth * values["memory"]
    fresh = new * (1 - held + held / values["hot"]) / bandwidth
    preparation = shapes["prepared"] * values["preparation"] * fresh
    narrow = precision == "fp8" or (stored < 2 and device.major_capability in _XE)
    work = _tile_seconds(device, shapes, precision, values, narrow=narrow)
    attended = smooth_maximum(work, fresh + old / bandwidth, values["sharpness"])
    return issued_seconds(values["launch"] + preparation + attended, shapes, values)


def _tile_seconds(
    device: Accelerator, shapes: Shapes, precision: str, values: Values, *, narrow: bool
) -> Array:
    """Return the times of the tiles [s]: of their waves, at least that of the longest one.

    Parameters
    ----------
    narrow : whether operands of 8 bits are in registers next to the sums
    """
    queries, keys = shapes["queries"], shapes["keys"]
    head = (shapes["key"] + shapes["value"]) / 2
    rows, step = _tile(device, precision, head)
    blocks = np.ceil(queries / rows)
    whole = np.ceil(keys / step) * step
    seen = blocks * (keys - queries) + rows * blocks * (blocks + 1) / 2
    seen = np.where(blocks == 1, whole, seen)
    half = values["head_half"]
    share = values["best"] * head / (head + half) * (128 + half) / 128
    if narrow:
        spills = _sums(device, rows, step, head) > assumed_registers
        share = share * np.where(spills, values["spilled"], 1.0)
    key_seconds = 4 * head * rows * device.compute_units / (device.peak_rate(precision) * share)
    sequences = shapes["batch"] * shapes["heads"]
    waves = sequences * blocks / device.compute_units
    work = sequences * seen * key_seconds / device.compute_units + waves * values["tile"]
    work = work * np.where(waves < _MOST_ROUNDED, np.ceil(waves) / waves, 1.0)
    longest: Array = whole * key_seconds + values["tile"]
    return np.maximum(work, longest)


def tile_of_length(device: Accelerator, precision: str, best: float, half: float) -> float:
    r"""Return the time of a tile by the length of sequences at half of the rate [s].

    .. math:: \frac{(s_{1/2} - r) \cdot 4 \cdot 128 r U}{2 e R}

    with r queries of a tile, U compute units and the reached peak e R: a tile sees half of the
    keys of a sequence and of its own, which the mask hides in part.

    Parameters
    ----------
    best : share of peak on long sequences
    half : length of sequences that are computed at half of that [tokens]
    """
    rows = float(_tile(device, precision, np.array(128.0))[0])
    key_seconds = 4 * 128 * rows * device.compute_units / (device.peak_rate(precision) * best)
    return max(half - rows, 0.0) * key_seconds / 2


def _in_registers(device: Accelerator) -> bool:
    """Whether tensor cores add in the registers of four warps."""
    return device.major_capability in _REGISTERS


def _sums(device: Accelerator, rows: Array, step: Array, head: Array) -> Array:
    """Return the sums of a tile in the registers of a thread.

    Each lane of Intel's subgroups, of 16 rows and 16 lanes, has those of a row.
    """
    if device.major_capability in _XE:
        return step + head
    return rows * (step + head) / _THREADS if _in_registers(device) else np.zeros_like(head)


def _tile(device: Accelerator, precision: str, head: Array) -> tuple[Array, Array]:
    """Return the queries of a tile and the keys of a step, by the width of a head.

    Of TensorRT-LLM, ``cpp/kernels/fmha_v2/setup.py`` (``enumerate_hmma_flash_kernels_base``,
    ``enumerate_qmma_flash_kernels``), where sums are in registers, and of vLLM on Intel's devices
    (``chunk_policy_head64`` to ``256``).
    """
    if device.major_capability in _XE:
        return np.where(head <= 96, 128.0, 256.0), np.full_like(head, _XE_STEP)
    if not _in_registers(device):
        return np.full_like(head, QUERIES), np.full_like(head, KEYS)
    if precision == "fp8":
        return np.where(head <= 64, 128.0, 64.0), np.where(head <= 64, 128.0, 32.0)
    return np.full_like(head, 64.0), np.where(head < 256, 32.0, 128.0)


PREFILL: Final = Surface(
    ("batch", "heads", "kv_heads", "key", "value", "queries", "keys", "prepared", "issued"),
    lambda variant: TERMS,
    prefill_seconds,
    query_peak,
)
"""Attention of many queries; `key` and `value` are widths of a head."""
