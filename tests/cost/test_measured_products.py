"""Matrix products of devices with measured kernels, as they run in training."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.catalog.checking import checked
from clustersim.catalog.finding import find
from clustersim.catalog.records.accelerators import AcceleratorRecord
from clustersim.catalog.tree import Tree
from clustersim.cost.kernels.price_list import KernelPrices
from clustersim.cost.kernels.products import gemm_seconds, training_terms
from clustersim.cost.surfaces.products import PRODUCTS
from clustersim.cost.surfaces.surface import predict
from clustersim.errors import CatalogError, ClustersimError
from clustersim.topology.accelerator import Products, build_accelerator
from clustersim.workload.kernels import Gemm

MODEST = settings(max_examples=40, deadline=None)


def record(shipped, **changes):
    """Return the record of a shipped accelerator with some keys of its file replaced."""
    tree = Tree.of(find("accelerator", shipped))
    tree.data.update(changes)
    return checked(AcceleratorRecord, tree)


H100 = build_accelerator(record("h100-sxm"))
HOT = replace(H100, products=Products(), narrow_products=Products(), launch_overhead=0.0)
"""An H100 that sustains what its kernels alone do."""


def alone(m, n, k):
    """Return the time of a product in 16 bits by the surface of measured kernels [s]."""
    sizes = {
        "batch": 1,
        "m": m,
        "n": n,
        "k": k,
        "result": 2,
        "rotated": 0,
        "repeats": 12,
        "issued": 0,
    }
    shapes = {name: np.array([float(size)]) for name, size in sizes.items()}
    terms = training_terms(H100.fits)
    seconds = predict(PRODUCTS, H100, shapes, "bf16", {**terms, "launch": 0.0})
    return float(seconds[0])


def test_a_product_of_a_second_takes_what_it_takes_alone():
    """Such a kernel is as hot alone as in training: the surface and the product agree to 0.3 %."""
    side = 2**16
    product = Gemm("x", side, side, side)

    assert gemm_seconds(product, HOT) == pytest.approx(alone(side, side, side), rel=3e-3)


@MODEST
@given(st.integers(1, 2**14), st.integers(1, 2**14), st.integers(1, 2**14))
def test_a_product_in_training_is_never_faster_than_alone(m, n, k):
    """Training is never cooler than a kernel alone."""
    assert gemm_seconds(Gemm("x", m, n, k), HOT) >= alone(m, n, k) * (1 - 1e-12)


@MODEST
@given(st.floats(0.3, 1), st.sampled_from([1, 2]))
def test_what_training_sustains_divides_the_time(share, width):
    """Half of the rate is twice the time, but for the launch."""
    stated = {"narrow_products" if width == 1 else "products": Products(sustained=share)}
    full = {name: Products(sustained=1.0) for name in stated}
    product = Gemm("x", 4096, 4096, 4096, peak="fp8" if width == 1 else "bf16", width=width)
    slow, fast = (gemm_seconds(product, replace(HOT, **each)) for each in (stated, full))

    assert slow * share == pytest.approx(fast)


def test_a_stated_best_replaces_that_of_the_kernels():
    """At half of the share of peak a large product takes twice as long."""
    best = training_terms(H100.fits)["best"]
    half = replace(HOT, products=Products(best=best / 2))
    product = Gemm("x", 8192, 8192, 8192)

    assert gemm_seconds(product, half) == pytest.approx(2 * gemm_seconds(product, HOT), rel=0.02)


def test_a_device_like_another_has_its_kernels():
    """An A100 of 40 GB has no fits of its own: those of the larger part are used."""
    device = build_accelerator(record("a100-40gb"))

    assert [fit.name for fit in device.fits] == ["a100-80gb"]


def test_a_format_without_a_fit_has_that_of_16_bits():
    """An A100 has no measured products in tf32: twice the bytes at half of the peak."""
    device = replace(build_accelerator(record("a100-80gb")), launch_overhead=0.0)
    seconds = [
        gemm_seconds(Gemm("x", 8192, 8192, 8192, peak=peak, width=width), device)
        for peak, width in (("bf16", 2), ("tf32", 4))
    ]

    assert seconds[1] == pytest.approx(2 * seconds[0], rel=0.01)


def test_a_roofline_in_the_file_replaces_the_kernels():
    """`tiles` with both others describe products whole, and no fit is read."""
    tile = {"value": [{"rows": 128, "columns": 128, "efficiency": 1.0}], "assumed": "for a test"}
    share, depth = ({"value": value, "assumed": "for a test"} for value in (0.5, 100))
    gemm = {"best": share, "inner_half": depth, "tiles": tile}

    assert build_accelerator(record("h100-sxm", gemm=gemm)).fits == ()


TILES = {"value": [{"rows": 8, "columns": 8, "efficiency": 1.0}], "assumed": "for a test"}
SHARE = {"value": 0.5, "assumed": "for a test"}


@pytest.mark.parametrize(
    ("gemm", "told"),
    [
        ({"tiles": TILES}, "best: missing, but the file gives tiles (give it too)"),
        (
            {"tiles": TILES, "best": SHARE, "inner_half": SHARE, "sustained": SHARE},
            "sustained: is a share of measured kernels, which tiles replace (give only one"
            " of both)",
        ),
    ],
)
def test_half_a_roofline_is_one_line(gemm, told):
    """A roofline is given whole, and without a share of kernels that it replaces."""
    with pytest.raises(ClustersimError, match="gemm") as found:
        record("h100-sxm", gemm=gemm)

    assert told in str(found.value)


def test_a_copied_accelerator_without_measured_products_is_one_line():
    """It names the key to add, and the accelerators that have measured products."""
    unknown = record("h100-sxm", name="mine", gemm={})

    with pytest.raises(CatalogError) as found:
        build_accelerator(unknown)

    assert str(found.value).startswith(
        "mine: kernels_like: missing, and no products are measured on this accelerator (add"
        " kernels_like: NAME of the most similar one of a100-80gb, a100-pcie, "
    )
    assert " h100-sxm, " in str(found.value)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("name", ["b200", "gb200", "b300", "gb300"])
def test_products_in_4_bits_are_throttled_by_their_own_heat(name):
    """They have the terms of nvfp4, and sustain as much beyond hot kernels as those in 8 bits."""
    device = build_accelerator(record(name))
    eight, four = (training_terms(device.fits, peak) for peak in ("fp8", "fp4"))
    m, n, k = 8192, 28672, 8192
    cool = replace(device, narrow_products=Products(sustained=1.0), launch_overhead=0.0)
    hot = replace(cool, narrow_products=Products(sustained=0.8))

    def seconds(chip, peak, width):
        return gemm_seconds(Gemm("x", m, n, k, peak=peak, width=width), chip)

    share = (1 + eight["heat"]) / (1 + four["heat"])
    assert four["best"] != eight["best"]
    assert seconds(hot, "fp8", 1) == pytest.approx(seconds(cool, "fp8", 1) / 0.8)
    assert seconds(hot, "fp4", 9 / 16) == pytest.approx(
        seconds(cool, "fp4", 9 / 16) * min(1, share) / min(1, 0.8 * share)
    )
    assert seconds(hot, "fp4", 9 / 16) < seconds(hot, "fp8", 1) < seconds(hot, "bf16", 2)


@pytest.mark.parametrize("name", ["v100-sxm2-32gb", "rtx-a6000", "h100-pcie", "mi300x"])
def test_a_service_has_the_best_product_that_the_file_of_its_device_states(name):
    """Services on an H100 PCIe had 0.69 of its peak, that of an SXM part; its file has 0.75."""
    device = build_accelerator(record(name))
    size = 16384
    (served,), _ = KernelPrices(device).products("fp16", np.array([float(size)]), size, size)
    trained = gemm_seconds(Gemm("x", size, size, size, peak="fp16"), device)
    rate = 2 * size**3 / served / device.peak_rate("fp16")

    assert 0.92 * device.products.best < rate < device.products.best
    sustained = device.products.sustained or 1 / (1 + training_terms(device.fits)["heat"])
    assert served == pytest.approx(sustained * trained, rel=0.06)
