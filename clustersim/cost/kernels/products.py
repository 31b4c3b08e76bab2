r"""Time of matrix products, by measured kernels or by tiles.

A device with fits of measured kernels has their surface (`cost.surfaces.products`).  What differs
between a product alone, in training and in an engine is an `Issue`:

               alone               training                        engine
    heat       of its repeats      of a device that is never cold  of assumed repeats
    launch     as measured         between queued kernels          as measured
    operands   converted by it     converted by other kernels      by it, or by the kernel ahead

Devices without measured products run at

    peak * best * e_tile * e_wave * k / (k + k_half)

where the idle part of the last wave of output tiles, and the part of a tile outside the matrix, are
wasted work, or at the rate of memory if that is lower.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from clustersim.cost.kernels.terms import measured_terms
from clustersim.cost.surfaces.formats import FORMATS, OUTPUT, NumberFormat
from clustersim.cost.surfaces.products import (
    PRODUCTS,
    TERMS,
    Roof,
    assumed_whole,
    product_terms,
    roof_of,
    warm_seconds,
)
from clustersim.cost.surfaces.surface import Array, Shapes, Values
from clustersim.topology.accelerator import (
    MEASURED_PRODUCTS,
    Accelerator,
    KernelFits,
    Products,
    Tile,
)
from clustersim.workload.kernels import Gemm

assumed_repeats: Final = 12.0
"""Products of a shape in a row, which heat the device; assumed, as TensorRT-LLM's are measured."""


class Issue(NamedTuple):
    """What differs between a product alone in a benchmark and the same product in a step.

    Attributes
    ----------
    launch : time of its start, beyond its work [s]; None as it was measured
    sustained : its rate over that on a cool device; None where its repeats alone heat the device
    converted : whether other kernels have converted its operands
    """

    launch: float | None = None
    sustained: float | None = None
    converted: bool = False

    def seconds(
        self, roof: Roof, form: NumberFormat, shapes: Shapes, values: Values, *, divided: bool
    ) -> Array:
        """Return the times of products in a step [s], by the terms of a benchmark."""
        values = {**values, **({"conversion": 0.0, "row": 0.0} if self.converted else {})}
        launch = values["launch"] if self.launch is None else self.launch
        if self.sustained is None:
            return warm_seconds(roof, form, shapes, {**values, "launch": launch}, divided=divided)
        cool = {**values, "launch": 0.0, "heat": 0.0}
        return warm_seconds(roof, form, shapes, cool, divided=divided) / self.sustained + launch


def product_shapes(*sizes: Array, repeats: float = assumed_repeats) -> Shapes:
    """Return the columns of products (m, k) and (k, n) in a step.

    Parameters
    ----------
    sizes : number of products in the batch, m, n and k
    repeats : products of a step in a row, which heat the device
    """
    conditions = (OUTPUT, 0.0, repeats, 0.0)
    columns = np.broadcast_arrays(*sizes, *conditions)
    return dict(zip(PRODUCTS.columns, columns, strict=True))


def stated_terms(terms: Values, stated: Products, usual: Values) -> dict[str, float]:
    """Return terms of products on a device whose file states its best product and half depth.

    Both replace those of the accelerator that it is like, in all formats in proportion.

    Parameters
    ----------
    usual : terms of its products of this width in training
    """
    values = dict(terms)
    for name, value in (("best", stated.best), ("inner_half", stated.inner_half)):
        if value is not None and name in terms:
            values[name] *= value / usual[name]
    return values


# --- in an engine -------------------------------------------------------------------------------


def served_seconds(
    device: Accelerator, variant: str, shapes: Shapes, terms: Values, issue: Issue
) -> Array:
    """Return the times of products in a number format of `cost.surfaces.formats` [s]."""
    form = FORMATS[variant]
    values = {term.name: terms.get(term.name, term.prior) for term in product_terms(variant)}
    roof = roof_of(device, form, device.peak_rate(form.peak))
    return issue.seconds(roof, form, shapes, values, divided=variant not in assumed_whole)


# --- in training --------------------------------------------------------------------------------


def gemm_seconds(gemm: Gemm, device: Accelerator) -> float:
    """Return the time of a matrix product in training on the device [s].

    Ragged rows have a peak of their own, where the device states one.
    """
    of_format = device.peak_rate(gemm.peak)
    peak = min(of_format, device.gemm_ragged or of_format) if gemm.ragged else of_format
    if not device.tiles:
        return _trained_seconds(gemm, device, peak, peak / of_format) + device.launch_overhead
    rate = gemm.share * peak * gemm_efficiency(gemm, device, peak / of_format)
    return max(gemm.flops / rate, stream_seconds(gemm.nbytes, device)) + device.launch_overhead


