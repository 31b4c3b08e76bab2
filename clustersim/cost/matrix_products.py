r"""Time of matrix products on a device, by its measured kernels or by a roofline.

A device with fits of measured kernels has their surface (`cost.surfaces.products`), at the rate
that it sustains: training is never cold.  Others run at

    peak * best * e_tile * e_wave * k / (k + k_half)

where the idle part of the last wave of output tiles, and the part of a tile outside the matrix, are
wasted work, or at the rate of memory if that is lower.
"""

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from clustersim.cost.surfaces.formats import OUTPUT
from clustersim.cost.surfaces.products import PRODUCTS, TERMS, Roof, cold_seconds
from clustersim.topology.accelerator import (
    MEASURED_PRODUCTS,
    Accelerator,
    KernelFits,
    Products,
    Tile,
)
from clustersim.workload.kernels import Gemm


def gemm_seconds(gemm: Gemm, device: Accelerator) -> float:
    """Return the time of a matrix product on the device [s]."""
    if not device.tiles:
        return _measured_seconds(gemm, device) + device.launch_overhead
    rate = gemm.share * _peak(gemm, device) * gemm_efficiency(gemm, device)
    return max(gemm.flops / rate, stream_seconds(gemm.nbytes, device)) + device.launch_overhead


def stream_seconds(nbytes: float, device: Accelerator) -> float:
    """Return the time to move `nbytes` through device memory [s]."""
    return nbytes / (device.memory_bandwidth * device.memory_achieved)


def _peak(gemm: Gemm, device: Accelerator) -> float:
    """Return the peak of a product: that of ragged rows where it has them [FLOP/s]."""
    peak = device.peak_rate(gemm.peak)
    return min(peak, device.gemm_ragged) if gemm.ragged and device.gemm_ragged else peak


# --- measured kernels --------------------------------------------------------------------------


def _measured_seconds(gemm: Gemm, device: Accelerator) -> float:
    """Return the time of a product by the fits of measured kernels [s].

    Formats without a fit have that of 16 bits at their own peak.
    """
    stated = device.narrow_products if gemm.width == 1 else device.products
    peak = _peak(gemm, device)
    roof = Roof(
        gemm.share * peak,
        device.memory_bandwidth,
        device.compute_units,
        gemm.width,
        gemm.width,
        device.clock,
    )
    slower = peak / device.peak_rate(gemm.peak)
    shape = gemm.batch, gemm.m, gemm.n, gemm.k
    return _sustained_seconds(device.fits, gemm.width == 1, stated, roof, slower, shape)


@lru_cache(maxsize=100_000)
def _sustained_seconds(
    fits: tuple[KernelFits, ...],
    narrow: bool,
    stated: Products,
    roof: Roof,
    slower: float,
    shape: tuple[int, int, int, int],
) -> float:
    """Return the time of a product in training [s]: the device is hot, and has no time to cool."""
    terms = measured_terms(fits, narrow=narrow)
    best = terms["best"] if stated.best is None else stated.best
    half = terms["inner_half"] if stated.inner_half is None else stated.inner_half
    values = {**terms, "best": best, "inner_half": half * slower}
    sustained = 1 / (1 + terms["heat"]) if stated.sustained is None else stated.sustained
    columns = (np.array([float(size)]) for size in (*shape, OUTPUT, False, 1))
    shapes = dict(zip(PRODUCTS.columns, columns, strict=True))
    return float(cold_seconds(roof, shapes, values)[1][0]) / sustained


@lru_cache(maxsize=256)
def measured_terms(fits: tuple[KernelFits, ...], *, narrow: bool) -> Mapping[str, float]:
    """Return the terms of products of 8-bit or of wider numbers.

    Formats are looked up in each fit before the next one's.
    """
    priors = {term.name: term.prior for term in TERMS}
    for variant in ("fp8", "bf16", "fp16") if narrow else ("bf16", "fp16"):
        for fit in fits:
            for kind in MEASURED_PRODUCTS:
                if (kind, variant) in fit.found:
                    return {**priors, **fit.found[kind, variant]}
    return priors


# --- roofline ----------------------------------------------------------------------------------


def gemm_efficiency(gemm: Gemm, device: Accelerator) -> float:
    r"""Return the share of peak that a product of this shape reaches, if not limited by memory.

    .. math:: e_{best} \max_{tile} e_{tile} \frac{m n / r c}{\lceil waves \rceil U}
              \frac{k}{k + k_{1/2}}

    with r, c the tile's rows and columns, U = `compute_units` and waves = tiles / U. The library
    picks the best tile. Products of 8-bit numbers may have a rate and a depth of their own. Filling
    the pipeline takes as long at a lower peak, so that k_1/2 shrinks with it.
    """
    wide, narrow = device.products, device.narrow_products
    stated = narrow if gemm.width == 1 else wide
    best = wide.best if stated.best is None else stated.best
    half = wide.inner_half if stated.inner_half is None else stated.inner_half
    assert best is not None  # the record requires both with tiles
    assert half is not None
    shape = max(_tile_share(gemm, tile, device.compute_units) for tile in device.tiles)
    slower = _peak(gemm, device) / device.peak_rate(gemm.peak)
    return best * shape * gemm.k / (gemm.k + half * slower)


def _tile_share(gemm: Gemm, tile: Tile, units: int) -> float:
    """Return useful work over work done, with the waste of edge tiles and the last wave."""
    tiles = gemm.batch * math.ceil(gemm.m / tile.rows) * math.ceil(gemm.n / tile.columns)
    waves = math.ceil(tiles / units)
    useful = gemm.batch * gemm.m * gemm.n / (tile.rows * tile.columns)
    return tile.efficiency * useful / (waves * units)
