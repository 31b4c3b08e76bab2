"""Floating-point operations of a step, in the two conventions of the literature.

Model FLOPs count forward once and backward twice, with a multiplication and an addition each,
without recomputation and without halving attention for its causal mask.  Hardware FLOPs add the
recomputed forward of the blocks.  Narayanan et al. 2021, eq. 3, arXiv:2104.04473; Korthikanti
et al. 2022, eq. 7 and 8, arXiv:2205.05198.

Fused kernels of attention skip the masked half (`masked_flops`): with long sequences both counts
exceed what runs, and can exceed the peak of a device.  HFU counts what runs.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from clustersim.catalog.records.models import MambaShape
from clustersim.workload.model import Layer, Transformer


def layer_forward_flops(model: Transformer, layer: Layer) -> dict[str, float]:
    r"""Return the forward FLOPs of one layer on one sequence, by operation [FLOP].

    .. math:: 2 s (4 h^2 + 2 h f) + 4 s^2 h

    for the GPT, with s = `sequence`, h = `hidden`, f = `ffn`: four projections of h by h, two of h
    by f, and the two products of attention, of s by the length of the sample where samples are
    packed.
    """
    s, h = model.sequence, model.hidden
    flops = _mixer(model, layer)
    mats, shape = (3 if model.gated else 2), model.experts
    if not layer.mlp:
        return flops
    if layer.experts and shape is not None:
        flops["router"] = 2.0 * s * h * shape.count
        for kind, active in (("expert", shape.top_k), ("shared", shape.shared)):
            flops[f"{kind} up"] = 2.0 * s * (mats - 1) * h * shape.ffn * active
            flops[f"{kind} down"] = 2.0 * s * h * shape.ffn * active
    else:
        flops["up"] = 2.0 * s * (mats - 1) * h * model.ffn
        flops["down"] = 2.0 * s * h * model.ffn
    return flops


def _mixer(model: Transformer, layer: Layer) -> dict[str, float]:
    if layer.mixer is None:
        return {}
    return _mamba(model) if layer.mixer == "mamba" else _attention(model, layer)


def _mamba(model: Transformer) -> dict[str, float]:
    s, h, shape = model.sequence, model.hidden, model.mamba
    assert shape is not None
    return {
        "mamba in": 2.0 * s * h * shape.columns,
        "scan": scan_flops(shape, s),
        "mamba out": 2.0 * s * shape.inner * h,
    }


def scan_flops(shape: MambaShape, tokens: int) -> float:
    r"""Return the forward FLOPs of a scan of Mamba-2 over a sequence, by chunks [FLOP].

    .. math:: 2 s [g q n + i (q + 2 n)]

    with g groups of n numbers, the width i of all heads and chunks of q tokens: the products of
    outputs and inputs of the states within a chunk, their product with the tokens, the state of
    each chunk, and what it adds to the next. Dao and Gu 2024, arXiv:2405.21060, section 6.

    >>> shape = MambaShape(heads=2, head_size=4, groups=1, state=8, chunk=16)
    >>> scan_flops(shape, 32)
    24576.0

    Of a Gated DeltaNet it is

    .. math:: 2 s [3 a q n + i (2 q + 3 n)]

    with a heads: the products of keys and of queries with the keys of the chunk, the keys and
    values of a chunk reduced by each other, their correction by the state before it, states and
    results. Yang et al. 2024, arXiv:2412.06464, section 3.3.
    """
    if shape.delta:
        keys = 3 * shape.heads * shape.chunk * shape.state
        return 2.0 * tokens * (keys + shape.inner * (2 * shape.chunk + 3 * shape.state))
    within = shape.groups * shape.chunk * shape.state
    return 2.0 * tokens * (within + shape.inner * (shape.chunk + 2 * shape.state))


def rescanned_flops(model: Transformer, sequences: int) -> float:
    r"""Return what the backward of scans computes again, in no convention [FLOP].

    .. math:: 2 s [g q n + i (q + n)]

    in each layer: the products within chunks, their states, and gradients of the decay.
    state-spaces/mamba, ``ops/triton/ssd_combined.py``, ``_mamba_chunk_scan_combined_bwd``.  Of a
    Gated DeltaNet

    .. math:: 2 s [3 a q n + i (q + 2 n)]

    fla-org/flash-linear-attention, ``ops/gated_delta_rule/chunk.py``,
    ``chunk_gated_delta_rule_bwd``.
    """
    shape, layers = model.mamba, sum(layer.mixer == "mamba" for layer in model.stack)
    if shape is None:
        return 0.0
    less = shape.state + (shape.chunk if shape.delta else 0)
    once = scan_flops(shape, model.sequence) - 2.0 * model.sequence * shape.inner * less
    return sequences * layers * once


def _attention(model: Transformer, layer: Layer) -> dict[str, float]:
    s, h, a, d = model.sequence, model.hidden, model.heads, model.head_size
    core = 2.0 * s * model.seen(layer) * a * (d + model.value_size)
    if model.latent is None:
        columns = d * (model.query_heads + 2 * model.kv_heads)
        return {
            "qkv": 2.0 * s * h * columns,
            "attention": core,
            "projection": 2.0 * s * a * d * h,
        }
    shape = model.latent
    queries = h * a * d if shape.query is None else shape.query * (h + a * d)
    keys = h * (shape.keys_values + shape.rope)
    keys += shape.keys_values * a * (shape.nope + shape.value)
    chosen: dict[str, float] = {}
    if (indexer := shape.indexer) is not None:
        made = ((shape.query or h) * indexer.heads + h) * indexer.head_size + h * indexer.heads
        chosen = {"indexer": 2.0 * s * made + _scores(model, layer)}
    return {
        "qkv": 2.0 * s * (queries + keys),
        **chosen,
        "attention": core,
        "projection": 2.0 * s * a * shape.value * h,
    }


def _scores(model: Transformer, layer: Layer) -> float:
    """Return the forward FLOPs of the scores of an indexer, of all pairs of tokens [FLOP]."""
    indexer = None if model.latent is None else model.latent.indexer
    if indexer is None:
        return 0.0
    return 2.0 * model.sequence * indexer.heads * indexer.head_size * model.length(layer)


def logits_forward_flops(model: Transformer) -> float:
    """Return the FLOPs of the product with the embedding on one sequence, 2 s h V [FLOP]."""
    return 2.0 * model.sequence * model.hidden * model.vocab


def attention_flops(model: Transformer) -> float:
    """Return the forward FLOPs of products of tokens by tokens on one sequence [FLOP].

    They are the two of attention, and the scores of an indexer.
    """
    return sum(
        layer_forward_flops(model, layer)["attention"] + _scores(model, layer)
        for layer in model.stack
        if layer.mixer == "attention"
    )


def model_flops(model: Transformer, sequences: int) -> float:
    r"""Return the FLOPs of training on `sequences` [FLOP].

    .. math:: 72 B s l h^2 (1 + s / 6h + V / 12 l h)

    for the GPT with f = 4 h: three times the forward of layers and logits.
    """
    layers = sum(
        count * sum(layer_forward_flops(model, layer).values())
        for layer, count in Counter(model.stack).items()
    )
    return 3.0 * sequences * (layers + logits_forward_flops(model))


def masked_flops(
    model: Transformer, sequences: int, recomputed: Iterable[tuple[Layer, Collection[str]]]
) -> float:
    r"""Return the FLOPs of attention that hardware FLOPs count and fused kernels skip [FLOP].

    .. math:: 2 a s w (d + e) (3 + r) - 2 a p \left[ (1 + r) (d + e) + 3 d + 2 e \right]

    in a layer with a window of w tokens, p visible pairs (`Transformer.pairs`), and r = 1 where its
    attention is recomputed. The backward of fused attention has five products, and recomputes the
    scores. Dao 2023, arXiv:2307.08691.

    Parameters
    ----------
    recomputed : every layer with the names of its recomputed operations
    """
    s, d, e = model.sequence, model.head_size, model.value_size
    skipped = 0.0
    for layer, names in recomputed:
        if layer.mixer != "attention":
            continue
        forwards = 1 + ("attention" in names)
        counted = s * model.seen(layer) * (d + e) * (2 + forwards)
        skipped += counted - model.pairs(layer) * (forwards * (d + e) + 3 * d + 2 * e)
    return 2.0 * sequences * model.heads * skipped


def hardware_flops(
    model: Transformer, sequences: int, recomputed: Iterable[tuple[Layer, Collection[str]]]
) -> float:
    r"""Return the model FLOPs and those of recomputation [FLOP].

    .. math:: 96 B s l h^2 (1 + s / 6h + V / 16 l h)

    for the GPT with f = 4 h and full recomputation; without, the same as `model_flops`.

    Parameters
    ----------
    recomputed : every layer with the names of its recomputed operations
    """
    flops = {layer: layer_forward_flops(model, layer) for layer in model.kinds}
    extra = sum(
        of_operation
        for layer, names in recomputed
        if names
        for name, of_operation in flops[layer].items()
        if name in names
    )
    return model_flops(model, sequences) + sequences * extra
