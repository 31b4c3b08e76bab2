"""Surfaces of kernels: their limits are those of the device, and more work takes no less time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.catalog.checking import checked
from clustersim.catalog.finding import find
from clustersim.catalog.records.accelerators import AcceleratorRecord
from clustersim.catalog.tree import Tree
from clustersim.cost.surfaces.decode import DECODE
from clustersim.cost.surfaces.exchange import EXCHANGE, ONCE, TWICE
from clustersim.cost.surfaces.formats import FORMATS
from clustersim.cost.surfaces.grouped import EXPERTS, idle_tiles, tile_counts
from clustersim.cost.surfaces.kernel_kinds import SURFACES
from clustersim.cost.surfaces.prefill import PREFILL
from clustersim.cost.surfaces.products import PRODUCTS
from clustersim.cost.surfaces.surface import predict, smooth_maximum, warmed
from clustersim.topology.accelerator import build_accelerator


def device_of(name):
    return build_accelerator(checked(AcceleratorRecord, Tree.of(find("accelerator", name))))


DEVICE = device_of("b200")  # it has all peaks

SIZES = st.integers(1, 20_000)


def seconds(surface, variant, found=None, device=DEVICE, **shape):
    """Return the time of one kernel."""
    columns = {name: np.array([float(value)]) for name, value in shape.items()}
    return float(predict(surface, device, columns, variant, found or {})[0])


def product(variant="bf16", found=None, m=4096, n=4096, k=4096, **conditions):
    shape = {
        "batch": 1,
        "m": m,
        "n": n,
        "k": k,
        "result": 2,
        "rotated": 0,
        "repeats": 12,
        "issued": 0,
    }
    return seconds(PRODUCTS, variant, found, **{**shape, **conditions})


def test_a_large_product_runs_at_its_share_of_peak():
    """16,384 x 16,384 x 16,384 on a cool device reach `best` of the peak, but for some per cent.

    Its units load their tiles at once.
    """
    side = 2**14
    taken = product(found={"best": 0.8, "heat": 1e-3, "unit": 1e12}, m=side, n=side, k=side)

    assert 2 * side**3 / taken == pytest.approx(0.8 * DEVICE.peak["bf16"], rel=0.06)


def test_a_product_of_one_row_reads_its_weights():
    """(1, 8192) x (8192, 65536) moves 1.07 GB at `memory` of the bandwidth, besides its start."""
    found = {"memory": 0.8, "launch": 1e-6, "depth": 1e-8}
    taken = product(found=found, m=1, n=65536, k=8192)

    assert taken == pytest.approx(2 * 65536 * 8192 / (0.8 * DEVICE.memory_bandwidth), rel=0.02)


@given(m=SIZES, n=SIZES, k=SIZES)
def test_a_product_takes_longer_than_a_roofline(m, n, k):
    """No product exceeds `best` of the peak, `memory` of the bandwidth, or its launch."""
    found = {"best": 0.8, "memory": 0.8, "launch": 2e-6}
    taken = product(found=found, m=m, n=n, k=k)

    assert taken >= 2e-6
    assert taken >= 2 * m * n * k / (0.8 * DEVICE.peak["bf16"])
    assert taken >= 2 * (m * k + n * k + m * n) / (0.8 * DEVICE.memory_bandwidth)


@pytest.mark.parametrize(
    ("n", "graphs"), [(1024, 1 / 5), (5120, 1 / 4), (8192, 1 / 2), (16384, 1.0)]
)
def test_a_benchmark_starts_a_graph_for_as_many_copies_of_weights_as_exceed_the_cache(n, graphs):
    """Weights of 8, 42, 67 and 134 MB exceed 132 MB sixteen, four, two times or at once."""
    found = {"graph": 4e-6, "heat": 0.0}
    alone, rotated = (product(found=found, n=n, rotated=one) for one in (0, 1))

    assert DEVICE.cache == 126 * 2**20
    assert rotated - alone == pytest.approx(graphs * 4e-6, rel=2e-3)


def test_a_format_whose_kernels_do_not_divide_k_leaves_units_idle():
    """Eight tiles of k = 65,536 take longer by far, as no more than eight units compute them."""
    found = {"launch": 1e-6, "depth": 1e-8, "conversion": 0.1}
    divided, whole = (
        product(variant, found, m=64, n=512, k=65536) for variant in ("fp8", "fp8-block")
    )

    assert whole > 2 * divided


def test_few_tiles_do_not_reach_the_bandwidth_of_memory():
    """Sixteen units that load 50 GB/s each read weights of 16 MB in 21 us, not in 3."""
    found = {"unit": 50e9, "memory": 0.8, "launch": 1e-6, "depth": 1e-8, "conversion": 0.1}
    taken = product("fp8-block", found, m=1, n=512, k=32768)

    columns = 32  # of the narrowest tile
    assert taken == pytest.approx(1e-6 + (columns + 1) * 32768 / 50e9, rel=0.05)


@given(few=st.integers(1, 100), more=st.integers(1, 1000))
def test_a_device_that_computed_for_longer_is_no_faster(few, more):
    """Heat grows with the products in a row."""
    cool, hot = (product(repeats=number) for number in (few, few + more))

    assert cool <= hot


@given(cost=st.floats(1e-7, 1e-4))
def test_parts_of_k_are_added_only_where_that_pays(cost):
    """A dearer sum of parts delays a small product by no more than a product in one part."""
    shape = {"m": 128, "n": 128, "k": 16384}
    cheap, dear, never = (product(found={"split": one}, **shape) for one in (1e-9, cost, 1e-2))

    assert cheap <= dear <= never


@given(m=SIZES, n=SIZES, k=SIZES, more=st.integers(1, 4))
def test_more_products_in_a_batch_take_no_less_time(m, n, k, more):
    """A batch takes at least the time of a part of it."""
    assert product(batch=1 + more, m=m, n=n, k=k) >= product(batch=1, m=m, n=n, k=k) * (1 - 1e-9)


def test_narrower_weights_are_read_sooner():
    """Where memory limits, weights of 4 bits take less time than of 8, these less than of 16."""
    names = ("int4-weights", "int8-weights", "bf16")
    taken = [product(name, m=1, n=65536, k=8192) for name in names]

    assert taken == sorted(taken)


@pytest.mark.parametrize("variant", FORMATS)
def test_every_format_has_terms_within_their_bounds(variant):
    """A prior between its bounds is where a fit can start."""
    for term in PRODUCTS.terms(variant):
        assert term.low < term.prior < term.high, term


def test_each_surface_has_terms_of_different_names():
    """A value belongs to one term."""
    for kind, surface in SURFACES.items():
        variant = "bf16/bf16" if "attention" in kind or "latent" in kind else "bf16"
        names = [term.name for term in surface.terms(variant)]

        assert len(set(names)) == len(names), kind


@given(a=st.floats(1e-7, 1), b=st.floats(1e-7, 1), sharpness=st.floats(0.01, 20))
def test_a_smooth_maximum_lies_between_maximum_and_sum(a, b, sharpness):
    """Bytes and work overlap, at best completely and at worst not at all."""
    both = float(smooth_maximum(np.array(a), np.array(b), sharpness))

    assert max(a, b) * (1 - 1e-9) <= both <= (a + b) * (1 + 1e-9)


def test_heat_slows_long_kernels_only():
    """A kernel of 1 us keeps its time, one of a second loses the whole share."""
    short, long = np.array([1e-6]), np.array([1.0])

    assert warmed(short, short, 0.2)[0] == pytest.approx(1e-6, rel=1e-3)
    assert warmed(long, long, 0.2)[0] == pytest.approx(1.2, rel=1e-2)


# --- attention --------------------------------------------------------------------------------


def prefill(queries, keys, variant="bf16/bf16", found=None, device=DEVICE, width=128, **shape):
    columns = {"batch": 1, "heads": 32, "kv_heads": 8, "prepared": 0, "issued": 0, **shape}
    columns |= {"queries": queries, "keys": keys, "key": width, "value": width}
    return seconds(PREFILL, variant, found, device, **columns)


def decode(keys, variant="bf16/bf16", found=None, width=128, **shape):
    columns = {"batch": 64, "heads": 32, "kv_heads": 8, "packed": 32, "repeated": 0, "issued": 0}
    columns |= {"keys": keys, "key": width, "value": width, "read": 2 * width, **shape}
    return seconds(DECODE, variant, found, **columns)


def test_attention_of_a_sequence_twice_as_long_takes_four_times_as_long():
    """The causal half of a square quadruples, but for a tenth of tiles and launch."""
    ratio = prefill(65536, 65536) / prefill(32768, 32768)

    assert ratio == pytest.approx(4, rel=0.1)


def test_cached_keys_cost_their_products_but_no_tiles():
    """Queries over a prefix take longer than alone, and less time than the whole sequence."""
    assert prefill(1024, 1024) < prefill(1024, 16384) < prefill(16384, 16384)


def test_decode_reads_its_cache():
    """64 sequences of 64 Ki tokens and 8 heads of 128 numbers take the time of their bytes."""
    found = {"memory": 0.9, "launch": 1e-6, "depth": 1e-8, "tile": 1e-8, "row": 1e-10}
    nbytes = 2 * 64 * 65536 * 8 * 256

    assert decode(65536, found=found) == pytest.approx(
        nbytes / (0.9 * DEVICE.memory_bandwidth), rel=0.02
    )


def test_a_group_too_large_to_pack_reads_its_keys_again():
    """64 query heads on one take several times as long where a tile packs 32 of them."""
    assert decode(4096, heads=64, kv_heads=1) > 3 * decode(4096, heads=64, kv_heads=1, packed=64)


def test_tiles_of_wide_heads_take_longer():
    """Short sequences cost their tiles, whose time grows with the width of a head."""
    wide, narrow = (decode(2, batch=4096, width=n) for n in (256, 64))

    assert narrow < wide < 4 * narrow


def test_groups_of_more_heads_than_a_tensor_core_multiplies_start_later():
    """17 query heads that share keys launch another kernel than 16."""
    small, large = (decode(4, batch=1, heads=n, kv_heads=1) for n in (16, 17))

    assert large > small + 0.5e-6


def test_keys_of_8_bits_are_read_in_half_the_time():
    """A long cache takes half the time in half the bytes."""
    ratio = decode(131072) / decode(131072, variant="bf16/fp8")

    assert ratio == pytest.approx(2, rel=0.02)


def test_the_last_queries_of_a_prompt_attend_to_all_its_keys():
    """A head of 4,096 queries has 32 tiles, the last of which takes twice the mean of all."""
    found = {"launch": 1e-7, "tile": 1e-8, "best": 0.5, "head_half": 60, "memory": 1.2}
    longest = 4 * 128 * 128 * 4096 * DEVICE.compute_units / (0.5 * DEVICE.peak["bf16"])

    assert prefill(4096, 4096, found=found, heads=1, kv_heads=1) == pytest.approx(longest, rel=0.02)


def test_rotation_and_cache_within_the_kernel_take_their_own_time():
    """Short prompts of many sequences move their bytes for them before they attend."""
    found = {"preparation": 1.5, "launch": 1e-7}
    apart, whole = (prefill(128, 128, found=found, batch=1024, prepared=given) for given in (0, 1))
    nbytes = 1024 * 128 * 256 * (2 * 32 + 2 * 8)

    assert whole - apart == pytest.approx(1.5 * nbytes / (0.78 * DEVICE.memory_bandwidth), rel=0.01)


@pytest.mark.parametrize(
    ("name", "variant", "width", "slower"),
    [
        ("l40s", "fp8/fp8", 64, True),
        ("l40s", "fp8/fp8", 128, False),
        ("l40s", "fp8/fp8", 256, True),
        ("arc-pro-b60", "bf16/fp8", 64, False),
        ("arc-pro-b60", "bf16/fp8", 128, True),
        ("arc-pro-b60", "bf16/bf16", 128, False),
        ("b200", "fp8/fp8", 256, False),
    ],
)
def test_sums_that_exceed_the_registers_are_spilled(name, variant, width, slower):
    """Tiles of 8 bits on an L40S have 192, 80 and 144 sums a thread for heads of these widths.

    On an Arc Pro B60, which converts keys in registers, heads of 64 and 128 have 96 and 160, and
    keys of 16 bits spill none.  A B200 keeps sums out of the registers.
    """
    device = device_of(name)
    whole, spilled = (
        prefill(16384, 16384, variant, {"spilled": given}, device, width) for given in (1.0, 0.5)
    )

    assert (spilled > 1.8 * whole) == slower
    assert slower or spilled == whole


@pytest.mark.parametrize(("width", "queries"), [(64, 128), (128, 256)])
def test_an_intel_tile_of_wide_heads_has_twice_the_queries(width, queries):
    """Prompts of up to 128 or 256 tokens have a tile for each head, which takes a time of its own.

    20 sequences of 64 heads are 64 tiles on each of 20 compute units of an Arc Pro B60.
    """
    arc = device_of("arc-pro-b60")
    found = {"tile": 1e-3, "launch": 1e-6, "host": 1e-6}
    few, more = (
        prefill(tokens, tokens, found=found, device=arc, width=width, batch=20, heads=64)
        for tokens in (queries, queries + 1)
    )

    assert few == pytest.approx(64e-3, rel=0.1)
    assert more == pytest.approx(128e-3, rel=0.1)


def test_a_benchmark_that_repeats_a_call_finds_short_caches_in_that_of_the_device():
    """Keys of 16 MB are read faster the second time, those of 2 GB are not: the cache has 126."""
    found = {"launch": 1e-7, "depth": 1e-8, "tile": 1e-8, "row": 1e-10, "hot": 4.0}
    short, long = (
        decode(keys, found=found) / decode(keys, found=found, repeated=1) for keys in (64, 8192)
    )

    assert short > 3
    assert long == pytest.approx(1, rel=0.01)


def test_keys_that_one_unit_reads_take_the_time_of_its_rate():
    """Without parts, a sequence of 131,072 tokens is read by one unit of 148."""
    found = {"launch": 1e-7, "depth": 1e-8, "unit": 3.0, "parts": 1.0}
    rate = 3 * DEVICE.memory_bandwidth / DEVICE.compute_units
    taken = decode(131072, "bf16/fp8", found, batch=1, heads=5, kv_heads=1)

    assert taken == pytest.approx(131072 * 256 / rate, rel=0.01)
    assert taken > 10 * decode(131072, "bf16/fp8", {**found, "parts": 32}, batch=1, kv_heads=1)


def test_attention_without_a_graph_takes_at_least_the_time_of_the_host():
    """The host needs 60 us for a call of either kind, in a benchmark that issues each one."""
    found = {"host": 60e-6, "launch": 5e-6}
    for kernel in (
        lambda issued: decode(16, found=found, batch=1, issued=issued),
        lambda issued: prefill(16, 16, found=found, issued=issued),
    ):
        assert kernel(1) == pytest.approx(60e-6, rel=0.01)
        assert kernel(0) < 20e-6


# --- experts and exchanges --------------------------------------------------------------------


def experts(loads, variant="bf16", tokens=None, chosen=1, count=None, gated=1, **given):
    tokens = sum(loads) if tokens is None else tokens
    columns = {**tile_counts(loads), "tokens": tokens, "hidden": 4096, "inner": 1536}
    return seconds(
        EXPERTS,
        variant,
        **columns,
        entries=tokens * chosen,
        experts=count or len(loads),
        gated=gated,
        **given,
    )


def test_experts_without_tokens_are_not_read():
    """One active expert of 64 takes about the time of one, not of 64."""
    one = experts([1] + [0] * 63)

    assert one < 0.3 * experts([1] * 64)


def test_experts_without_a_gate_are_read_in_two_thirds_of_the_time():
    """Two matrices of the same width instead of three."""
    launch = experts([0] * 64, tokens=0)
    whole, ungated = experts([1] * 64) - launch, experts([1] * 64, gated=0) - launch

    assert ungated / whole == pytest.approx(2 / 3, abs=0.03)


@pytest.mark.parametrize(("variant", "most"), [("mxfp4-mxfp8", 2.0), ("fp8-block", 1.1)])
def test_kernels_launched_for_the_worst_routing_pay_for_experts_elsewhere(variant, most):
    """Three experts with two tokens each take longer when 128 tokens could reach 381 others."""
    few = experts([2, 2, 2], variant, tokens=3, chosen=2, count=384)
    many = experts([2, 2, 2], variant, tokens=128, chosen=6, count=384)

    assert many > few
    assert (many > most * few) == (variant == "mxfp4-mxfp8")


@pytest.mark.parametrize(
    ("name", "variant", "all_rows"),
    [("rtx-pro-6000", "fp8-block", True), ("rtx-pro-6000", "fp8", False),
     ("b200", "fp8-block", False), ("h100-sxm", "fp8-block", False)]
)  # fmt: skip
def test_products_of_tokens_routed_elsewhere_take_time_where_kernels_multiply_all_rows(
    name, variant, all_rows
):
    """An expert with 1,024 of 131,072 rows takes as long as one with all, or less than a half."""
    found = {"moved": 0.1, "shared": 0.1}
    elsewhere, here = (
        experts([rows], variant, 2**14, 8, 128, found=found, device=device_of(name))
        for rows in (2**10, 2**17)
    )

    assert elsewhere <= here
    assert (elsewhere > 0.9 * here) == all_rows
    assert (elsewhere > here / 2) == all_rows


def test_idle_tiles_are_those_of_the_worst_routing():
    """128 tokens with 6 of 384 experts: one token for each, 384 in tiles of 8, 6 of them here.

    min(768, 384) + (768 - 384 - 6) / 8 = 431.25
    """
    shapes = {"entries": 128 * 6, "experts": 384, "routed": 6}
    columns = {name: np.array([float(value)]) for name, value in shapes.items()}

    assert idle_tiles(columns) == pytest.approx(431.25)


def test_a_token_more_than_a_tile_holds_needs_another_tile():
    """257 tokens of each expert take longer than 256 by more than a token."""
    assert experts([257] * 64) > 1.05 * experts([256] * 64)


def test_every_device_prepares_the_tokens_of_all_that_share_its_experts():
    """8 experts of one device take longer where 64 devices send their tokens, most elsewhere."""
    alone = experts([64] * 8)

    assert experts([64] * 8, tokens=64 * 512) > 1.5 * alone


def test_tiles_of_decode_start_while_others_read():
    """Tiles next to a long cache add less than their own time to it."""
    quick, slow = {"tile": 1e-8, "row": 1e-10}, {"tile": 5e-6, "row": 1e-10}
    start = 64 * 8 * 5e-6 / DEVICE.compute_units
    added = decode(65536, found=slow) - decode(65536, found=quick)

    assert 0 < added < 0.1 * start


def test_a_call_without_a_graph_takes_at_least_the_time_of_the_host():
    """Messages up to a size take the time of a call by PyTorch; large ones that of their bytes."""
    small, large = {"devices": 8, "bytes": 2**12}, {"devices": 8, "bytes": 2**30}
    found = {"host": 40e-6}

    assert seconds(TWICE, "torch", found, **small) == pytest.approx(40e-6, rel=0.01)
    assert seconds(TWICE, "torch", found, **large) == pytest.approx(
        seconds(TWICE, "nccl", **large), rel=0.01
    )


@pytest.mark.parametrize("library", ["nccl", "trtllm", "vllm-custom-graph"])
def test_small_buffers_take_the_quicker_of_two_paths(library):
    """A collective takes its quick path for small buffers only, and never one that is slower."""
    sizes = [2**power for power in range(8, 31)]
    terms = {"quick": 0.5, "second": 5e-6}
    quick, other, both = (
        [seconds(TWICE, library, terms | paths, devices=8, bytes=size) for size in sizes]
        for paths in ({"second": 1.0}, {"quick": 1e-9}, {})
    )

    assert both == pytest.approx([min(pair) for pair in zip(quick, other, strict=True)])
    assert both[0] == quick[0] < other[0]
    assert both[-1] == other[-1] < quick[-1]


def test_an_engine_reads_small_buffers_of_all_other_devices():
    """A one-shot all-reduce moves p/2 times the bytes of a ring, on a path of the same rate."""
    terms = {"base": 0.0, "hop": 0.0, "second": 1.0, "quick": 1.0}
    for devices in (2, 4, 8):
        once, ring = (
            seconds(TWICE, library, terms, devices=devices, bytes=2**18)
            for library in ("trtllm", "nccl")
        )
        assert once == pytest.approx(ring * devices / 2)


def test_two_devices_can_have_a_faster_path_than_more():
    """1 GiB on 2 devices takes a third of the time where their rate is 3 times as high."""
    shape = {"devices": 2, "bytes": 2**30}
    alike, pair = (seconds(TWICE, "nccl", {"pair": factor}, **shape) for factor in (1.0, 3.0))

    assert alike / pair == pytest.approx(3, rel=0.02)
    assert seconds(TWICE, "nccl", {"pair": 3.0}, devices=4, bytes=2**30) == pytest.approx(
        seconds(TWICE, "nccl", {"pair": 1.0}, devices=4, bytes=2**30)
    )


def test_an_all_reduce_moves_twice_the_bytes_of_a_gather():
    """1 GiB on 8 devices: half of an all-reduce is its gather."""
    shape = {"devices": 8, "bytes": 2**30}
    ratio = seconds(TWICE, "nccl", **shape) / seconds(ONCE, "nccl", **shape)

    assert ratio == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize(
    ("quick", "slow"),
    [
        ({"ranks": 8, "nodes": 1, "merged": 1}, {"ranks": 32, "nodes": 4, "merged": 1}),
        ({"ranks": 16, "nodes": 2, "merged": 1}, {"ranks": 16, "nodes": 2, "merged": 0}),
    ],
    ids=["over the network", "a copy for each expert"],
)
def test_an_exchange_is_limited_by_the_network_and_by_its_copies(quick, slow):
    """Tokens take longer on four nodes than on one, and in 8 copies than once for each of 2."""
    shape = {"tokens": 4096, "experts": 8, "bytes": 14336, "units": 20}
    times = [seconds(EXCHANGE, "deepep-normal", **shape, **each) for each in (quick, slow)]

    assert times[1] > 2 * times[0]
