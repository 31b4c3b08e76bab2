"""Words of published kernel tables in those of clustersim: kernels, formats, libraries, columns.

    attn_prefill, dtype bfloat16, kv_dtype fp8   -->  attention-prefill, bf16/fp8
    all_reduce, impl vLLM_custom_graph           -->  all-reduce, vllm-custom-graph

A kernel of a table becomes one or two measurements, each with the columns of its surface.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from clustersim.calibration.kernels.expert_loads import expert_loads
from clustersim.cost.surfaces.decode import assumed_packed
from clustersim.cost.surfaces.formats import FORMATS, OUTPUT
from clustersim.cost.surfaces.grouped import tile_counts
from clustersim.cost.surfaces.prefill import PRECISIONS
from clustersim.errors import ScenarioError

FORMAT_WORDS: Final[Mapping[str, str]] = {
    "bfloat16": "bf16",
    "half": "fp16",
    "float16": "fp16",
    "fp8_block": "fp8-block",
    "fp8_block(DeepGEMM)": "fp8-block-alone",
    "a8w8": "fp8-row",
    "a8w8_blockscale": "fp8-block-alone",
    "a4w4_blockscale": "mxfp4",
    "int8_wo": "int8-weights",
    "int4_wo": "int4-weights",
    "sq": "int8",
    "w4a16_mxfp4": "mxfp4-weights",
    "w4a8_mxfp4_mxfp8": "mxfp4-mxfp8",
}
"""Number formats by other names: TensorRT-LLM's, AITER's and PyTorch's. `sq` is SmoothQuant."""

LATENT_PREFILL: Final = (192.0, 128.0)
"""Widths of keys and values of latent attention, written out: DeepSeek-V2, arXiv:2405.04434."""

LATENT_DECODE: Final = (576.0, 512.0)
"""The same where queries are multiplied with the latent vectors; a token stores the first."""

assumed_in_node: Final = 8
"""Devices of a node of an exchange, where the table has nodes only."""


UNGATED: Final = frozenset({(2688.0, 1856.0), (2048.0, 5120.0), (8192.0, 5120.0)})
"""Widths of experts that ai-dynamo/aiconfigurator measures without a gate, those of Nemotron 3:
``collector/trtllm/collect_moe.py``."""


ROTATED: Final = ("/gemm/trtllm/1.3.",)
"""Benchmarks, by a part of their source, that time CUDA graphs of one product for each copy of its
weights: ai-dynamo/aiconfigurator, ``collector/trtllm/collect_gemm.py``, ``outside_loop_count``.
Earlier releases had five copies of weights of any size."""


ISSUED: Final = ("/b60/",)
"""Benchmarks of attention without CUDA graphs, which Intel's devices lack:
ai-dynamo/aiconfigurator, ``collector/helper.py``, ``benchmark_with_power``."""

ISSUED_PRODUCTS: Final = frozenset({("/gemm/vllm/", "fp8_block")})
"""Benchmarks of products without CUDA graphs, by their source and the word of their format: none of
vLLM in blocks of 8 bits is shorter than 57 us on Hopper, and 154 us on a B200."""

PREPARED: Final = ("/trtllm/",)
"""Benchmarks of attention that include rotation and the write into the cache, as TensorRT-LLM's
operator does: ai-dynamo/aiconfigurator, ``collector/trtllm/collect_attn.py``."""

REPEATS: Final[Mapping[str, float]] = {
    "/gemm/trtllm/1.3.": 12,
    "/gemm/trtllm/": 60,
    "/gemm/vllm/": 54,
    "SimuMax": 100,
    "aiter": 103,
    "vidur": 40,
}
"""Products in a row of benchmarks, or their graphs, by a part of their source, with warm-ups,
because they heat the device.

- ai-dynamo/aiconfigurator, ``collector/helper.py``: three runs, three graphs and six measured ones,
  of five copies of the weights before TensorRT-LLM 1.3; on Intel nine runs of six copies.
- MooreThreads/SimuMax, ``test_gemm_efficency.py``: 100 steps.
- ROCm/aiter, ``test_common.py``: two and 101 runs.
- microsoft/vidur, ``mlp_wrapper.py``: two passes over 20 blocks."""

