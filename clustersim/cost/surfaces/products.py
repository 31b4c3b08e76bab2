r"""Matrix products.

    t = launch + smooth maximum of (waves of tiles, loads of a unit, bytes)
        + depth (part of k / 4096) + sum of parts + conversion

The library picks the tile, and the number of parts of k, that finish first.  A compute unit loads
the operands of its tile at no more than a rate of its own, `unit`, so that few tiles do not reach
the bandwidth of memory, and small ones, which load more for each product, not the peak.  A product
too small to fill the device is limited by the chain of loads along its part of k, whatever its
bytes: `depth`.  Parts are added at the end, which takes a time of its own: `split`.

Benchmarks add the start of a CUDA graph, which holds one product or a few: `graph`.  The device
is as hot as the products in a row that they measure have made it: `heat`.
"""

from typing import Final, NamedTuple

import numpy as np

from clustersim.cost.surfaces.formats import FORMATS, NumberFormat, format_peak
from clustersim.cost.surfaces.surface import (
    HOST,
    Array,
    Shapes,
    Surface,
    Term,
    Values,
    issued_seconds,
    smooth_maximum,
    warmed,
)
from clustersim.topology.accelerator import Accelerator

assumed_tiles: Final = (
    (256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (64, 32), (32, 64),
)  # fmt: skip
"""Rows and columns of the tiles of the libraries; assumed, as in the files of accelerators."""

assumed_parts: Final = (1, 2, 3, 4, 6, 8, 16, 32)
"""Parts of k that are computed apart and added, where there are too few tiles; assumed."""

assumed_whole: Final = frozenset({"fp8-block", "nvfp4"})
"""Formats whose kernels do not divide k: DeepGEMM's and CUTLASS's as TensorRT-LLM calls them; with
parts, products of few tiles and large k are predicted a quarter to a half too fast."""

MOST_COPIES: Final = 5
"""Most products in a graph of a benchmark that rotates weights: ai-dynamo/aiconfigurator,
``collector/trtllm/collect_gemm.py``, one for each copy of the weights, as many as exceed the cache
together."""

TERMS: Final = (
    Term("launch", 2.4e-6, 0.7, 1e-7, 1e-3, "s"),
    Term("best", 0.83, 0.18, 0.02, 1.0),
    Term("inner_half", 165, 0.7, 4, 4000),
    Term("memory", 0.84, 0.10, 0.02, 1.1),
    Term("sharpness", 4.3, 0.3, 0.5, 20),
    Term("unit", 200e9, 1.0, 2e9, 1e12, "B/s"),
    Term("heat", 0.22, 0.5, 0.005, 2),
    Term("depth", 1.6e-6, 0.75, 1e-8, 1e-4, "s"),
    Term("split", 1.6e-6, 0.7, 1e-9, 1e-4, "s"),
    Term("graph", 3.2e-6, 0.5, 1e-8, 1e-3, "s"),
    HOST,
)
"""`best` and `memory` are shares of peak and bandwidth, `inner_half` the depth of which the start
of a tile takes the time, `unit` the rate at which a compute unit loads the operands of its tile,
`depth` the time of a chain of loads along 4,096 of a part of k, beyond that of its bytes."""

CONVERSION: Final = (
    Term("launch", 6.0e-6, 0.7, 1e-7, 1e-3, "s"),
    TERMS[1],
    Term("inner_half", 500, 0.7, 4, 4000),
    *TERMS[3:],
    Term("conversion", 5.0, 0.8, 0.05, 200),
    Term("row", 20e-9, 1.5, 1e-10, 1e-5, "s"),
)
"""The same of quantised activations; `conversion` is bytes that each of them moves before, and
`row` the time of each row of them on one compute unit."""


class Roof(NamedTuple):
    """What limits products on a device.

    Attributes
    ----------
    peak, bandwidth : of the device, at its clock [FLOP/s], [B/s]
    units : compute units
    activation, weight : size of a number of either operand [B]
    clock : relative to that as specified, which the loads of a unit follow
    """

    peak: float
    bandwidth: float
    units: int
    activation: float
    weight: float
    clock: float


def product_terms(variant: str) -> tuple[Term, ...]:
    """Return the terms of products in a number format."""
    return CONVERSION if FORMATS[variant].quantised else TERMS


def product_seconds(device: Accelerator, shapes: Shapes, variant: str, values: Values) -> Array:
    r"""Return the times of batches of products of (m, k) and (k, n) [s], operands in memory.

    .. math:: \left\lceil \frac{b p \lceil m/r \rceil \lceil n/c \rceil}{U}
              \right\rceil \max\left(\frac{2 r c (k/p + k_{1/2}) U}{R e},
            \frac{(w_a \min(r, m) + w_b \min(c, n)) k/p}{u}\right)

    is the time of the tiles, with b products in the batch, r, c rows and columns of a tile, p
    parts of k, U compute units, R e the reached peak, w the sizes of numbers and u the rate at
    which a unit loads; the maximum is smooth.  Parts are written and added in 32 bits.
    Of all r, c and p, those with the shortest whole time are taken.
    Added is the conversion of activations, where the format has one.

    Parameters
    ----------
    shapes : `result` are the bytes that each number of the result moves, more than its own where
        it is added to one in memory; `rotated` is 1 in a benchmark whose graphs have a product for
        each copy of the weights, else 0; `repeats` are the products in a row, or graphs of them;
        `issued` as of `issued_seconds`
    """
    form = FORMATS[variant]
    roof = roof_of(device, form, device.peak_rate(form.peak))
    copies = _copies(device, shapes, form)
    divided = variant not in assumed_whole
    seconds = warm_seconds(roof, form, shapes, values, copies, divided=divided)
    return issued_seconds(seconds, shapes, values)


def roof_of(device: Accelerator, form: NumberFormat, peak: float) -> Roof:
    """Return what limits products of a number format on a device.

    Parameters
    ----------
    peak : rate of the products [FLOP/s]
    """
    return Roof(
        peak,
        device.memory_bandwidth,
        device.compute_units,
        form.activation,
        form.weight,
        device.clock,
    )


def warm_seconds(
    roof: Roof,
    form: NumberFormat,
    shapes: Shapes,
    values: Values,
    copies: Array | float = 1.0,
    *,
    divided: bool = True,
) -> Array:
    """Return the times of products on a device as warm as they make it [s].

    Parameters
    ----------
    copies : of the weights that a benchmark rotates
    divided : whether the library divides k
    """
    work, cold = cold_seconds(roof, shapes, values, divided=divided)
    seconds = values["launch"] + cold + values["graph"] * shapes["rotated"] / copies
    if form.quantised:
        converted = shapes["batch"] * shapes["m"] * shapes["k"]
        rows = shapes["batch"] * shapes["m"] * values["row"] / roof.units
        seconds = seconds + values["conversion"] * converted / roof.bandwidth + rows
    products = shapes["repeats"] * np.where(shapes["rotated"] > 0, copies, 1.0)
    return warmed(seconds, work * products, values["heat"])


def cold_seconds(
    roof: Roof, shapes: Shapes, values: Values, *, divided: bool = True
) -> tuple[Array, Array]:
    """Return the times of tiles, and of whole products on a cool device without launch [s].

    Parameters
    ----------
    divided : whether the library divides k
    """
    batch, m, n, k = (shapes[name] for name in ("batch", *"mnk"))
    rows, columns, parts = _CANDIDATES if divided else _WHOLE
    bandwidth = roof.bandwidth * values["memory"]
    peak = roof.peak * values["best"]
    waves = np.ceil(batch * np.ceil(m / rows) * np.ceil(n / columns) * parts / roof.units)
    flops = 2 * rows * columns * (k / parts + values["inner_half"])
    tiles = waves * flops * roof.units / peak
    edge = roof.activation * np.minimum(rows, m) + roof.weight * np.minimum(columns, n)
    loads = waves * edge * (k / parts) / (values["unit"] * roof.clock)
    written = 2 * 4 * parts * batch * m * n / bandwidth
    added = np.where(parts > 1, written + values["split"], 0.0)
    numbers = roof.activation * m * k + roof.weight * n * k + shapes["result"] * m * n
    moved = np.broadcast_to(batch * numbers / bandwidth, tiles.shape)
    chain = values["depth"] * (k / parts) / 4096
    sharpness = values["sharpness"]
    whole = smooth_maximum(smooth_maximum(tiles, loads, sharpness), moved, sharpness)
    whole = whole + chain + added
    return (tiles + added).min(axis=0), whole.min(axis=0)


def _copies(device: Accelerator, shapes: Shapes, form: NumberFormat) -> Array:
    """Return the copies of weights that a benchmark rotates, as many as exceed the cache."""
    if device.cache is None:
        return np.full_like(shapes["m"], MOST_COPIES)
    number = round(2 * form.weight) / 2  # without its share of a scale
    copies: Array = np.ceil(device.cache / (number * shapes["n"] * shapes["k"]))
    return np.clip(copies, 1, MOST_COPIES)


_CANDIDATES: Final = np.array(
    [(rows, columns, parts) for rows, columns in assumed_tiles for parts in assumed_parts],
    dtype=float,
).T[:, :, None]

_WHOLE: Final = np.array([(*tile, 1) for tile in assumed_tiles], dtype=float).T[:, :, None]

PRODUCTS: Final = Surface(
    ("batch", "m", "n", "k", "result", "rotated", "repeats", "issued"),
    product_terms,
    product_seconds,
    format_peak,
)
"""Products of the same shape, one or several."""
