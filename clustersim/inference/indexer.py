"""Sparse attention of a served model: an indexer chooses the tokens that a query attends to.

    key of each token --cached in 8 bits--> scores of all heads --sum--> the highest

Every device of a tensor group has the whole indexer.  DeepSeek-V3.2, arXiv:2512.02556, section 2;
vLLM, ``model_executor/models/deepseek_v2.py``, ``Indexer``; DeepGEMM, ``fp8_mqa_logits`` and
``fp8_paged_mqa_logits``.
"""

from typing import Final

from clustersim.arrays import Floats
from clustersim.catalog.records.models import IndexerShape, LatentShape
from clustersim.cost.kernels.price_list import KernelPrices
from clustersim.workload.kernels import Head

_SCALE: Final = 4.0
"""Size of the scale of a cached key [B]."""

_SCORE: Final = 8.0
"""Bytes of a score that is written and read in 32 bits."""

INDEX_KERNELS: Final = 2
"""Kernels of a layer: the scores, and the choice of the highest."""

_ROWS: Final = {"10.0": 128}
"""Query heads of a tile of attention to chosen tokens, to which fewer are padded; 64 elsewhere.

vLLM, ``v1/attention/backends/mla/flashmla_sparse.py``.
"""

_PRODUCT: Final = "fp8-block-alone"
"""Format of the scores: operands have 8 bits already."""


def indexed_bytes(latent: LatentShape) -> float:
    """Return the bytes of the cached key of a token, 0 without an indexer [B]."""
    return 0.0 if latent.indexer is None else latent.indexer.head_size + _SCALE


def decode_choice(
    kernels: KernelPrices, indexer: IndexerShape, sequences: Floats, keys: Floats, queries: int
) -> Floats:
    """Return the times to score `keys` cached tokens of sequences, and to choose [s].

    All `queries` of a sequence read its keys at once, and each has scores of its own.
    """
    each = indexer.head_size + _SCALE + _SCORE * queries
    return kernels.passes(each * sequences * keys, INDEX_KERNELS)


def prompt_choice(
    kernels: KernelPrices, indexer: IndexerShape, queries: Floats, keys: Floats
) -> Floats:
    """Return the times to score `keys` tokens for each query of prompts, and to choose [s].

    Heads are summed where they are multiplied: one product over all of their widths.
    """
    narrow = "fp8" in kernels.device.peak
    kernel = _PRODUCT if narrow else "bf16" if "bf16" in kernels.device.peak else "fp16"
    seconds, _ = kernels.products(kernel, queries, keys, indexer.heads * indexer.head_size)
    return seconds + kernels.passes(_SCORE * queries * keys, INDEX_KERNELS)


def chosen_seconds(
    kernels: KernelPrices,
    kernel: str,
    head: Head,
    indexer: IndexerShape,
    queries: Floats,
    prompts: Floats | float,
) -> Floats:
    """Return the times of attention of queries of prompts to the tokens chosen for each [s].

    All query heads read the same latent keys and values, which are not written out for each head.
    deepseek-ai/FlashMLA, ``flash_mla_sparse_fwd``.
    """
    rows = _ROWS.get(kernels.device.capability or "", 64)
    padded = head._replace(heads=max(head.heads, rows))
    triangle = queries / 2  # of causal attention, which these pairs do not have
    return kernels.prefill(kernel, padded, queries, indexer.tokens + triangle, prompts)