assumed_repeats: Final = 30.0
"""The same of other benchmarks; assumed, as DeepGEMM's (``bench_kineto``)."""


class Measurement(NamedTuple):
    """One kind of kernel, its format or library, its shape and its time [s]."""

    kind: str
    variant: str
    shape: Mapping[str, float]
    seconds: float


LEAST_MEASURED: Final = 1e-12
"""Least time or rate of a row, so that quotients are finite."""


class Cells(NamedTuple):
    """The cells of a row, by column."""

    values: Mapping[str, str]

    def word(self, column: str) -> str:
        """Return a word; a `ValueError` where it is missing."""
        value = (self.values.get(column) or "").strip()
        if not value:
            raise ValueError(f"{column}: missing")
        return value

    def name(self, column: str) -> str:
        """Return a word that is no number."""
        word = self.word(column)
        try:
            float(word)
        except ValueError:
            return word
        raise ValueError(f"{column}: must be a name, not the number {word}")

    def number(self, column: str, least: float = 1.0) -> float:
        """Return a number of at least `least`."""
        text = self.word(column)
        value = finite_number(column, text)
        if value < least:
            raise ValueError(f"{column}: must be at least {least:g}, not {text}")
        return value

    def seconds(self, column: str = "seconds") -> float:
        """Return a time, or a rate, above 0."""
        return self.number(column, LEAST_MEASURED)

    def format(self, column: str = "dtype") -> str:
        """Return a number format by its name here."""
        text = self.word(column)
        name = FORMAT_WORDS.get(text, text)
        if name not in FORMATS:
            known = ", ".join(sorted({*FORMATS, *FORMAT_WORDS}))
            raise ValueError(f"{column}: no number format '{text}' (known: {known})")
        return name

    def library(self) -> str:
        """Return the library of a collective; PyTorch's where the table names none."""
        if "impl" not in self.values:
            return "torch"
        return self.word("impl").lower().replace("_", "-")


class UnmodelledKernelError(Exception):
    """A kernel without a surface; its text is the reason."""


Rows = Iterator[Measurement]


def _product(cells: Cells, kind: str = "gemm") -> Rows:
    sizes = {name: cells.number(name) for name in "mnk"}
    batch = cells.number("b") if "b" in cells.values else 1.0
    adds = cells.values.get("accumulate") == "True"
    width = 4.0 if cells.values.get("out_dtype") == "fp32" else OUTPUT
    shape = {"batch": batch, **sizes, "result": width * (2 if adds else 1), **_benchmark(cells)}
    yield Measurement(kind, cells.format(), shape, _product_seconds(cells, shape))


def _benchmark(cells: Cells) -> dict[str, float]:
    """Return the conditions of a benchmark of products, by its source."""
    source = cells.values.get("source", "")
    repeats = (number for name, number in REPEATS.items() if name in source)
    issued = ISSUED_PRODUCTS
    return {
        "rotated": float(any(name in source for name in ROTATED)),
        "repeats": float(next(repeats, assumed_repeats)),
        "issued": float(any(s in source and cells.values.get("dtype") == f for s, f in issued)),
    }


def _product_seconds(cells: Cells, shape: Mapping[str, float]) -> float:
    """Return the time of a product, of which some tables have the rate."""
    if "seconds" in cells.values:
        return cells.seconds()
    flops = 2 * math.prod(shape[name] for name in ("batch", *"mnk"))
    return flops / (1e12 * cells.seconds("achieved_tflops"))


def _attention(cells: Cells, *, queries: bool, packs_all: bool = False) -> Rows:
    head = cells.number("head_dim")
    heads = ("batch", "heads", "kv_heads")
    shape = {name: cells.number(name) for name in heads} | {"key": head, "value": head}
    packed = shape["heads"] if packs_all else float(assumed_packed)
    yield _attended(cells, "attention", shape, packed, queries=queries)