def stream_seconds(nbytes: float, device: Accelerator) -> float:
    """Return the time to move `nbytes` through device memory [s]."""
    return nbytes / (device.memory_bandwidth * device.memory_achieved)


def _trained_seconds(gemm: Gemm, device: Accelerator, peak: float, slower: float) -> float:
    """Return the time of a product without its launch, by the fits of measured kernels [s].

    Formats without a fit have that of 16 bits at their own peak.
    """
    form = NumberFormat(gemm.peak, gemm.width, gemm.width)
    stated = device.products if gemm.width > 1 else device.narrow_products
    if gemm.width < 1:
        stated = _of_four_bits(device, stated.sustained)
    roof = roof_of(device, form, gemm.share * peak)
    shape = gemm.batch, gemm.m, gemm.n, gemm.k
    return _sustained_seconds(device.fits, stated, roof, form, slower, shape)


def _of_four_bits(device: Accelerator, sustained: float | None) -> Products:
    """Return what is known of products in 4 bits in training, none of which a file states.

    They sustain as much more than long kernels alone, which settle where they are hot, as those in
    8 bits do, `sustained`.
    """
    eight, four = (1 + training_terms(device.fits, peak)["heat"] for peak in ("fp8", "fp4"))
    return Products(sustained=None if sustained is None else min(1.0, sustained * eight / four))


@lru_cache(maxsize=100_000)
def _sustained_seconds(
    fits: tuple[KernelFits, ...],
    stated: Products,
    roof: Roof,
    form: NumberFormat,
    slower: float,
    shape: tuple[int, int, int, int],
) -> float:
    """Return the time of a product in training [s]: the device is hot, and has no time to cool."""
    terms = training_terms(fits, form.peak if form.activation <= 1 else "")
    values = stated_terms(terms, stated, terms)
    values["inner_half"] *= slower
    sustained = 1 / (1 + terms["heat"]) if stated.sustained is None else stated.sustained
    issue = Issue(0.0, sustained, converted=True)
    shapes = product_shapes(*(np.array([float(size)]) for size in shape))
    return float(issue.seconds(roof, form, shapes, values, divided=True)[0])


_NARROW: Final[Mapping[str, tuple[str, ...]]] = {"fp8": ("fp8",), "fp4": ("nvfp4", "fp8")}
"""Formats of measured products by the narrow peak that they use."""


@lru_cache(maxsize=256)
def training_terms(fits: tuple[KernelFits, ...], peak: str = "") -> Mapping[str, float]:
    """Return the terms of products in training, with the peak of their format if it is narrow.

    Formats are looked up in each fit before the next one's.
    """
    formats = (*_NARROW.get(peak, ()), "bf16", "fp16")
    found = measured_terms(fits, MEASURED_PRODUCTS, formats)
    return {term.name: term.prior for term in TERMS} | ({} if found is None else {**found.terms})


# --- tiles --------------------------------------------------------------------------------------


def gemm_efficiency(gemm: Gemm, device: Accelerator, slower: float = 1.0) -> float:
    r"""Return the share of peak that a product of this shape reaches, if not limited by memory.

    .. math:: e_{best} \max_{tile} e_{tile} \frac{m n / r c}{\lceil waves \rceil U}
              \frac{k}{k + k_{1/2}}

    with r, c the tile's rows and columns, U = `compute_units` and waves = tiles / U. The library
    picks the best tile. Products of 8-bit numbers may have a rate and a depth of their own. Filling
    the pipeline takes as long at a lower peak, so that k_1/2 shrinks with it.

    Parameters
    ----------
    slower : peak of this product over that of its format, below 1 for ragged rows
    """
    wide, narrow = device.products, device.narrow_products
    stated = wide if gemm.width > 1 else narrow
    best = wide.best if stated.best is None else stated.best
    half = wide.inner_half if stated.inner_half is None else stated.inner_half
    assert best is not None  # the record requires both with tiles
    assert half is not None
    shape = max(_tile_share(gemm, tile, device.compute_units) for tile in device.tiles)
    return best * shape * gemm.k / (gemm.k + half * slower)


def _tile_share(gemm: Gemm, tile: Tile, units: int) -> float:
    """Return useful work over work done, with the waste of edge tiles and the last wave."""
    tiles = gemm.batch * math.ceil(gemm.m / tile.rows) * math.ceil(gemm.n / tile.columns)
    waves = math.ceil(tiles / units)
    useful = gemm.batch * gemm.m * gemm.n / (tile.rows * tile.columns)
    return tile.efficiency * useful / (waves * units)