def _latent(cells: Cells, *, queries: bool) -> Rows:
    named = "num_heads" in cells.values
    heads = cells.number("num_heads" if named else "heads")
    key, value = LATENT_PREFILL if queries else LATENT_DECODE
    shape = {
        "batch": cells.number("batch_size" if named else "batch"),
        "heads": heads,
        "kv_heads": heads if queries else 1.0,
        "key": key,
        "value": value,
    }
    yield _attended(cells, "latent", shape, heads, queries=queries)


def _attended(
    cells: Cells, family: str, shape: Mapping[str, float], packed: float, *, queries: bool
) -> Measurement:
    formats = cells.format(), cells.format("kv_dtype")
    for column, name in zip(("dtype", "kv_dtype"), formats, strict=True):
        if name not in PRECISIONS:
            raise ValueError(f"{column}: no attention in {name} (known: {', '.join(PRECISIONS)})")
    variant = "/".join(formats)
    issued = any(name in cells.values.get("source", "") for name in ISSUED)
    keys = {"keys": cells.number("seq_kv"), "issued": float(issued)}
    if queries:
        prepared = float(any(name in cells.values.get("source", "") for name in PREPARED))
        shape = {**shape, "queries": cells.number("seq_q"), "prepared": prepared, **keys}
        return Measurement(f"{family}-prefill", variant, shape, cells.seconds())
    latent = family == "latent"
    read = shape["key"] if latent else shape["key"] + shape["value"]
    shape = {**shape, "read": read, "packed": packed, **keys, "repeated": 1.0}
    return Measurement(f"{family}-decode", variant, shape, cells.seconds())


def _experts(cells: Cells) -> Rows:
    experts, groups = int(cells.number("experts")), int(cells.number("moe_ep"))
    tokens, chosen = cells.number("tokens"), int(cells.number("topk"))
    loads = expert_loads(tokens, chosen, experts, groups, cells.word("distribution"))
    hidden, inner = cells.number("hidden"), cells.number("inter") / cells.number("moe_tp")
    gated = 0.0 if (hidden, cells.number("inter")) in UNGATED else 1.0
    shape = {
        **tile_counts(loads),
        "tokens": tokens,
        "entries": tokens * chosen,
        "experts": float(experts),
        "hidden": hidden,
        "inner": inner,
        "gated": gated,
    }
    yield Measurement("experts", cells.format(), shape, cells.seconds())


def _grouped(cells: Cells) -> Rows:
    loads = [cells.number("m")] * int(cells.number("groups"))
    shape = {**tile_counts(loads), "n": cells.number("n"), "k": cells.number("k")}
    yield Measurement("grouped-gemm", cells.format(), shape, cells.seconds())


def _two_layers(cells: Cells) -> Rows:
    counts = tile_counts([cells.number("tokens_per_expert")] * int(cells.number("local_experts")))
    hidden, inner = cells.number("hidden"), cells.number("inter")
    up, down = {"n": 2 * inner, "k": hidden}, {"n": hidden, "k": inner}
    for layer, column in ((up, "up_seconds"), (down, "down_seconds")):
        shape = {**counts, **layer}
        yield Measurement("grouped-gemm", cells.format(), shape, cells.seconds(column))


def _collective(cells: Cells, kind: str) -> Rows:
    shape = {"devices": cells.number("gpus", 2), "bytes": cells.number("bytes")}
    if "gpus_per_node" in cells.values and cells.number("gpus_per_node") < shape["devices"]:
        raise UnmodelledKernelError(f"{kind} over several nodes: it belongs to their links")
    yield Measurement(kind, cells.library(), shape, cells.seconds())


def _exchange(
    cells: Cells, kind: str, library: str = "", suffix: str = "", *, merged: bool = True
) -> Rows:
    nodes = cells.number("nodes") if "nodes" in cells.values else 1.0
    ranks = cells.number("ep", 2) if "ep" in cells.values else nodes * assumed_in_node
    variant = library or f"{cells.library()}/{cells.format()}{suffix}"
    shape = {
        "tokens": cells.number("tokens"),
        "experts": cells.number("topk"),
        "bytes": OUTPUT * cells.number("hidden"),
        "ranks": ranks,
        "nodes": nodes,
        "units": cells.number("sms", 0.0) if "sms" in cells.values else 0.0,
        "merged": float(merged),
    }
    yield Measurement(kind, variant, shape, cells.seconds())


def _low_latency(cells: Cells, kind: str) -> Rows:
    yield from _exchange(cells, kind, "deepep-low-latency", merged=False)


KERNELS: Final[Mapping[str, Callable[[Cells], Rows]]] = {
    "gemm": _product,
    "matmul": partial(_product, kind="training-gemm"),
    "attn_prefill": partial(_attention, queries=True),
    "mha_prefill": partial(_attention, queries=True),
    "attn_decode": partial(_attention, queries=False),
    "mha_decode": partial(_attention, queries=False, packs_all=True),
    "mla_prefill": partial(_latent, queries=True),
    "mla_decode": partial(_latent, queries=False),
    "moe_grouped_gemm": _experts,
    "grouped_gemm": _grouped,
    "grouped_gemm_decode": _two_layers,
    "grouped_gemm_prefill": _two_layers,
    "all_reduce": partial(_collective, kind="all-reduce"),
    "all_gather": partial(_collective, kind="all-gather"),
    "reduce_scatter": partial(_collective, kind="reduce-scatter"),
    "alltoall": partial(_collective, kind="all-to-all"),
    "deepep_normal_dispatch": partial(_exchange, kind="dispatch", library="deepep-normal"),
    "deepep_normal_combine": partial(_exchange, kind="combine", library="deepep-normal"),
    "deepep_ll_dispatch": partial(_low_latency, kind="dispatch"),
    "deepep_ll_combine": partial(_low_latency, kind="combine"),
    "alltoall_prepare": partial(_exchange, kind="prepare"),
    "alltoall_dispatch": partial(_exchange, kind="dispatch"),
    "alltoall_combine": partial(_exchange, kind="combine"),
    "alltoall_combine_low_precision": partial(_exchange, kind="combine", suffix="-narrow"),
}
"""Kernels by the word of the column `kernel`; `mha` is FlashAttention, which packs all query heads
that share keys in a tile (`pack_gqa`), unlike `attn`, TensorRT-LLM's.  A word with a colon, as
``gemm:mlp_up_proj``, is the kernel before it, at some place of a model."""

NOT_MODELLED: Final[Mapping[str, str]] = {
    "elementwise": "passes over memory are not fitted by shape",
    "send_recv": "a message between two devices belongs to its links",
    "attn_mixed_batch": "a batch of prefill and decode is not one kernel",
}
"""Kernels of published tables without a surface, with the reason."""


def measurements(cells: Cells) -> list[Measurement]:
    """Return the measurements of a row.

    Raises
    ------
    ValueError
        when a cell is missing or invalid, or the kernel is unknown.
    UnmodelledKernelError
        when the kernel has no surface.
    """
    place = cells.word("kernel").partition(":")[0] if "kernel" in cells.values else "gemm"
    if place in NOT_MODELLED:
        raise UnmodelledKernelError(f"{place}: {NOT_MODELLED[place]}")
    if "model" in cells.values and place not in KERNELS:
        raise UnmodelledKernelError("layers of a model: the table has no shapes")
    if place not in KERNELS:
        raise ValueError(f"kernel: no '{place}' (known: {', '.join(sorted(KERNELS))})")
    return list(KERNELS[place](cells))


_PRINTED: Final = 5
"""Invalid rows that a message lists."""


def finite_number(column: str, text: str) -> float:
    """Return a number; a `ValueError` where a text is none, or infinite."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{column}: '{text}' is not a number")
    return value


def reject_rows(file: str, problems: Sequence[str]) -> None:
    """Raise a `ScenarioError` with the first invalid rows of a file, if there are any."""
    if problems:
        more = len(problems) - _PRINTED
        rest = [f"{file}: {more} more rows are invalid"] if more > 0 else []
        raise ScenarioError("\n".join([*problems[:_PRINTED], *rest]))
